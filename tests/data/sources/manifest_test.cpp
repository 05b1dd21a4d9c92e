#include <unistd.h>

#include "data/sources/csv.h"
#include "data/sources/source_test.h"

namespace trainer::data {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;

class Manifest : public SourceTest {
 protected:
  Manifest() {
    for (const char* name : {"1.jpg", "2.jpg", "3.jpg"}) write(name, name);
  }
  config::Manifest config(const std::string& text, const std::string& name) const {
    config::Manifest config;
    config.path = write(name, text).string();
    return config;
  }
  std::unique_ptr<Source> source(const std::string& text, const std::string& name = "m.csv",
                                 const std::vector<std::string>& classes = {}) const {
    config::Manifest made = config(text, name);
    made.classes = classes;
    return make_source(made, 1);
  }
  // Without the manifest's name, with which it must start.
  std::string error(const std::string& text, const std::string& name = "m.csv",
                    const std::vector<std::string>& classes = {}) const {
    const std::string message = error_of(Exit::data, [&] { source(text, name, classes); });
    const std::string start = (folder_ / name).string() + ": ";
    EXPECT_EQ(message.substr(0, start.size()), start);
    return message.substr(std::min(start.size(), message.size()));
  }
  static std::vector<std::int64_t> labels(const Source& from) {
    std::vector<std::int64_t> all;
    for (std::int64_t i = 0; i < from.size(); ++i) all.push_back(from.label(i));
    return all;
  }
};

TEST_F(Manifest, ReadsCsvWithNames) {
  const auto made = source("path,label\n2.jpg,dog\n1.jpg,cat\n3.jpg,dog\n");
  EXPECT_THAT(made->class_names(), ElementsAre("cat", "dog"));
  EXPECT_THAT(labels(*made), ElementsAre(1, 0, 1));
  EXPECT_EQ(fetched(*made, 0), "2.jpg");
  EXPECT_EQ(made->sample_name(1), (folder_ / "1.jpg").string());
  EXPECT_TRUE(made->encoded());
  EXPECT_FALSE(made->weighted());
  EXPECT_EQ(made->weight(0), 1.0F);
  EXPECT_EQ(made->describe(), "manifest " + (folder_ / "m.csv").string() + ": 3 images, 2 classes");
}

TEST_F(Manifest, TakesColumnsInAnyOrderWithMarkAndCarriageReturns) {
  const auto made = source(
      "\xEF\xBB\xBFweight,note,label,path\r\n0.5,\"a \"\"b\"\", c\nd\",x,1.jpg\r\n\r\n2,,y,2.jpg");
  EXPECT_THAT(made->class_names(), ElementsAre("x", "y"));
  ASSERT_EQ(made->size(), 2);
  EXPECT_TRUE(made->weighted());
  EXPECT_EQ(made->weight(0), 0.5F);
  EXPECT_EQ(made->weight(1), 2.0F);
  EXPECT_EQ(fetched(*made, 1), "2.jpg");
}

TEST_F(Manifest, TakesAnyFileName) {
  const std::string odd = "a, \"b\"\r\nc";
  write(odd, "odd");
  const auto made = source("path,label\n" + csv_field(odd) + ",0\n");
  EXPECT_EQ(fetched(*made, 0), "odd");
  EXPECT_EQ(made->sample_name(0), folder_.string() + "/a, \"b\"\\r\\nc");
}

TEST_F(Manifest, ReadsJsonLines) {
  for (const char* name : {"m.jsonl", "m.ndjson", "m.json"}) {
    const auto made = source(
        "{\"path\": \"1.jpg\", \"label\": \"b\", \"weight\": 3, \"more\": []}\n\n"
        "{\"label\": \"a\", \"path\": \"2.jpg\"}\r\n",
        name);
    EXPECT_THAT(made->class_names(), ElementsAre("a", "b"));
    EXPECT_THAT(labels(*made), ElementsAre(1, 0));
    EXPECT_EQ(made->weight(0), 3.0F);
    EXPECT_EQ(made->weight(1), 1.0F);
  }
  const auto numbers = source("{\"path\": \"1.jpg\", \"label\": 2}", "n.jsonl");
  EXPECT_THAT(numbers->class_names(), ElementsAre("0", "1", "2"));
}

TEST_F(Manifest, TakesIntegersForIndices) {
  const auto made = source("path,label\n1.jpg,10\n2.jpg,2\n");
  EXPECT_EQ(made->classes(), 11);
  EXPECT_EQ(made->class_names().at(10), "10");
  EXPECT_THAT(labels(*made), ElementsAre(10, 2));
  // One that is no index makes all of them names.
  EXPECT_THAT(source("path,label\n1.jpg,10\n2.jpg,02\n")->class_names(), ElementsAre("02", "10"));
}

TEST_F(Manifest, FollowsTheListOfClasses) {
  EXPECT_THAT(labels(*source("path,label\n1.jpg,cat\n2.jpg,0\n", "m.csv", {"dog", "cat"})),
              ElementsAre(1, 0));
  // A name goes before an index.
  EXPECT_THAT(labels(*source("path,label\n1.jpg,1\n2.jpg,0\n", "m.csv", {"1", "0"})),
              ElementsAre(0, 1));
}

TEST_F(Manifest, JoinsPathsToTheRoot) {
  write("images/4.jpg", "four");
  config::Manifest made =
      config("path,label\n4.jpg,0\n" + (folder_ / "1.jpg").string() + ",0\n", "lists/m.csv");
  made.root = (folder_ / "images").string();
  EXPECT_EQ(fetched(*make_source(made, 1), 0), "four");
  EXPECT_EQ(fetched(*make_source(made, 1), 1), "1.jpg");
  made.root.reset();
  EXPECT_EQ(error_of(Exit::data, [&] { make_source(made, 1); }),
            made.path + ": line 2: " + (folder_ / "lists/4.jpg").string() +
                ": No such file or directory; paths are relative to " +
                (folder_ / "lists").string() + ", which `root` sets");
}

TEST_F(Manifest, NamesTheLineOfALabelThatFitsNoClass) {
  const std::string text = "path,label\n1.jpg,dog\n2.jpg,\"c\n\"\"\"\n3.jpg,dgo\n";
  EXPECT_EQ(error(text, "m.csv", {"dog", "c\n\""}),
            "line 5: label \"dgo\" is none of the classes; did you mean \"dog\"?");
  EXPECT_EQ(error("path,label\n1.jpg,2\n", "m.csv", {"a", "b"}),
            "line 2: label 2 is outside the 2 classes, whose indices are 0 to 1");
  EXPECT_EQ(error("path,label\n1.jpg,-1\n", "m.csv", {"a", "b"}),
            "line 2: label \"-1\" is none of the classes");
  EXPECT_EQ(error("path,label\n1.jpg,99999999999999999999\n"),
            "line 2: label 99999999999999999999 is too large to be the index of a class");
  EXPECT_EQ(error("{\"path\": \"1.jpg\", \"label\": 7}", "m.jsonl", {"a"}),
            "line 1: label 7 is outside the 1 classes, whose indices are 0 to 0");
}

TEST_F(Manifest, NamesClassesWithoutSamplesAndDoubleOnes) {
  EXPECT_EQ(error("path,label\n1.jpg,a\n", "m.csv", {"a", "b\n"}),
            "the class \"b\\n\" has no samples; add some or take it out of the classes");
  EXPECT_EQ(error("path,label\n1.jpg,a\n", "m.csv", {"a", "a"}), "the class \"a\" is listed twice");
}

TEST_F(Manifest, NamesWhatIsWrongWithACsvFile) {
  EXPECT_EQ(error(""), "the file is empty");
  EXPECT_EQ(error("\n"), "there are no samples in it");
  EXPECT_EQ(error("path,label\n"), "there are no samples in it");
  EXPECT_EQ(error("file,label\n1.jpg,0\n"),
            "line 1: the header has no column \"path\", its columns are: file, label");
  EXPECT_EQ(error("path;label\n"),
            "line 1: the header has no column \"path\", its columns are: path;label");
  EXPECT_EQ(error("path,label,path\n"), "line 1: the header has two columns \"path\"");
  EXPECT_EQ(error("path,label\n1.jpg,0\n2.jpg\n"),
            "line 3: there are 1 fields, but the header has 2");
  EXPECT_EQ(error("path,label\n,0\n"), "line 2: the path is empty");
  EXPECT_EQ(error("path,label\n1.jpg,\n"), "line 2: the label is empty");
  EXPECT_EQ(error(std::string("path,label\na\0b,0\n", 17)), "line 2: the path holds a zero byte");
  EXPECT_EQ(error("path,label\n\"1.jpg,0\n"), "line 2: a field's opening quote has no closing one");
  EXPECT_EQ(error("path,label\n\"1\".jpg,0\n"), "line 2: text follows a field's closing quote");
  for (const char* weight : {"-1", "nan", "inf", "1e99", "", "2x", "-inf"}) {
    EXPECT_EQ(
        error(std::string("path,label,weight\n1.jpg,0,") + weight + "\n"),
        std::string("line 2: the weight \"") + weight + "\" is not a finite number of 0 or more");
  }
}

TEST_F(Manifest, NamesWhatIsWrongWithJsonLines) {
  const auto wrong = [this](const std::string& line) { return error("\n" + line, "m.jsonl"); };
  EXPECT_EQ(wrong("{\"path\": \"1.jpg\""), "line 2: this is no JSON object");
  EXPECT_EQ(wrong("[]"), "line 2: this is no JSON object");
  EXPECT_EQ(wrong("{\"path\": \"\xff\", \"label\": 0}"), "line 2: this is no JSON object");
  EXPECT_EQ(wrong("{\"label\": 0}"), "line 2: there is no key \"path\"");
  EXPECT_EQ(wrong("{\"path\": 1, \"label\": 0}"), "line 2: \"path\" is no text");
  EXPECT_EQ(wrong("{\"path\": \"1.jpg\"}"), "line 2: there is no key \"label\"");
  EXPECT_EQ(wrong("{\"path\": \"1.jpg\", \"label\": 1.5}"),
            "line 2: \"label\" is neither a name nor an integer");
  EXPECT_EQ(wrong("{\"path\": \"1.jpg\", \"label\": 0, \"weight\": \"2\"}"),
            "line 2: the weight \"2\" is not a finite number of 0 or more");
}

TEST_F(Manifest, NamesAFileThatIsMissingOrOfAnotherKind) {
  EXPECT_EQ(error("x", "m.txt"), "a manifest's name ends with .csv, .jsonl, .ndjson or .json");
  config::Manifest missing;
  missing.path = (folder_ / "missing.csv").string();
  EXPECT_EQ(error_of(Exit::data, [&] { make_source(missing, 1); }),
            missing.path + ": cannot open the file: No such file or directory");
}

TEST_F(Manifest, FindsOtherMissingFilesWhenTheyAreRead) {
  const auto made = source("path,label\n1.jpg,a\n9.jpg,b\n");
  EXPECT_EQ(error_of(Exit::data, [&] { fetched(*made, 1); }),
            (folder_ / "9.jpg").string() +
                " (class \"b\"): cannot open the file: No such file or directory");
}

TEST_F(Manifest, FingerprintFollowsPathsLabelsWeightsAndClasses) {
  const auto print = [this](const std::string& rows, const std::vector<std::string>& classes = {}) {
    return source("path,label,weight\n" + rows, "m.csv", classes)->fingerprint();
  };
  const std::uint64_t first = print("1.jpg,a,1\n2.jpg,b,1\n");
  EXPECT_EQ(print("1.jpg,a,1\n2.jpg,b,1\n"), first);
  EXPECT_NE(print("2.jpg,a,1\n1.jpg,b,1\n"), first);
  EXPECT_NE(print("1.jpg,b,1\n2.jpg,a,1\n"), first);
  EXPECT_NE(print("1.jpg,a,2\n2.jpg,b,1\n"), first);
  EXPECT_NE(print("1.jpg,a,1\n2.jpg,b,1\n", {"b", "a"}), first);
}

}  // namespace
}  // namespace trainer::data

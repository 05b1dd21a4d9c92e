#include "data/tools/split.h"

#include <cmath>
#include <set>

#include "data/sources/source_test.h"

namespace trainer::data {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;

class SplitData : public SourceTest {
 protected:
  void add(const std::string& class_name, int count) const {
    for (int i = 0; i < count; ++i) {
      const std::string name = class_name + "/" + std::to_string(i) + ".jpg";
      write("images/" + name, name);
    }
  }
  std::unique_ptr<Source> image_folder() const {
    config::ImageFolder config;
    config.path = (folder_ / "images").string();
    return make_source(config, 1);
  }
  std::unique_ptr<Source> manifest(const fs::path& path) const {
    config::Manifest config;
    config.path = path.string();
    return make_source(config, 1);
  }
  SplitOptions options(double share, std::uint64_t seed, const std::string& name = "") const {
    return {share, seed, folder_ / (name + "train.csv"), folder_ / (name + "val.csv")};
  }
  static std::vector<int> counts(const Source& source) {
    std::vector<int> all(static_cast<std::size_t>(source.classes()));
    for (std::int64_t i = 0; i < source.size(); ++i)
      ++all[static_cast<std::size_t>(source.label(i))];
    return all;
  }
  std::string error(const Source& source, Exit code, double share = 0.5) const {
    return error_of(code, [&] { split(source, options(share, 1)); });
  }
};

TEST_F(SplitData, TakesTheShareOfEachClass) {
  add("a", 2);
  add("b", 10);
  add("c", 14);
  add("d", 15);
  const SplitCounts made = split(*image_folder(), options(0.1, 1));
  EXPECT_EQ(made.train, 36);
  EXPECT_EQ(made.val, 5);
  const auto train = manifest(folder_ / "train.csv");
  const auto val = manifest(folder_ / "val.csv");
  EXPECT_THAT(counts(*train), ElementsAre(1, 9, 13, 13));
  EXPECT_THAT(counts(*val), ElementsAre(1, 1, 1, 2));
  EXPECT_EQ(train->class_names(), image_folder()->class_names());
  EXPECT_EQ(val->class_names(), image_folder()->class_names());
}

TEST_F(SplitData, LeavesOneOfEachClassForTraining) {
  add("a", 2);
  split(*image_folder(), options(0.99, 1));
  EXPECT_EQ(manifest(folder_ / "train.csv")->size(), 1);
}

TEST_F(SplitData, HasEachSampleOnceInOrder) {
  add("a", 20);
  add("b", 30);
  split(*image_folder(), options(0.3, 1));
  std::set<std::string> all;
  for (const char* name : {"train.csv", "val.csv"}) {
    const auto part = manifest(folder_ / name);
    std::string before;
    for (std::int64_t i = 0; i < part->size(); ++i) {
      EXPECT_TRUE(all.insert(fetched(*part, i)).second);
      EXPECT_LT(before, part->sample_name(i));
      before = part->sample_name(i);
    }
  }
  EXPECT_EQ(all.size(), 50U);
}

TEST_F(SplitData, IsAFunctionOfTheSeed) {
  add("a", 40);
  const auto val = [this](std::uint64_t seed, const std::string& name) {
    split(*image_folder(), options(0.25, seed, name));
    return content(folder_ / (name + "val.csv"));
  };
  const std::string first = val(1, "1");
  EXPECT_EQ(val(1, "2"), first);
  EXPECT_NE(val(2, "3"), first);
  // What another class has does not matter.
  add("b", 3);
  EXPECT_TRUE(val(1, "4").starts_with(first));
}

TEST_F(SplitData, WritesAnyNameAbsolutely) {
  for (const char* name : {"x,\"y\".jpg", "a\r\nb.jpg", "\xff.jpg", " z.jpg"})
    write(std::string("images/c\nd/") + name, name);
  const fs::path before = fs::current_path();
  fs::current_path(folder_);
  config::ImageFolder config;
  config.path = "images";
  const auto source = make_source(config, 1);
  split(*source, {0.5, 1, "train.csv", "val.csv"});
  fs::current_path(before);
  std::set<std::string> contents;
  for (const char* name : {"train.csv", "val.csv"}) {
    const auto part = manifest(folder_ / name);
    EXPECT_THAT(part->class_names(), ElementsAre("c\nd"));
    for (std::int64_t i = 0; i < part->size(); ++i) contents.insert(fetched(*part, i));
  }
  EXPECT_THAT(contents, ElementsAre(" z.jpg", "a\r\nb.jpg", "x,\"y\".jpg", "\xff.jpg"));
}

TEST_F(SplitData, KeepsIndicesAndWeights) {
  add("0", 2);
  add("10", 2);
  add("2", 2);
  const auto source = image_folder();
  split(*source, options(0.5, 1));
  const auto val = manifest(folder_ / "val.csv");
  for (std::int64_t i = 0; i < 3; ++i) EXPECT_EQ(val->label(i), i) << "index 2 is class 10 or 2";

  write("w.csv", "path,label,weight\nimages/0/0.jpg,b,0.1\nimages/0/1.jpg,b,0.1\n");
  split(*manifest(folder_ / "w.csv"), options(0.5, 1, "w"));
  EXPECT_EQ(manifest(folder_ / "wval.csv")->weight(0), 0.1F);
}

TEST_F(SplitData, NamesWhatCannotBeSplit) {
  add("a", 3);
  add("one", 1);
  EXPECT_EQ(error(*image_folder(), Exit::data), "the class \"one\" has only one sample, " +
                                                    (folder_ / "images/one/0.jpg").string() +
                                                    ": it cannot be in both parts");
  EXPECT_EQ(error(MemorySource({{"x"}}, {}), Exit::data),
            "memory: only folders and manifests of image files can be split, since a manifest "
            "lists files");
  for (const double share : {0.0, 1.0, -1.0, std::nan("")}) {
    EXPECT_EQ(error(*image_folder(), Exit::usage, share),
              "the share for validation must be between 0 and 1");
  }
  EXPECT_FALSE(fs::exists(folder_ / "train.csv"));
}

TEST_F(SplitData, WritesBothManifestsOrNone) {
  add("a", 3);
  write("val.csv", "mine");
  EXPECT_EQ(error(*image_folder(), Exit::storage),
            (folder_ / "val.csv").string() + ": exists already; remove it or choose another name");
  EXPECT_EQ(content(folder_ / "val.csv"), "mine");
  EXPECT_FALSE(fs::exists(folder_ / "train.csv"));
  const SplitOptions missing{0.5, 1, folder_ / "train.csv", folder_ / "no/val.csv"};
  const std::string message = error_of(Exit::storage, [&] { split(*image_folder(), missing); });
  EXPECT_TRUE(message.starts_with("cannot write " + (folder_ / "no/val.csv.partial-").string()))
      << message;
  for (const auto& entry : fs::directory_iterator(folder_))
    EXPECT_EQ(entry.path().filename().string().find("train"), std::string::npos) << entry.path();
}

}  // namespace
}  // namespace trainer::data

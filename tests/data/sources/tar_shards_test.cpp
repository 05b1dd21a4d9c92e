#include "data/sources/source_test.h"
#include "data/sources/tar.h"

namespace trainer::data {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::StartsWith;

const fs::path kShards = "data/golden/shards";
// As in tests/oracle/shards.py.
std::string long_name() {
  std::string name;
  for (int i = 0; i < 20; ++i) name += "folder-";
  name += "x/";
  for (int i = 0; i < 120; ++i) name += "ä";
  return name;
}

using Members = std::vector<std::pair<std::string, std::string>>;

std::string tar(const Members& members) {
  std::string archive;
  for (const auto& [name, content] : members) {
    archive += tar_header(name, content.size()) + content;
    archive.append(tar_padding(content.size()), '\0');
  }
  return archive.append(kTarEnd, '\0');
}

class TarShards : public SourceTest {
 protected:
  std::unique_ptr<Source> source(const fs::path& path, const std::vector<std::string>& classes = {},
                                 bool index = true) const {
    config::TarShards config;
    config.path = path.string();
    config.classes = classes;
    config.index = index;
    return make_source(config, 1);
  }
  std::string error(const fs::path& path, const std::vector<std::string>& classes = {}) const {
    return error_of(Exit::data, [&] { source(path, classes); });
  }
  // Of a shard with these members, after its name.
  std::string error_in(const Members& members) const { return error_in(tar(members)); }
  std::string error_in(const std::string& archive) const {
    const fs::path path = write("wrong.tar", archive);
    const std::string message = error(path);
    EXPECT_THAT(message, StartsWith(path.string() + ": "));
    return message.substr(std::min(message.size(), path.string().size() + 2));
  }
};

TEST_F(TarShards, ReadsTheFormatsOfOtherPrograms) {
  for (const char* format : {"ustar", "pax", "gnu"}) {
    const fs::path path = kShards / (std::string(format) + ".tar");
    const auto made = source(path);
    const bool longer = std::string(format) != "ustar";
    ASSERT_EQ(made->size(), longer ? 4 : 3) << format;
    EXPECT_THAT(made->class_names(), ElementsAre("0", "1", "2"));
    EXPECT_TRUE(made->encoded());
    EXPECT_TRUE(made->weighted());
    EXPECT_EQ(fetched(*made, 0), "first");
    EXPECT_EQ(made->label(0), 2);
    EXPECT_EQ(made->weight(0), 1.0F);
    EXPECT_EQ(made->sample_name(0), path.string() + ": train/0001.jpg");
    EXPECT_EQ(fetched(*made, 1), std::string(512, 's'));
    EXPECT_EQ(made->label(1), 1);
    EXPECT_EQ(made->sample_name(1), path.string() + ": train/b.JPEG");
    EXPECT_EQ(fetched(*made, 2), "");
    EXPECT_EQ(made->label(2), 0);
    EXPECT_EQ(made->weight(2), 0.5F);
    if (!longer) continue;
    EXPECT_EQ(fetched(*made, 3), std::string(1000, 'y'));
    EXPECT_EQ(made->label(3), 1);
    EXPECT_EQ(made->sample_name(3), path.string() + ": " + long_name() + ".webp");
  }
}

TEST_F(TarShards, GivesViewsWithoutCopying) {
  const auto made = source(kShards / "ustar.tar");
  std::vector<std::uint8_t> buffer;
  const Raw first = made->fetch(0, buffer);
  const Raw again = made->fetch(0, buffer);
  EXPECT_EQ(first.bytes.data(), again.bytes.data());
  EXPECT_EQ(buffer.capacity(), 0U);
}

TEST_F(TarShards, TakesAFolderAFileOrAGlobInSortedOrder) {
  for (const char* name : {"b", "a", "c"})
    write(std::string("shards/") + name + ".tar", tar({{"1.jpg", name}, {"1.cls", "0"}}));
  write("shards/notes.txt", "x");
  write("shards/.hidden.tar", "x");
  const auto contents = [this](const fs::path& path) {
    const auto made = source(path);
    std::string all;
    for (std::int64_t i = 0; i < made->size(); ++i) all += fetched(*made, i);
    return all;
  };
  EXPECT_EQ(contents(folder_ / "shards"), "abc");
  EXPECT_EQ(contents(folder_ / "shards/b.tar"), "b");
  EXPECT_EQ(contents(folder_ / "shards/?.t*r"), "abc");
  EXPECT_EQ(contents(folder_ / "shards/a*"), "a");
}

TEST_F(TarShards, TakesClassesFromTheListBesideThem) {
  const fs::path path =
      write("s/1.tar", tar({{"1.jpg", "x"}, {"1.cls", "cat"}, {"2.jpg", "y"}, {"2.cls", "0"}}));
  EXPECT_THAT(source(path)->class_names(), ElementsAre("0", "cat"));
  write("s/classes.txt", "dog\r\ncat\n\nbird\n");
  const auto listed = source(path);
  EXPECT_THAT(listed->class_names(), ElementsAre("dog", "cat", "bird"));
  EXPECT_EQ(listed->label(0), 1);
  EXPECT_EQ(listed->label(1), 0);
  const auto configured = source(path, {"cat"});
  EXPECT_EQ(configured->label(0), 0);
  EXPECT_EQ(configured->label(1), 0) << "an index goes before names";
}

TEST_F(TarShards, IndicesGoBeforeNames) {
  write("s/classes.txt", "1\n0\n");
  const auto made = source(write("s/1.tar", tar({{"1.jpg", "x"}, {"1.cls", "0"}})));
  EXPECT_EQ(made->label(0), 0);
}

TEST_F(TarShards, NamesTheKeyOfAnIncompleteSample) {
  EXPECT_EQ(error_in(Members{{"a/1.jpg", "x"}}),
            "key \"a/1\": there is no label: neither a .cls, nor a \"label\" in a .json");
  EXPECT_EQ(
      error_in(Members{{"1.jpg", "x"}, {"1.cls", "0"}, {"2\n.cls", "0"}, {"2\n.seg.png", ""}}),
      "key \"2\\n\": there is no image, only 2\\n.seg.png (an image's name has one dot: "
      "<key>.<jpg|png|...>)");
  EXPECT_EQ(error_in(Members{{"1.jpg", "x"}, {"1.png", "x"}}),
            "key \"1\": there are two images, 1.jpg and 1.png");
  EXPECT_EQ(error_in(Members{{"1.jpg", "x"}, {"1.cls", " \n"}}), "key \"1\": the label is empty");
  EXPECT_EQ(error_in(Members{{"1.jpg", "x"}, {"1.json", "{"}}),
            "key \"1\": its .json is no JSON object");
  EXPECT_EQ(error_in(Members{{"1.jpg", "x"}, {"1.json", "{\"label\": null}"}}),
            "key \"1\": the label in its .json is neither a name nor an integer");
  EXPECT_EQ(error_in(Members{{"1.json", "{\"label\": 0, \"weight\": -1}"}}),
            "key \"1\": the weight -1 is not a finite number of 0 or more");
  EXPECT_EQ(error_in(Members{}), "there are no samples in it");
}

TEST_F(TarShards, NamesALabelThatFitsNoClass) {
  const fs::path path = write("1.tar", tar({{"1.jpg", "x"},
                                            {"1.cls", "dog"},
                                            {"2.jpg", "x"},
                                            {"2.cls", "dgo"},
                                            {"3.jpg", "x"},
                                            {"3.cls", "9"}}));
  EXPECT_EQ(error(path, {"dog", "cat"}),
            path.string() + ": 2.jpg: label \"dgo\" is none of the classes; did you mean \"dog\"?");
  EXPECT_EQ(error(path, {"dog", "dgo"}),
            path.string() + ": 3.jpg: label 9 is outside the 2 classes, whose indices are 0 to 1");
  const fs::path whole = write("2.tar", tar({{"1.jpg", "x"}, {"1.cls", "dog"}}));
  EXPECT_EQ(error(whole, {"dog", "cat"}),
            whole.string() +
                ": the class \"cat\" has no samples; add some or take it out of the classes");
}

TEST_F(TarShards, NamesWhatIsMissing) {
  EXPECT_EQ(error(folder_ / "missing.tar"),
            (folder_ / "missing.tar").string() + ": no such file or folder");
  EXPECT_EQ(error(folder_ / "*.tar"), (folder_ / "*.tar").string() + ": no file's name matches");
  EXPECT_EQ(error(folder_), folder_.string() + ": this folder holds no .tar files");
  EXPECT_EQ(error(write("empty.tar", "")),
            (folder_ / "empty.tar").string() + ": the file is empty");
}

TEST_F(TarShards, NamesWhereAShardIsCutShort) {
  const std::string whole = tar({{"1.cls", "0"}, {"1.jpg", std::string(700, 'x')}});
  ASSERT_EQ(whole.size(), 512U + 512 + 512 + 1024 + 1024);
  EXPECT_EQ(error_in(whole.substr(0, 2560)),
            "the archive has no mark of its end: it was cut short after a member");
  EXPECT_EQ(error_in(whole.substr(0, 2560 - 324)),
            "the archive has no mark of its end: it was cut short after a member");
  EXPECT_EQ(error_in(whole.substr(0, 2560 - 325)),
            "the archive ends within \"1.jpg\", 1 bytes are missing: it was cut short");
  EXPECT_EQ(error_in(whole.substr(0, 1536)),
            "the archive ends within \"1.jpg\", 700 bytes are missing: it was cut short");
  EXPECT_EQ(error_in(whole.substr(0, 1500)),
            "the archive ends within the header at byte 1024, 36 bytes are missing: it was cut "
            "short");
  for (std::size_t size = 1; size < 2560; size += 31)
    EXPECT_FALSE(error_in(whole.substr(0, size)).empty()) << size;
  EXPECT_EQ(source(write("enough.tar", whole.substr(0, 2560 + 512)))->size(), 1);
}

TEST_F(TarShards, NamesADamagedHeader) {
  std::string archive = tar({{"1.cls", "0"}, {"1.jpg", "x"}});
  archive[1024] = '7';
  EXPECT_EQ(error_in(archive), "the header at byte 1024 is damaged, or this is no tar archive");
  EXPECT_EQ(error_in(std::string(600, 'x')),
            "the header at byte 0 is damaged, or this is no tar archive");
}

TEST_F(TarShards, SurvivesAnyDamageToLongNames) {
  for (const char* format : {"pax", "gnu"}) {
    const std::string whole = content(kShards / (std::string(format) + ".tar"));
    for (std::size_t at = 0; at < whole.size(); at += 3) {
      std::string damaged = whole;
      damaged[at] = static_cast<char>(damaged[at] ^ 0x91);
      const std::vector<std::uint8_t> bytes(damaged.begin(), damaged.end());
      try {
        TarReader reader(bytes);
        for (TarMember member; reader.next(member);) {
          if (member.content.empty()) continue;
          ASSERT_GE(member.content.data(), bytes.data());
          ASSERT_LE(member.content.data() + member.content.size(), bytes.data() + bytes.size());
        }
      } catch (const Error& error) {
        EXPECT_EQ(error.code(), Exit::data);
      }
    }
  }
}

TEST_F(TarShards, TakesTheListFromTheIndexWhileNoShardChanges) {
  const std::string before =
      tar({{"1.jpg", "one"}, {"1.cls", "b"}, {"2.jpg", "two"}, {"2.cls", "a"}});
  const fs::path path = write("s/1.tar", before);
  write("s/2.tar", tar({{"3.jpg", "three"}, {"3.json", "{\"label\": \"a\", \"weight\": 2}"}}));
  source(folder_ / "s");
  EXPECT_TRUE(indexes().empty()) << "the shards were made just now";
  for (const char* name : {"s/1.tar", "s/2.tar"}) set_changed(folder_ / name, 1'000'000);
  const auto scanned = source(folder_ / "s");
  ASSERT_EQ(indexes().size(), 1U);
  const auto indexed = source(folder_ / "s");
  expect_same_samples(*indexed, *scanned);
  EXPECT_EQ(indexed->fingerprint(), scanned->fingerprint());
  EXPECT_EQ(indexed->sample_name(2), scanned->sample_name(2));
  EXPECT_EQ(indexed->describe(), "tar_shards " + (folder_ / "s").string() +
                                     ": 3 images in 2 shards, 2 classes, weighted");
  // The index is used as long as the times say that nothing has changed.
  write_bytes(path, tar({{"1.jpg", "one"}, {"1.cls", "a"}, {"2.jpg", "two"}, {"2.cls", "a"}}));
  set_changed(path, 1'000'000);
  EXPECT_EQ(source(folder_ / "s")->label(0), 1);
  EXPECT_EQ(source(folder_ / "s", {}, /*index=*/false)->label(0), 0);
  set_changed(path, 2'000'000);
  EXPECT_EQ(source(folder_ / "s")->label(0), 0);
  // Another shard, and one less.
  write("s/0.tar", tar({{"1.jpg", "zero"}, {"1.cls", "a"}}));
  EXPECT_EQ(source(folder_ / "s")->size(), 4);
  fs::remove(path);
  EXPECT_EQ(source(folder_ / "s")->size(), 2);
}

TEST_F(TarShards, FingerprintFollowsNamesLabelsAndClasses) {
  const auto print = [this](const Members& members) {
    return source(write("1.tar", tar(members)))->fingerprint();
  };
  const std::uint64_t first = print({{"1.jpg", "x"}, {"1.cls", "0"}});
  EXPECT_EQ(print({{"1.jpg", "x"}, {"1.cls", "0"}}), first);
  EXPECT_NE(print({{"2.jpg", "x"}, {"2.cls", "0"}}), first);
  EXPECT_NE(print({{"1.jpg", "x"}, {"1.cls", "1"}}), first);
  EXPECT_NE(print({{"1.jpg", "xx"}, {"1.cls", "0"}}), first);
}

}  // namespace
}  // namespace trainer::data

#include <unistd.h>

#include "data/sources/source_test.h"

namespace trainer::data {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

class ImageFolder : public SourceTest {
 protected:
  std::unique_ptr<Source> source(bool index = true) const {
    config::ImageFolder config;
    config.path = root_.string();
    config.index = index;
    return make_source(config, 1);
  }
  std::string error() const {
    return error_of(Exit::data, [this] { source(); });
  }
  fs::path add(const std::string& name, const std::string& bytes = "x") const {
    return write("root/" + name, bytes);
  }
  // As if nothing had changed for a long time.
  void age() const {
    set_changed(root_, 1'000'000);
    for (const auto& entry : fs::recursive_directory_iterator(root_))
      if (entry.is_directory() && !entry.is_symlink()) set_changed(entry.path(), 1'000'000);
  }
  // In the order of their indices, relative to the root.
  std::vector<std::string> names(const Source& from) const {
    std::vector<std::string> all;
    for (std::int64_t i = 0; i < from.size(); ++i)
      all.push_back(from.sample_name(i).substr(root_.string().size() + 1));
    return all;
  }

  const fs::path root_ = folder_ / "root";
};

TEST_F(ImageFolder, SortsClassesAndFiles) {
  for (const char* name : {"b/2.jpg", "b/10.JPEG", "a/deep/er/x.jpg", "a/y.jpg", "Z/1.jpg"})
    add(name);
  const auto made = source();
  EXPECT_THAT(made->class_names(), ElementsAre("Z", "a", "b"));
  EXPECT_THAT(names(*made),
              ElementsAre("Z/1.jpg", "a/deep/er/x.jpg", "a/y.jpg", "b/10.JPEG", "b/2.jpg"));
  std::vector<std::int64_t> labels;
  for (std::int64_t i = 0; i < 5; ++i) labels.push_back(made->label(i));
  EXPECT_THAT(labels, ElementsAre(0, 1, 1, 2, 2));
  EXPECT_TRUE(made->encoded());
  EXPECT_FALSE(made->weighted());
}

TEST_F(ImageFolder, GivesTheFilesBytes) {
  const std::string bytes("\xff\xd8\0z", 4);
  add("a/1.jpg", bytes);
  add("a/2.jpg", "");
  const auto made = source();
  EXPECT_EQ(fetched(*made, 0), bytes);
  EXPECT_EQ(fetched(*made, 1), "");
  std::vector<std::uint8_t> buffer;
  EXPECT_TRUE(made->fetch(0, buffer).encoded());
}

TEST_F(ImageFolder, NamesAFileThatIsGoneAndItsClass) {
  const fs::path file = add("bees/1.jpg");
  const auto made = source();
  fs::remove(file);
  EXPECT_EQ(error_of(Exit::data, [&] { fetched(*made, 0); }),
            file.string() + " (class \"bees\"): cannot open the file: No such file or directory");
}

TEST_F(ImageFolder, IgnoresAndCountsOtherFiles) {
  for (const char* name : {"a/1.jpg", "a/.hidden.jpg", "a/.cache/2.jpg", ".git/2.jpg",
                           "a/notes.txt", "labels.csv", "a/jpg"})
    add(name);
  ASSERT_EQ(::mkfifo((root_ / "a/pipe.jpg").c_str(), 0600), 0);
  EXPECT_EQ(source()->describe(),
            "image_folder " + root_.string() +
                ": 1 images, 1 classes; ignored 3 hidden; ignored 4 that are no images, the first "
                "is " +
                (root_ / "a/jpg").string());
}

TEST_F(ImageFolder, FollowsLinksToFilesAndClassesOnly) {
  add("a/1.jpg");
  write("elsewhere/2.jpg", "two");
  write("elsewhere/deep/3.jpg", "three");
  fs::create_symlink(folder_ / "elsewhere", root_ / "b");
  fs::create_symlink(folder_ / "elsewhere/2.jpg", root_ / "a/link.jpg");
  fs::create_symlink(folder_ / "elsewhere", root_ / "a/folder.jpg");
  const auto made = source();
  EXPECT_THAT(names(*made), ElementsAre("a/1.jpg", "a/link.jpg", "b/2.jpg", "b/deep/3.jpg"));
  EXPECT_EQ(fetched(*made, 1), "two");
  EXPECT_THAT(made->describe(), HasSubstr("ignored 1 that are no images, the first is " +
                                          (root_ / "a/folder.jpg").string()));
}

TEST_F(ImageFolder, IgnoresAndCountsLinksThatLeadNowhereOrInACircle) {
  add("a/1.jpg");
  fs::create_symlink("self.jpg", root_ / "a/self.jpg");
  fs::create_symlink("pong.jpg", root_ / "a/ping.jpg");
  fs::create_symlink("ping.jpg", root_ / "a/pong.jpg");
  fs::create_symlink("missing.jpg", root_ / "a/dangling.jpg");
  fs::create_symlink("gone", root_ / "gone-class");
  fs::create_symlink(".", root_ / "same");
  fs::create_symlink(folder_, root_ / "up");
  fs::create_symlink("..", root_ / "a/parent");
  const auto made = source();
  EXPECT_THAT(names(*made), ElementsAre("a/1.jpg"));
  EXPECT_THAT(made->describe(),
              AllOf(HasSubstr("ignored 7 links that lead nowhere or in a circle, the first is " +
                              (root_ / "a/dangling.jpg").string()),
                    HasSubstr("ignored 1 that are no images, the first is " +
                              (root_ / "a/parent").string())));
}

TEST_F(ImageFolder, EscapesNamesInMessagesOnly) {
  const std::string odd = "a\nb\xff";
  add(odd + "/ä\\1\x1b.jpg", "odd");
  const auto made = source();
  EXPECT_THAT(made->class_names(), ElementsAre(odd));
  EXPECT_EQ(fetched(*made, 0), "odd");
  EXPECT_EQ(made->sample_name(0), root_.string() + "/a\\nb\\xff/ä\\\\1\\x1b.jpg");
  fs::remove_all(root_ / odd);
  EXPECT_THAT(error_of(Exit::data, [&] { fetched(*made, 0); }),
              AllOf(HasSubstr("(class \"a\\nb\\xff\")"), Not(HasSubstr("\n"))));
}

TEST_F(ImageFolder, FingerprintFollowsTheNames) {
  add("a/1.jpg");
  const std::uint64_t before = source()->fingerprint();
  EXPECT_EQ(source()->fingerprint(), before);
  add("a/2.jpg");
  const std::uint64_t more = source()->fingerprint();
  EXPECT_NE(more, before);
  fs::rename(root_ / "a", root_ / "b");
  EXPECT_NE(source()->fingerprint(), more);
}

TEST_F(ImageFolder, NamesWhatIsWrongWithItsFolders) {
  EXPECT_EQ(error(), root_.string() + ": no such folder");
  fs::create_directory(root_);
  EXPECT_EQ(error(), root_.string() + ": has no class folders; expected " + root_.string() +
                         "/<class>/<image>");
  add("a/1.jpg");
  fs::create_directory(root_ / "empty");
  EXPECT_EQ(error(), (root_ / "empty").string() +
                         ": this class folder holds no images; put some there or remove the "
                         "folder");
  fs::remove_all(root_);
  write("root", "");
  EXPECT_EQ(error(), root_.string() + ": is a file, not a folder");
}

TEST_F(ImageFolder, NamesTheFirstOfSeveralEmptyClasses) {
  for (int i = 10; i < 40; ++i) fs::create_directories(root_ / std::to_string(i));
  EXPECT_THAT(error(), HasSubstr((root_ / "10").string() + ": "));
}

TEST_F(ImageFolder, NamesAnUnreadableFolder) {
  if (::geteuid() == 0) GTEST_SKIP() << "root may read every folder";
  add("a/deep/1.jpg");
  fs::permissions(root_ / "a/deep", fs::perms::none);
  const std::string message = error();
  fs::permissions(root_ / "a/deep", fs::perms::owner_all);
  EXPECT_EQ(message, (root_ / "a/deep").string() + ": cannot be read: Permission denied");
}

TEST_F(ImageFolder, TakesTheListFromTheIndexWhileNoFolderChanges) {
  for (const char* name : {"a/1.jpg", "a/deep/2.jpg", "b/3.jpg", "b/note.txt"}) add(name);
  age();
  const auto scanned = source();
  ASSERT_EQ(indexes().size(), 1U);
  // A file that the index does not know, behind its back.
  add("b/4.jpg");
  age();
  const auto indexed = source();
  EXPECT_EQ(names(*indexed), names(*scanned));
  EXPECT_EQ(indexed->class_names(), scanned->class_names());
  EXPECT_EQ(indexed->describe(), scanned->describe());
  EXPECT_EQ(indexed->fingerprint(), scanned->fingerprint());
  EXPECT_EQ(indexed->label(2), 1);
  EXPECT_EQ(source(/*index=*/false)->size(), 4);
  set_changed(root_ / "b", 2'000'000);
  EXPECT_EQ(source()->size(), 4);
}

TEST_F(ImageFolder, SeesAChangeInAnyFolder) {
  add("a/deep/1.jpg");
  for (const char* changed : {"", "a", "a/deep"}) {
    age();
    const std::int64_t before = source()->size();
    ASSERT_EQ(indexes().size(), 1U);
    add("a/deep/" + std::to_string(before) + "more.jpg");
    age();
    set_changed(root_ / changed, 2'000'000);
    EXPECT_EQ(source()->size(), before + 1) << changed;
  }
}

TEST_F(ImageFolder, KeepsNoIndexOfWhatMayBeChanging) {
  add("a/1.jpg");
  source();
  EXPECT_TRUE(indexes().empty()) << "the folders were made just now";
  age();
  fs::create_symlink("missing.jpg", root_ / "a/dangling.jpg");
  age();
  source();
  EXPECT_TRUE(indexes().empty()) << "a broken link may be mended";
}

TEST_F(ImageFolder, IgnoresADamagedIndexAndOneOfAnotherVersion) {
  add("a/1.jpg");
  age();
  source();
  ASSERT_EQ(indexes().size(), 1U);
  const fs::path index = indexes()[0];
  const std::string whole = content(index);
  add("a/2.jpg");
  age();
  ASSERT_EQ(source()->size(), 1) << "the index is used";
  for (std::size_t at = 0; at < whole.size(); ++at) {
    std::string damaged = whole;
    damaged[at] = static_cast<char>(damaged[at] ^ 1);
    write_bytes(index, damaged);
    EXPECT_EQ(source()->size(), 2) << "byte " << at;
  }
  for (const std::size_t size : {std::size_t{0}, std::size_t{15}, whole.size() - 1}) {
    write_bytes(index, whole.substr(0, size));
    EXPECT_EQ(source()->size(), 2) << "cut to " << size;
  }
}

TEST_F(ImageFolder, GoesWithoutAnIndexWhereThereIsNoPlaceForIt) {
  add("a/1.jpg");
  age();
  write("file", "");
  ::setenv("XDG_CACHE_HOME", (folder_ / "file").c_str(), 1);
  const char* value = ::getenv("HOME");
  const std::string home = value == nullptr ? "" : value;
  ::setenv("HOME", (folder_ / "file").c_str(), 1);
  EXPECT_EQ(source()->size(), 1);
  ::setenv("HOME", folder_.c_str(), 1);
  EXPECT_EQ(source()->size(), 1);
  EXPECT_TRUE(fs::exists(folder_ / ".cache" / "trainer")) << "the second choice";
  ::setenv("HOME", home.c_str(), 1);
}

TEST(Printable, KeepsTextAndEscapesTheRest) {
  EXPECT_EQ(printable(std::string("a/ü-日本-😀 b")), "a/ü-日本-😀 b");
  EXPECT_EQ(printable(std::string("\n\t\r\x7f\\")), "\\n\\t\\r\\x7f\\\\");
  EXPECT_EQ(printable(std::string("\0", 1)), "\\x00");
  EXPECT_EQ(printable(std::string("\xc0\xaf")), "\\xc0\\xaf") << "overlong";
  EXPECT_EQ(printable(std::string("\xed\xa0\x80")), "\\xed\\xa0\\x80") << "a surrogate";
  EXPECT_EQ(printable(std::string("\xc2\x9b")), "\\xc2\\x9b") << "a terminal's command";
  EXPECT_EQ(printable(std::string("\xe6\x97")), "\\xe6\\x97") << "cut short";
  EXPECT_EQ(printable(std::string("\xe2\x80\xa8")), "\\xe2\\x80\\xa8") << "ends a line";
}

}  // namespace
}  // namespace trainer::data

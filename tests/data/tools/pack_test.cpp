#include "data/tools/pack.h"

#include <signal.h>
#include <sys/resource.h>

#include "data/sources/source_test.h"

namespace trainer::data {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;

class Pack : public SourceTest {
 protected:
  fs::path output() const { return folder_ / "packed"; }
  std::unique_ptr<Source> packed() const {
    config::TarShards config;
    config.path = output().string();
    return make_source(config, 1);
  }
  std::unique_ptr<Source> image_folder() const {
    config::ImageFolder config;
    config.path = (folder_ / "images").string();
    return make_source(config, 1);
  }
  std::unique_ptr<Source> manifest(const std::string& name) const {
    config::Manifest config;
    config.path = (folder_ / name).string();
    return make_source(config, 1);
  }
  // Names in a folder, sorted.
  static std::vector<std::string> list(const fs::path& folder) {
    std::vector<std::string> names;
    for (const auto& entry : fs::directory_iterator(folder))
      names.push_back(entry.path().filename().string());
    std::sort(names.begin(), names.end());
    return names;
  }
};

MemorySource grey() {
  return MemorySource({{"ab", 0, 1, 1, 2, 1}, {std::string("\0\xff", 2), 1, 1, 1, 2, 1}},
                      {"no", "yes"});
}

TEST_F(Pack, WritesTheBytesOfTheStandard) {
  pack(grey(), {.output = output()});
  EXPECT_THAT(list(output()), ElementsAre("classes.txt", "shard-000000.tar"));
  EXPECT_EQ(content(output() / "classes.txt"), "no\nyes\n");
  EXPECT_TRUE(content(output() / "shard-000000.tar") == content("data/golden/shards/packed.tar"));
}

TEST_F(Pack, PixelsBecomeImageFiles) {
  pack(MemorySource({{"abcdef", 0, 1, 1, 2, 3}}, {}), {.output = output()});
  EXPECT_EQ(fetched(*packed(), 0), "P6\n2 1\n255\nabcdef");
  EXPECT_THAT(packed()->sample_name(0), HasSubstr("000000000.ppm"));
  EXPECT_THAT(packed()->class_names(), ElementsAre("0", "1", "2")) << "all classes of the source";
}

TEST_F(Pack, KeepsLabelsThatNamesCouldBeTakenFor) {
  const MemorySource source({{"a", 0}, {"b", 1}, {"c", 2}}, {"0", "10", "2"});
  pack(source, {.output = output()});
  expect_same_samples(*packed(), source);
}

TEST_F(Pack, NamesFilesByTheirContent) {
  const MemorySource source({{"\xff\xd8\xff", 0}, {"\x89PNG\r\n\x1a\n", 1}, {"what?", 2}, {"", 2}},
                            {});
  pack(source, {.output = output()});
  const std::vector<std::string> names{"000000000.jpg", "000000001.png", "000000002.jpg",
                                       "000000003.jpg"};
  for (std::int64_t i = 0; i < 4; ++i) {
    EXPECT_EQ(packed()->sample_name(i),
              (output() / "shard-000000.tar: ").string() + names[static_cast<std::size_t>(i)]);
    EXPECT_EQ(fetched(*packed(), i), fetched(source, i));
  }
}

TEST_F(Pack, KeepsWeights) {
  const MemorySource source({{"a", 0, 0.1F}, {"b", 1, 1}, {"c", 2, 3e-20F}}, {"x", "y", "z"});
  pack(source, {.output = output()});
  expect_same_samples(*packed(), source);
}

TEST_F(Pack, CutsShardsAtTheirSize) {
  std::vector<MemorySource::Sample> samples(7, {std::string(600, 'x')});
  // 512 + 1024 for the image, 512 + 512 for its label.
  for (const auto& [bytes, shards] :
       {std::pair{3 * 2560 + 1024, 3}, {3 * 2560 + 1023, 4}, {1, 7}}) {
    const MemorySource source(samples, {"c"});
    pack(source, {.output = output(), .shard_bytes = bytes, .overwrite = true});
    EXPECT_EQ(list(output()).size(), static_cast<std::size_t>(shards) + 1) << bytes;
    expect_same_samples(*packed(), source);
  }
  EXPECT_EQ(list(output()).back(), "shard-000006.tar");
}

TEST_F(Pack, EqualSourcesGiveEqualBytes) {
  pack(grey(), {.output = output()});
  pack(grey(), {.output = folder_ / "again/"});
  for (const std::string& name : list(output()))
    EXPECT_TRUE(content(output() / name) == content(folder_ / "again" / name)) << name;
}

TEST_F(Pack, TellsItsProgress) {
  std::vector<std::int64_t> told;
  pack(grey(), {.output = output()}, [&](std::int64_t done, std::int64_t all) {
    told.push_back(done);
    EXPECT_EQ(all, 2);
  });
  EXPECT_THAT(told, ElementsAre(1, 2));
}

TEST_F(Pack, RefusesAnOutputThatExists) {
  const auto error = [this](bool overwrite) {
    return error_of(Exit::storage,
                    [&] { pack(grey(), {.output = output(), .overwrite = overwrite}); });
  };
  pack(grey(), {.output = output()});
  EXPECT_EQ(error(false),
            output().string() + ": exists already; choose another folder or ask to overwrite it");
  pack(MemorySource({{"new", 0}}, {"only"}), {.output = output(), .overwrite = true});
  EXPECT_EQ(fetched(*packed(), 0), "new");
  write("packed/thesis.txt", "precious");
  EXPECT_EQ(error(true), output().string() +
                             ": is not overwritten, since it holds thesis.txt, which does not "
                             "belong to packed data");
  EXPECT_EQ(fetched(*packed(), 0), "new");
  fs::remove_all(output());
  write("packed", "a file");
  EXPECT_EQ(error(true), output().string() + ": is no folder, it is not overwritten");
  EXPECT_EQ(content(output()), "a file");
}

TEST_F(Pack, LeavesNothingBehindWhereItFails) {
  const auto leaves_nothing = [this] {
    for (const std::string& name : list(folder_)) EXPECT_EQ(name, ".cache");
  };
  EXPECT_EQ(error_of(Exit::data,
                     [&] {
                       pack(MemorySource({{"a"}, {"broken"}}, {}), {.output = output()});
                     }),
            "sample 1 of memory: broken");
  leaves_nothing();
  EXPECT_EQ(
      error_of(Exit::data, [&] { pack(MemorySource({{"a"}}, {"x\ny"}), {.output = output()}); }),
      "the class \"x\\ny\" cannot be packed, since its name is no line of classes.txt");
  leaves_nothing();
  EXPECT_THAT(
      error_of(Exit::storage, [&] { pack(grey(), {.output = folder_ / "missing" / "packed"}); }),
      StartsWith("cannot write " + (folder_ / "missing/packed.partial-").string()));
}

// Files can be no larger than `bytes` meanwhile.
class FileSizeLimit {
 public:
  explicit FileSizeLimit(rlim_t bytes) : handler_(::signal(SIGXFSZ, SIG_IGN)) {
    ::getrlimit(RLIMIT_FSIZE, &before_);
    const rlimit limit{bytes, before_.rlim_max};
    ::setrlimit(RLIMIT_FSIZE, &limit);
  }
  ~FileSizeLimit() {
    ::setrlimit(RLIMIT_FSIZE, &before_);
    ::signal(SIGXFSZ, handler_);
  }

 private:
  rlimit before_{};
  sighandler_t handler_;
};

TEST_F(Pack, NamesTheFileThatCannotBeWritten) {
  const MemorySource source({{std::string(100'000, 'x')}}, {"c"});
  std::string message;
  {
    const FileSizeLimit limit(50'000);
    message = error_of(Exit::storage, [&] { pack(source, {.output = output()}); });
  }
  EXPECT_THAT(message, StartsWith("cannot write " + output().string() + ".partial-"));
  EXPECT_THAT(message, HasSubstr("shard-000000.tar: File too large; raise the limit"));
  EXPECT_EQ(list(folder_).size(), fs::exists(folder_ / ".cache") ? 1U : 0U);
}

TEST_F(Pack, AFolderAManifestAndShardsHoldTheSameSamples) {
  for (const char* name : {"b/2.jpg", "b/10.jpg", "a/deep/1.png", "a/x,\"y\".jpg", "ü/1\n2.jpg"})
    write(std::string("images/") + name, std::string("content of ") + name);
  const auto folder = image_folder();
  std::string rows = "path,label\n";
  rows += "images/a/deep/1.png,a\n\"images/a/x,\"\"y\"\".jpg\",a\n";
  rows += "images/b/10.jpg,b\nimages/b/2.jpg,b\n\"images/ü/1\n2.jpg\",ü\n";
  write("list.csv", rows);
  const auto listed = manifest("list.csv");
  expect_same_samples(*listed, *folder);
  for (const Source* source : {folder.get(), listed.get()}) {
    pack(*source, {.output = output(), .shard_bytes = 4096, .overwrite = true});
    expect_same_samples(*packed(), *folder);
  }
}

}  // namespace
}  // namespace trainer::data

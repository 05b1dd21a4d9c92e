#include <gmock/gmock.h>

#include <set>

#include "data/dataset.h"
#include "support.h"

namespace trainer::data {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class Sources : public FolderTest {
 protected:
  std::unique_ptr<Source> image_folder() const {
    config::ImageFolder config;
    config.path = folder_.string();
    return make_source(config, 1);
  }
  std::string image_folder_error() const {
    return error_of(Exit::data, [this] { image_folder(); });
  }
  std::unique_ptr<Source> mnist() const {
    config::Mnist config;
    config.path = folder_.string();
    return make_source(config, 1);
  }
  std::string mnist_error() const {
    return error_of(Exit::data, [this] { mnist(); });
  }
  // All of the split's files, full of zeros that take no room on disk.
  void write_cifar10() const {
    for (int i = 1; i <= 5; ++i) {
      const fs::path path = write("data_batch_" + std::to_string(i) + ".bin", "");
      fs::resize_file(path, 30'730'000);
    }
  }
  config::Cifar cifar(int classes, config::Split split) const {
    config::Cifar config;
    config.classes = classes;
    config.path = folder_.string();
    config.split = split;
    return config;
  }
};

std::string idx(std::uint32_t magic, std::initializer_list<std::uint32_t> sizes,
                const std::string& bytes) {
  std::string text;
  const auto append = [&text](std::uint32_t value) {
    for (int shift = 24; shift >= 0; shift -= 8) text.push_back(static_cast<char>(value >> shift));
  };
  append(magic);
  for (const std::uint32_t size : sizes) append(size);
  return text + bytes;
}

TEST(Digits, AreEmbeddedAndStratified) {
  for (const auto split : {config::Split::train, config::Split::test}) {
    config::Digits config;
    config.split = split;
    const auto source = make_source(config, 1);
    const bool train = split == config::Split::train;
    EXPECT_EQ(source->size(), train ? 1437 : 360);
    EXPECT_EQ(source->channels(), 1);
    EXPECT_EQ(source->classes(), 10);
    std::vector<int> counts(10);
    Image image;
    int brightest = 0;
    for (std::int64_t i = 0; i < source->size(); ++i) {
      ++counts.at(static_cast<std::size_t>(source->label(i)));
      source->read(i, image);
      ASSERT_EQ(image.pixels.size(), 64U);
      for (const std::uint8_t pixel : image.pixels) brightest = std::max(brightest, int{pixel});
    }
    EXPECT_EQ(brightest, 255);
    EXPECT_THAT(counts, train ? ElementsAre(142, 145, 142, 146, 145, 146, 145, 143, 139, 144)
                              : ElementsAre(36, 37, 35, 37, 36, 36, 36, 36, 35, 36));
  }
}

TEST(Digits, FirstSampleIsTheFilesFirstRow) {
  const auto source = make_source(config::Digits{}, 1);
  Image image;
  source->read(0, image);
  EXPECT_EQ(source->label(0), 0);
  // 0 0 5 13 9 1 0 0 of the original, times 255/16.
  EXPECT_THAT(std::vector<int>(image.pixels.begin(), image.pixels.begin() + 8),
              ElementsAre(0, 0, 80, 207, 143, 16, 0, 0));
}

TEST_F(Sources, ImageFolderSortsClassesAndFiles) {
  copy("rgb.jpg", "b/2.jpg");
  copy("rgb.jpg", "b/10.JPEG");
  copy("grey.jpg", "a/deep/er/x.jpg");
  copy("rgb.jpg", "a/y.jpg");
  copy("rgb.jpg", "Z/1.jpg");
  const auto source = image_folder();
  EXPECT_THAT(source->class_names(), ElementsAre("Z", "a", "b"));
  ASSERT_EQ(source->size(), 5);
  const std::vector<std::string> order{"Z/1.jpg", "a/deep/er/x.jpg", "a/y.jpg", "b/10.JPEG",
                                       "b/2.jpg"};
  for (std::size_t i = 0; i < order.size(); ++i)
    EXPECT_EQ(source->sample_name(static_cast<std::int64_t>(i)), (folder_ / order[i]).string());
  EXPECT_EQ(source->label(0), 0);
  EXPECT_EQ(source->label(2), 1);
  EXPECT_EQ(source->label(4), 2);
  Image image;
  source->read(1, image);
  EXPECT_EQ(image.channels, 3);
  EXPECT_EQ(image.bytes_read, static_cast<std::int64_t>(content("grey.jpg").size()));
}

TEST_F(Sources, ImageFolderIgnoresAndCountsOtherFiles) {
  copy("rgb.jpg", "a/1.jpg");
  copy("rgb.jpg", "a/.hidden.jpg");
  copy("rgb.jpg", "a/.cache/2.jpg");
  copy("rgb.jpg", ".git/2.jpg");
  write("a/notes.txt", "x");
  write("labels.csv", "x");
  const auto source = image_folder();
  EXPECT_EQ(source->size(), 1);
  EXPECT_THAT(
      source->describe(),
      AllOf(HasSubstr("1 images, 1 classes; ignored 3 hidden; ignored 2 that are no images"),
            HasSubstr((folder_ / "labels.csv").string())));
}

TEST_F(Sources, ImageFolderFingerprintFollowsTheNames) {
  copy("rgb.jpg", "a/1.jpg");
  const std::uint64_t before = image_folder()->fingerprint();
  EXPECT_EQ(image_folder()->fingerprint(), before);
  copy("rgb.jpg", "a/2.jpg");
  const std::uint64_t more = image_folder()->fingerprint();
  EXPECT_NE(more, before);
  fs::rename(folder_ / "a", folder_ / "b");
  EXPECT_NE(image_folder()->fingerprint(), more);
}

TEST_F(Sources, ImageFolderNamesWhatIsWrongWithItsFolders) {
  EXPECT_THAT(image_folder_error(),
              AllOf(HasSubstr(folder_.string()), HasSubstr("no class folders"),
                    HasSubstr("<class>/<image>")));
  copy("rgb.jpg", "a/1.jpg");
  fs::create_directory(folder_ / "empty");
  EXPECT_THAT(image_folder_error(),
              AllOf(HasSubstr((folder_ / "empty").string()), HasSubstr("holds no images")));
  config::ImageFolder config;
  config.path = (folder_ / "missing").string();
  EXPECT_THAT(error_of(Exit::data, [&] { make_source(config, 1); }),
              AllOf(HasSubstr(config.path), HasSubstr("no such folder")));
  config.path = (folder_ / "a/1.jpg").string();
  EXPECT_THAT(error_of(Exit::data, [&] { make_source(config, 1); }),
              HasSubstr("is a file, not a folder"));
}

TEST_F(Sources, ImageFolderNamesAnUnreadableFolder) {
  if (::geteuid() == 0) GTEST_SKIP() << "root may read every folder";
  copy("rgb.jpg", "a/1.jpg");
  fs::permissions(folder_ / "a", fs::perms::none);
  EXPECT_THAT(image_folder_error(),
              AllOf(HasSubstr((folder_ / "a").string()), HasSubstr("Permission denied")));
  fs::permissions(folder_ / "a", fs::perms::owner_all);
}

TEST_F(Sources, ImageFolderNamesABrokenFileAndItsClass) {
  write("bees/empty.jpg", "");
  write("bees/half.jpg", content("rgb.jpg").substr(0, 700));
  write("bees/text.jpg", "hello");
  copy("rgb.jpg", "bees/whole.jpg");
  const auto source = image_folder();
  Image image;
  const std::vector<std::string> reasons{"the file is empty", "damaged or cut short: Premature end",
                                         "no image of a known format"};
  for (std::int64_t i = 0; i < 3; ++i) {
    EXPECT_THAT(error_of(Exit::data, [&] { source->read(i, image); }),
                AllOf(HasSubstr(source->sample_name(i)), HasSubstr("(class \"bees\"): "),
                      HasSubstr(reasons[static_cast<std::size_t>(i)])));
  }
  source->read(3, image);  // the decoder goes on after an error
  EXPECT_EQ(image.width, 24);
}

TEST_F(Sources, Cifar10ReadsPlanesAndLabels) {
  write_cifar10();
  {
    std::fstream file(folder_ / "data_batch_2.bin",
                      std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(3 * 3073);
    file.put(7);
    file.seekp(3 * 3073 + 1 + 1024 + 33);  // green of row 1, column 1
    file.put(99);
  }
  write("batches.meta.txt", "a\nb\nc\nd\ne\nf\ng\nh\ni\nj\n\n");
  const auto source = make_source(cifar(10, config::Split::train), 1);
  EXPECT_EQ(source->size(), 50000);
  EXPECT_EQ(source->class_names().at(9), "j");
  EXPECT_EQ(source->label(10003), 7);
  EXPECT_EQ(source->label(10002), 0);
  Image image;
  source->read(10003, image);
  EXPECT_EQ(image.pixels.at(3 * 33 + 1), 99);
  EXPECT_EQ(image.pixels.at(3 * 33), 0);
  EXPECT_THAT(source->sample_name(10003), HasSubstr("sample 3 of "));
}

TEST_F(Sources, Cifar100TakesTheFineLabel) {
  const fs::path path = write("test.bin", std::string{4, 88});
  fs::resize_file(path, 30'740'000);
  const auto source = make_source(cifar(100, config::Split::test), 1);
  EXPECT_EQ(source->size(), 10000);
  EXPECT_EQ(source->label(0), 88);
  EXPECT_TRUE(source->class_names().empty());
}

TEST_F(Sources, CifarNamesWrongSizesLabelsAndMissingFiles) {
  write_cifar10();
  fs::resize_file(folder_ / "data_batch_3.bin", 30'729'999);
  const auto error = [this] {
    return error_of(Exit::data, [this] { make_source(cifar(10, config::Split::train), 1); });
  };
  EXPECT_THAT(error(), AllOf(HasSubstr((folder_ / "data_batch_3.bin").string()),
                             HasSubstr("has 30729999 bytes, expected 30730000")));
  write("data_batch_1.bin", std::string{12});
  fs::resize_file(folder_ / "data_batch_1.bin", 30'730'000);
  EXPECT_THAT(error(), HasSubstr("record 0 has the label 12, but cifar10 has 10 classes"));
  fs::remove(folder_ / "data_batch_1.bin");
  EXPECT_THAT(error(), AllOf(HasSubstr("data_batch_1.bin: no such file"),
                             HasSubstr("scripts/get_data.sh cifar10")));
}

TEST_F(Sources, MnistReadsIdxFiles) {
  write("train-images-idx3-ubyte", idx(0x803, {2, 1, 3}, "abcdef"));
  write("train-labels-idx1-ubyte", idx(0x801, {2}, {4, 9}));
  const auto source = mnist();
  EXPECT_EQ(source->size(), 2);
  EXPECT_EQ(source->label(1), 9);
  Image image;
  source->read(1, image);
  EXPECT_EQ(image.height, 1);
  EXPECT_EQ(image.width, 3);
  EXPECT_THAT(image.pixels, ElementsAre('d', 'e', 'f'));
  const std::uint64_t before = source->fingerprint();
  write("train-labels-idx1-ubyte", idx(0x801, {2}, {4, 8}));
  EXPECT_NE(mnist()->fingerprint(), before);
}

TEST_F(Sources, MnistNamesWhatIsWrong) {
  EXPECT_THAT(mnist_error(), HasSubstr("train-images-idx3-ubyte: no such file"));
  write("train-images-idx3-ubyte.gz", "\x1f\x8b");
  EXPECT_THAT(mnist_error(), HasSubstr("run gunzip on it"));
  write("train-images-idx3-ubyte", "");
  EXPECT_THAT(mnist_error(), HasSubstr("train-images-idx3-ubyte: the file is empty"));
  write("train-images-idx3-ubyte", idx(0x803, {2, 1, 3}, "abcde"));
  write("train-labels-idx1-ubyte", idx(0x801, {2}, {4, 9}));
  EXPECT_THAT(mnist_error(), HasSubstr("the file has 21 bytes, expected 22"));
  write("train-images-idx3-ubyte", idx(0x801, {2, 1, 3}, "abcdef"));
  EXPECT_THAT(mnist_error(), HasSubstr("no IDX file of images"));
  write("train-images-idx3-ubyte", idx(0x803, {2, 1, 3}, "abcdef"));
  write("train-labels-idx1-ubyte", idx(0x801, {3}, {4, 9, 1}));
  EXPECT_THAT(mnist_error(), HasSubstr("it has 3 labels, but"));
  write("train-labels-idx1-ubyte", idx(0x801, {2}, {4, 10}));
  EXPECT_THAT(mnist_error(), HasSubstr("sample 1 has the label 10"));
}

TEST(Synthetic, IsAFunctionOfTheSeed) {
  config::Synthetic config;
  config.samples = 50;
  config.shape = {3, 5, 7};
  config.classes = 4;
  const auto first = make_source(config, 1);
  const auto again = make_source(config, 1);
  const auto other = make_source(config, 2);
  EXPECT_EQ(first->size(), 50);
  EXPECT_NE(first->fingerprint(), other->fingerprint());
  std::set<std::int64_t> labels;
  Image a;
  Image b;
  double sum = 0;
  for (std::int64_t i = 0; i < 50; ++i) {
    first->read(i, a);
    again->read(i, b);
    ASSERT_EQ(a.pixels.size(), 105U);
    EXPECT_EQ(a.pixels, b.pixels);
    EXPECT_EQ(first->label(i), again->label(i));
    other->read(i, b);
    EXPECT_NE(a.pixels, b.pixels);
    labels.insert(first->label(i));
    for (const std::uint8_t pixel : a.pixels) sum += pixel;
  }
  EXPECT_EQ(labels.size(), 4U);
  EXPECT_NEAR(sum / (50 * 105), 127.5, 5.0);
}

}  // namespace
}  // namespace trainer::data

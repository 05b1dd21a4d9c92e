#include <fstream>

#include "data/sources/source_test.h"

namespace trainer::data {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;

class Cifar : public SourceTest {
 protected:
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

TEST_F(Cifar, Cifar10ReadsPlanesAndLabels) {
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
  std::vector<std::uint8_t> buffer;
  const Raw raw = source->fetch(10003, buffer);
  EXPECT_EQ(raw.height, 32);
  EXPECT_EQ(raw.width, 32);
  EXPECT_EQ(raw.channels, 3);
  ASSERT_EQ(raw.bytes.size(), 3072U);
  EXPECT_EQ(raw.bytes[3 * 33 + 1], 99);
  EXPECT_EQ(raw.bytes[3 * 33], 0);
  EXPECT_THAT(source->sample_name(10003), HasSubstr("sample 3 of "));
}

TEST_F(Cifar, Cifar100TakesTheFineLabel) {
  const fs::path path = write("test.bin", std::string{4, 88});
  fs::resize_file(path, 30'740'000);
  const auto source = make_source(cifar(100, config::Split::test), 1);
  EXPECT_EQ(source->size(), 10000);
  EXPECT_EQ(source->label(0), 88);
  EXPECT_TRUE(source->class_names().empty());
}

TEST_F(Cifar, CifarNamesWrongSizesLabelsAndMissingFiles) {
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

}  // namespace
}  // namespace trainer::data

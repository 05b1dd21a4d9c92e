#include "data/sources/source_test.h"

namespace trainer::data {
namespace {

using ::testing::HasSubstr;

class Mnist : public SourceTest {
 protected:
  std::unique_ptr<Source> mnist() const {
    config::Mnist config;
    config.path = folder_.string();
    return make_source(config, 1);
  }
  std::string mnist_error() const {
    return error_of(Exit::data, [this] { mnist(); });
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

TEST_F(Mnist, MnistReadsIdxFiles) {
  write("train-images-idx3-ubyte", idx(0x803, {2, 1, 3}, "abcdef"));
  write("train-labels-idx1-ubyte", idx(0x801, {2}, {4, 9}));
  const auto source = mnist();
  EXPECT_EQ(source->size(), 2);
  EXPECT_EQ(source->label(1), 9);
  std::vector<std::uint8_t> buffer;
  const Raw raw = source->fetch(1, buffer);
  EXPECT_EQ(raw.height, 1);
  EXPECT_EQ(raw.width, 3);
  EXPECT_EQ(raw.channels, 1);
  EXPECT_EQ(as_text(raw.bytes), "def");
  const std::uint64_t before = source->fingerprint();
  write("train-labels-idx1-ubyte", idx(0x801, {2}, {4, 8}));
  EXPECT_NE(mnist()->fingerprint(), before);
}

TEST_F(Mnist, MnistNamesWhatIsWrong) {
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

}  // namespace
}  // namespace trainer::data

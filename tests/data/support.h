// Shared by the tests of the data room.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "core/error.h"
#include "data/dataset.h"
#include "support/files.h"

namespace trainer::data {

inline const std::filesystem::path kGolden = "data/golden";

// The file that tests/oracle/data.py wrote.
inline const nlohmann::json& golden() {
  static const nlohmann::json all =
      nlohmann::json::parse(std::ifstream(kGolden / "transforms.json"));
  return all;
}

inline Image image_of(const nlohmann::json& encoded) {
  Image image;
  image.height = encoded.at("height").get<int>();
  image.width = encoded.at("width").get<int>();
  image.channels = encoded.at("channels").get<int>();
  const auto hex = encoded.at("pixels").get<std::string>();
  for (std::size_t i = 0; i + 1 < hex.size(); i += 2)
    image.pixels.push_back(static_cast<std::uint8_t>(std::stoi(hex.substr(i, 2), nullptr, 16)));
  return image;
}

// Equal sizes, and no pixel further away than `most`.
inline void expect_near(const Image& got, const Image& wanted, int most, const std::string& what) {
  ASSERT_EQ(got.height, wanted.height) << what;
  ASSERT_EQ(got.width, wanted.width) << what;
  ASSERT_EQ(got.channels, wanted.channels) << what;
  ASSERT_EQ(got.pixels.size(), wanted.pixels.size()) << what;
  int worst = 0;
  for (std::size_t i = 0; i < got.pixels.size(); ++i)
    worst = std::max(worst, std::abs(int{got.pixels[i]} - int{wanted.pixels[i]}));
  EXPECT_LE(worst, most) << what;
}

// A folder of its own for each test, removed afterwards.
class FolderTest : public ::testing::Test {
 protected:
  void SetUp() override {
    const auto* test = ::testing::UnitTest::GetInstance()->current_test_info();
    folder_ = std::filesystem::temp_directory_path() /
              ("trainer-data-" + std::to_string(::getpid()) + "-" + test->name());
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directories(folder_);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  std::filesystem::path write(const std::string& name, const std::string& bytes) const {
    const std::filesystem::path path = folder_ / name;
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path, std::ios::binary) << bytes;
    return path;
  }
  std::filesystem::path copy(const std::string& golden_image, const std::string& name) const {
    return write(name, content(golden_image));
  }
  static std::string content(const std::string& golden_image) {
    std::ifstream file(kGolden / "images" / golden_image, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }

  std::filesystem::path folder_;
};

// Samples made of their index: pixel (y, x, c) of sample i is (7 i + 3 y + 5 x + 11 c) mod 256.
class CountingSource : public Source {
 public:
  CountingSource(std::int64_t size, int height, int width, int channels = 3)
      : size_(size), height_(height), width_(width), channels_(channels) {}

  std::int64_t size() const override { return size_; }
  const std::vector<std::string>& class_names() const override { return names_; }
  std::int64_t classes() const override { return 10; }
  bool encoded() const override { return false; }
  int channels() const override { return channels_; }
  Image picture(std::int64_t index) const {
    Image image{height_ + (taller && taller(index) ? 1 : 0), width_, channels_, {}};
    for (int y = 0; y < image.height; ++y)
      for (int x = 0; x < width_; ++x)
        for (int c = 0; c < channels_; ++c)
          image.pixels.push_back(static_cast<std::uint8_t>(7 * index + 3 * y + 5 * x + 11 * c));
    return image;
  }
  Raw fetch(std::int64_t index, std::vector<std::uint8_t>& buffer) const override {
    if (broken && broken(index))
      throw Error(Exit::data, sample_name(index) + ": broken on purpose");
    const Image image = picture(index);
    buffer = image.pixels;
    return {buffer, image.height, image.width, image.channels};
  }
  float weight(std::int64_t index) const override { return weights ? weights(index) : 1.0F; }
  bool weighted() const override { return static_cast<bool>(weights); }
  std::int64_t label(std::int64_t index) const override { return index % 10; }
  std::string sample_name(std::int64_t index) const override {
    return "sample " + std::to_string(index) + " of counting";
  }
  std::string describe() const override { return "counting"; }
  std::uint64_t fingerprint() const override { return 1; }

  std::function<bool(std::int64_t)> broken;
  std::function<bool(std::int64_t)> taller;
  std::function<float(std::int64_t)> weights;

 private:
  std::int64_t size_;
  int height_, width_, channels_;
  std::vector<std::string> names_;
};

}  // namespace trainer::data

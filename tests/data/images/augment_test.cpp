#include "data/images/augment.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

namespace trainer::data {
namespace {

// Written by tests/oracle/augment.py, which says what the fields are.
const nlohmann::json& golden() {
  static const nlohmann::json all =
      nlohmann::json::parse(std::ifstream("data/golden/augment.json"));
  return all;
}

std::vector<std::uint8_t> bytes_of(const std::string& hex) {
  std::vector<std::uint8_t> bytes;
  for (std::size_t i = 0; i + 1 < hex.size(); i += 2)
    bytes.push_back(static_cast<std::uint8_t>(std::stoi(hex.substr(i, 2), nullptr, 16)));
  return bytes;
}

Image position_image(int height, int width) {
  Image image{height, width, 1, {}};
  for (std::uint32_t y = 0; y < static_cast<std::uint32_t>(height); ++y)
    for (std::uint32_t x = 0; x < static_cast<std::uint32_t>(width); ++x)
      image.pixels.push_back(
          static_cast<std::uint8_t>((y * 40503U + x * 10007U) * 2654435761U >> 24));
  return image;
}

Image image_named(const std::string& name) {
  if (name == "position 300x221") return position_image(300, 221);
  const auto& image = golden().at("images").at(name);
  return {image.at("height"), image.at("width"), image.at("channels"),
          bytes_of(image.at("pixels").get<std::string>())};
}

AugmentOp op_named(const std::string& name) {
  const auto& names = golden().at("ops");
  const auto found = std::find(names.begin(), names.end(), name);
  return kRandAugmentOps.at(static_cast<std::size_t>(found - names.begin()));
}

Augmentation choose(const std::string& space, AugmentOp op, int bin, int bins, const Image& image,
                    bool negate) {
  return space == "rand" ? rand_augmentation(op, bin, bins, image.height, image.width, negate)
                         : trivial_augmentation(op, bin, bins, negate);
}

Image augmented(const Augmentation& what, Image image, std::uint8_t fill = 0) {
  Image scratch;
  augment(what, fill, image, scratch);
  return image;
}

// zlib's, bit by bit; `crc` continues an earlier one.
std::uint32_t crc32(const std::vector<std::uint8_t>& bytes, std::uint32_t crc) {
  crc = ~crc;
  for (const std::uint8_t byte : bytes) {
    crc ^= byte;
    for (int bit = 0; bit < 8; ++bit) crc = crc >> 1 ^ ((crc & 1U) != 0 ? 0xEDB88320U : 0U);
  }
  return ~crc;
}

bool has_magnitude(AugmentOp op) {
  return op != AugmentOp::identity && op != AugmentOp::auto_contrast && op != AugmentOp::equalize;
}

// Of an op's results at every bin and sign, as the oracle takes it.
std::uint32_t checksum(const Image& image, const std::string& space, AugmentOp op, int bins) {
  std::uint32_t crc = 0;
  for (int bin = 0; bin < (has_magnitude(op) ? bins : 1); ++bin) {
    for (const bool negate : {false, true}) {
      if (negate && !is_signed(op)) continue;
      crc = crc32(augmented(choose(space, op, bin, bins, image, negate), image).pixels, crc);
    }
  }
  return crc;
}

TEST(Augment, SpacesHaveTorchvisionsOpsAndSigns) {
  const auto& is_signed_there = golden().at("signed");
  ASSERT_EQ(is_signed_there.size(), kRandAugmentOps.size());
  for (std::size_t i = 0; i < kRandAugmentOps.size(); ++i)
    EXPECT_EQ(is_signed(kRandAugmentOps[i]), is_signed_there[i].get<bool>())
        << golden().at("ops")[i];
  const std::set<AugmentOp> distinct(kRandAugmentOps.begin(), kRandAugmentOps.end());
  EXPECT_EQ(distinct.size(), kRandAugmentOps.size());
  EXPECT_EQ(kTrivialAugmentOps, kRandAugmentOps);
}

TEST(Augment, MagnitudesEqualTorchvision) {
  for (const auto& one : golden().at("magnitudes")) {
    const std::string space = one.at("space");
    const Image image{one.at("height"), one.at("width"), 1, {}};
    const int bins = one.at("bins");
    for (const auto& [name, values] : one.at("values").items()) {
      ASSERT_EQ(values.size(), static_cast<std::size_t>(bins));
      for (int bin = 0; bin < bins; ++bin) {
        const AugmentOp op = op_named(name);
        const Augmentation got = choose(space, op, bin, bins, image, false);
        EXPECT_EQ(got.op, op);
        EXPECT_EQ(got.magnitude, values[static_cast<std::size_t>(bin)].get<double>())
            << space << " " << name << " at " << bin << " of " << bins;
      }
    }
  }
}

TEST(Augment, OnlySignedOpsAreNegated) {
  for (const AugmentOp op : kRandAugmentOps) {
    const double sign = is_signed(op) ? -1 : 1;
    EXPECT_EQ(trivial_augmentation(op, 3, 31, true).magnitude,
              sign * trivial_augmentation(op, 3, 31, false).magnitude);
    EXPECT_EQ(rand_augmentation(op, 9, 31, 40, 50, true).magnitude,
              sign * rand_augmentation(op, 9, 31, 40, 50, false).magnitude);
  }
}

TEST(Augment, OpsWithoutMagnitudesHaveZero) {
  for (const AugmentOp op : kRandAugmentOps)
    if (!has_magnitude(op)) {
      EXPECT_EQ(trivial_augmentation(op, 30, 31, false).magnitude, 0);
    }
}

TEST(Augment, ResultsEqualTorchvision) {
  for (const auto& one : golden().at("results")) {
    const std::string name = one.at("op");
    const Augmentation what{op_named(name), one.at("magnitude")};
    const Image image = image_named(one.at("image"));
    const Image got = augmented(what, image, one.at("fill"));
    EXPECT_EQ(got.height, image.height);
    EXPECT_EQ(got.width, image.width);
    EXPECT_EQ(got.channels, image.channels);
    EXPECT_EQ(got.pixels, bytes_of(one.at("pixels")))
        << name << " by " << what.magnitude << " of " << one.at("image");
  }
}

// Odd sizes, single rows and pixels, constant images and a large one.
TEST(Augment, EveryBinAndSignEqualsTorchvision) {
  for (const auto& one : golden().at("checksums")) {
    const std::string space = one.at("space");
    const std::string name = one.at("op");
    EXPECT_EQ(checksum(image_named(one.at("image")), space, op_named(name), one.at("bins")),
              one.at("crc").get<std::uint32_t>())
        << name << " of " << one.at("image") << " in " << one.at("bins") << " bins of " << space;
  }
}

TEST(Augment, SlopesBetweenFixedPointNumbersRoundAsTorchvisions) {
  for (const auto& one : golden().at("ties")) {
    const std::string name = one.at("op");
    const Augmentation what{op_named(name), one.at("magnitude")};
    EXPECT_EQ(crc32(augmented(what, image_named(one.at("image"))).pixels, 0),
              one.at("crc").get<std::uint32_t>())
        << name << " by " << what.magnitude;
  }
}

TEST(Augment, TranslationsAreCutToWholePixels) {
  const Image row{1, 4, 1, {10, 20, 30, 40}};
  using Pixels = std::vector<std::uint8_t>;
  EXPECT_EQ(augmented({AugmentOp::translate_x, 1.9}, row, 7).pixels, (Pixels{7, 10, 20, 30}));
  EXPECT_EQ(augmented({AugmentOp::translate_x, -1.9}, row, 7).pixels, (Pixels{20, 30, 40, 7}));
  EXPECT_EQ(augmented({AugmentOp::translate_x, 0.9}, row, 7).pixels, row.pixels);
  EXPECT_EQ(augmented({AugmentOp::translate_x, 4}, row, 7).pixels, (Pixels{7, 7, 7, 7}));
  EXPECT_EQ(augmented({AugmentOp::translate_y, 1}, row, 7).pixels, (Pixels{7, 7, 7, 7}));
}

TEST(Augment, QuarterTurnsMoveEveryPixel) {
  const Image square{2, 2, 3, {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}};
  using Pixels = std::vector<std::uint8_t>;
  EXPECT_EQ(augmented({AugmentOp::rotate, 90}, square).pixels,
            (Pixels{4, 5, 6, 10, 11, 12, 1, 2, 3, 7, 8, 9}));
  EXPECT_EQ(augmented({AugmentOp::rotate, -90}, square).pixels,
            (Pixels{7, 8, 9, 1, 2, 3, 10, 11, 12, 4, 5, 6}));
  EXPECT_EQ(augmented({AugmentOp::rotate, 180}, square).pixels,
            (Pixels{10, 11, 12, 7, 8, 9, 4, 5, 6, 1, 2, 3}));
  EXPECT_EQ(augmented({AugmentOp::rotate, -360}, square).pixels, square.pixels);
}

// What lies beyond the fixed-point numbers of Pillow: here nothing wraps around.
TEST(Augment, VeryWideImagesAreTransformed) {
  Image image{1, 70000, 1, std::vector<std::uint8_t>(70000, 1)};
  image.pixels.back() = 9;
  EXPECT_EQ(augmented({AugmentOp::rotate, 180}, image).pixels.front(), 9);
  EXPECT_EQ(augmented({AugmentOp::translate_x, -69999}, image, 2).pixels.front(), 9);
  EXPECT_EQ(augmented({AugmentOp::shear_x, 0.9}, image).pixels, image.pixels);
}

TEST(Augment, NothingIsAllocatedOnceBothBuffersHaveTheSize) {
  Image image = image_named("rgb");
  Image scratch = image;
  const std::set<const std::uint8_t*> buffers{image.pixels.data(), scratch.pixels.data()};
  for (const AugmentOp op : kTrivialAugmentOps) {
    augment(trivial_augmentation(op, 20, 31, false), 0, image, scratch);
    EXPECT_EQ((std::set<const std::uint8_t*>{image.pixels.data(), scratch.pixels.data()}), buffers);
  }
}

}  // namespace
}  // namespace trainer::data

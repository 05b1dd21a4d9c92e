// What the tests of checkpoints share.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/ops/arange.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <string>

#include "core/error.h"
#include "core/tensors.h"
#include "support/files.h"

namespace trainer::checkpoint {

// In place, so that thousands of flips cost no flush of the disk each.
inline void flip_bit(const std::filesystem::path& file, std::size_t byte, std::size_t bit) {
  std::fstream stream(file, std::ios::binary | std::ios::in | std::ios::out);
  stream.seekg(static_cast<std::streamoff>(byte));
  const auto flipped = static_cast<char>(stream.get() ^ (1 << bit));
  stream.seekp(static_cast<std::streamoff>(byte));
  stream.put(flipped);
}

// What tests/oracle/checkpoint.py stores: element i is (7 i mod 11) - 3, without the 3 for uint8.
inline at::Tensor patterned(at::IntArrayRef shape, at::ScalarType type) {
  std::int64_t count = 1;
  for (const std::int64_t size : shape) count *= size;
  at::Tensor values = at::arange(count, at::kLong).mul(7).remainder(11);
  if (type != at::kByte) values = values.sub(3);
  return values.to(type).reshape(shape);
}

inline void expect_same(const at::Tensor& actual, const at::Tensor& expected,
                        const std::string& name) {
  EXPECT_EQ(actual.scalar_type(), expected.scalar_type()) << name;
  ASSERT_EQ(actual.sizes(), expected.sizes()) << name;
  EXPECT_TRUE(actual.equal(expected)) << name;
}

// The message of the storage error that `action` throws.
inline std::string storage_error(const std::function<void()>& action) {
  return error_of(Exit::storage, action);
}

// A part of a run with the state that the test gives it.
class Part : public Stateful {
 public:
  Part() = default;
  explicit Part(State state) : held(std::move(state)) {}
  State state() const override { return held; }
  void load(const State& state) override { held = state; }
  State held;
};

}  // namespace trainer::checkpoint

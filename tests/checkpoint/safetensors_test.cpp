#include "checkpoint/safetensors.h"

#include <ATen/ops/zeros.h>
#include <gmock/gmock.h>

#include <cstdlib>
#include <cstring>
#include <stdexcept>

#include "support.h"

namespace trainer::checkpoint {
namespace {

using testing::AllOf;
using testing::HasSubstr;

class Safetensors : public Temporary {
 protected:
  std::filesystem::path file_ = folder_ / "a.safetensors";

  void write_raw(const std::string& header, std::size_t data_bytes) {
    const std::uint64_t length = header.size();
    std::string bytes(sizeof(length), '\0');
    std::memcpy(bytes.data(), &length, sizeof(length));
    write_bytes(file_, bytes + header + std::string(data_bytes, '\1'));
  }
  std::string read_error() {
    return storage_error([&] { read_safetensors(file_); });
  }
};

NamedTensors one_of_each() {
  return {{"b", patterned({3}, at::kByte)},
          {"d", patterned({2, 3}, at::kDouble)},
          {"f", patterned({4}, at::kFloat)},
          {"h", patterned({5}, at::kHalf)},
          {"bf", patterned({7}, at::kBFloat16)},
          {"l", patterned({1, 2}, at::kLong)},
          {"i", patterned({3, 1}, at::kInt)},
          {"s", patterned({3}, at::kShort)},
          {"c", patterned({5}, at::kChar)},
          {"t", patterned({9}, at::kBool)},
          {"scalar", patterned({}, at::kLong)},
          {"empty", patterned({0, 3}, at::kFloat)},
          {"quote \" \\ \n \t", patterned({2}, at::kFloat)},
          {"zwölf/文", patterned({2}, at::kInt)}};
}

TEST_F(Safetensors, WhatWasWrittenReadsBackInOrder) {
  const NamedTensors written = one_of_each();
  const std::int64_t bytes = write_safetensors(file_, written);
  EXPECT_EQ(bytes, static_cast<std::int64_t>(std::filesystem::file_size(file_)));
  const NamedTensors read = read_safetensors(file_);
  ASSERT_EQ(read.size(), written.size());
  for (std::size_t i = 0; i < read.size(); ++i) {
    EXPECT_EQ(read[i].name, written[i].name);
    expect_same(read[i].value, written[i].value, written[i].name);
  }
}

TEST_F(Safetensors, HeaderIsPaddedAndEachTensorAligned) {
  write_safetensors(file_, one_of_each());
  const std::string bytes = read_bytes(file_);
  std::uint64_t length = 0;
  std::memcpy(&length, bytes.data(), sizeof(length));
  EXPECT_EQ(length % 8, 0U);
  const auto header = nlohmann::json::parse(bytes.substr(8, length));
  EXPECT_EQ(header.at("__metadata__"), nlohmann::json({{"format", "pt"}}));
  EXPECT_EQ(header.at("d").at("data_offsets").at(0).get<int>() % 8, 0);
  EXPECT_EQ(header.at("f").at("data_offsets").at(0).get<int>() % 4, 0);
  EXPECT_EQ(header.at("bf").at("dtype"), "BF16");
}

TEST_F(Safetensors, StridedTensorsAreWrittenContiguous) {
  const at::Tensor transposed = patterned({3, 4}, at::kFloat).t();
  write_safetensors(file_, {{"t", transposed}});
  const NamedTensors read = read_safetensors(file_);
  EXPECT_TRUE(read.at(0).value.is_contiguous());
  expect_same(read.at(0).value, transposed, "t");
}

TEST_F(Safetensors, NoTensorsAtAll) {
  write_safetensors(file_, {});
  EXPECT_TRUE(read_safetensors(file_).empty());
}

TEST_F(Safetensors, ReadsWhatPythonWrote) {
  std::map<std::string, at::Tensor> read;
  for (const NamedTensor& tensor : read_safetensors("golden/checkpoint/python.safetensors"))
    read[tensor.name] = tensor.value;
  const std::map<std::string, at::ScalarType> dtypes{
      {"f64", at::kDouble}, {"f32", at::kFloat}, {"f16", at::kHalf},  {"bf16", at::kBFloat16},
      {"i64", at::kLong},   {"i32", at::kInt},   {"i16", at::kShort}, {"i8", at::kChar},
      {"u8", at::kByte},    {"bool", at::kBool}};
  for (const auto& [name, type] : dtypes) expect_same(read.at(name), patterned({3, 5}, type), name);
  const std::map<std::string, std::vector<std::int64_t>> names{{"quote \" and \\ back", {2}},
                                                               {"zwölf/文", {1, 2}},
                                                               {"tab\tand\nline", {3}},
                                                               {"scalar", {}},
                                                               {"empty", {0, 4}}};
  for (const auto& [name, shape] : names)
    expect_same(read.at(name), patterned(shape, at::kFloat), name);
  EXPECT_EQ(read.size(), dtypes.size() + names.size());
}

// interop_test.py sets the variable and reads the file with Python's safetensors.
TEST(Interop, WritesForPython) {
  const char* folder = std::getenv("TRAINER_INTEROP_FOLDER");
  if (folder == nullptr) GTEST_SKIP() << "run by interop_test.py, which names the folder";
  write_safetensors(std::filesystem::path(folder) / "ours.safetensors", one_of_each());
}

TEST_F(Safetensors, EveryTruncationIsAnError) {
  write_safetensors(file_, {{"a", patterned({3}, at::kFloat)}, {"b", patterned({2}, at::kByte)}});
  const std::string whole = read_bytes(file_);
  for (std::size_t size = 0; size < whole.size(); ++size) {
    write_bytes(file_, whole.substr(0, size));
    EXPECT_THAT(read_error(), AllOf(HasSubstr("a.safetensors: not a valid safetensors file: "),
                                    HasSubstr("copy or download it again")))
        << size;
  }
}

TEST_F(Safetensors, NoFlippedBitCrashesTheReader) {
  write_safetensors(file_, {{"a", patterned({3}, at::kFloat)}, {"b", patterned({2}, at::kByte)}});
  const std::size_t bits = std::filesystem::file_size(file_) * 8;
  int refused = 0;
  for (std::size_t bit = 0; bit < bits; ++bit) {
    flip_bit(file_, bit / 8, bit % 8);
    try {
      read_safetensors(file_);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), Exit::storage);
      ++refused;
    }
    flip_bit(file_, bit / 8, bit % 8);
  }
  EXPECT_GT(refused, 300);
}

TEST_F(Safetensors, MalformedHeadersAreNamed) {
  struct Case {
    const char* header;
    std::size_t data_bytes;
    const char* reason;
  };
  const Case cases[] = {
      {R"([1])", 0, "its header is not a JSON object"},
      {R"({"a")", 0, "its header is not JSON"},
      {R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},)"
       R"("a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})",
       4, "has the key a twice"},
      {R"({"a":{"dtype":"F32","dtype":"F32","shape":[1],"data_offsets":[0,4]}})", 4,
       "has the key dtype twice"},
      {R"({"a":3})", 0, "tensor a: its entry is not {dtype, shape, data_offsets}"},
      {R"({"a":{"dtype":"F32","shape":[1]}})", 4, "its entry is not"},
      {R"({"a":{"dtype":"F8_E4M3","shape":[4],"data_offsets":[0,4]}})", 4,
       "tensor a: the dtype F8_E4M3 is not supported"},
      {R"({"a":{"dtype":"F32","shape":[-1],"data_offsets":[0,4]}})", 4,
       "its shape is not a list of whole numbers"},
      {R"({"a":{"dtype":"F32","shape":[1.0],"data_offsets":[0,4]}})", 4,
       "its shape is not a list of whole numbers"},
      {R"({"a":{"dtype":"F32","shape":[18446744073709551615],"data_offsets":[0,4]}})", 4,
       "its shape is too large"},
      {R"({"a":{"dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,0]}})", 0,
       "its shape is too large"},
      {R"({"a":{"dtype":"F32","shape":[0,9223372036854775807,9],"data_offsets":[0,0]}})", 0,
       "its shape is too large"},
      {R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4,8]}})", 4,
       "data_offsets is not a pair of whole numbers"},
      {R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[4,0]}})", 4, "say otherwise"},
      {R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,4]}})", 4,
       "its shape takes 8 bytes, its data_offsets say otherwise"},
      {R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})", 4,
       "tensor a ends at byte 8 of the data, which has 4 (was the file cut short?)"},
      {R"({"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]},)"
       R"("b":{"dtype":"U8","shape":[4],"data_offsets":[2,6]}})",
       6, "tensor b overlaps the one before it"},
      {R"({"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},)"
       R"("b":{"dtype":"U8","shape":[2],"data_offsets":[4,6]}})",
       6, "tensor b leaves a gap before it"},
      {R"({"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]}})", 5,
       "3 bytes follow the last tensor"},
  };
  for (const Case& one : cases) {
    write_raw(one.header, one.data_bytes);
    EXPECT_THAT(read_error(), HasSubstr(one.reason)) << one.header;
  }
}

TEST_F(Safetensors, HeaderLengthBeyondTheFile) {
  write_bytes(file_, std::string("\xff\xff\xff\xff\xff\xff\xff\x7f", 8) + "{}");
  EXPECT_THAT(read_error(), HasSubstr("its header's length 9223372036854775807 passes the file's"));
}

TEST_F(Safetensors, AbsentFilesAndFolders) {
  EXPECT_THAT(storage_error([&] { read_safetensors(folder_ / "no.safetensors"); }),
              AllOf(HasSubstr("no.safetensors"), HasSubstr("No such file or directory")));
  EXPECT_THAT(storage_error([&] { read_safetensors(folder_); }), HasSubstr("not a file"));
  EXPECT_THAT(storage_error([&] {
                write_safetensors(folder_ / "no" / "a.safetensors", {{"a", at::zeros({300})}});
              }),
              AllOf(HasSubstr("cannot write " + (folder_ / "no" / "a.safetensors").string()),
                    HasSubstr("No such file or directory"), HasSubstr("1.3 KiB needed")));
}

TEST_F(Safetensors, MistakesOfTheProgramAreNotStorageErrors) {
  const at::Tensor a = at::zeros({1});
  EXPECT_THROW(write_safetensors(file_, {{"a", a}, {"a", a}}), std::invalid_argument);
  EXPECT_THROW(write_safetensors(file_, {{"__metadata__", a}}), std::invalid_argument);
  EXPECT_THROW(write_safetensors(file_, {{"a", at::Tensor()}}), std::invalid_argument);
  EXPECT_THROW(write_safetensors(file_, {{"a", a.to(at::kComplexFloat)}}), std::invalid_argument);
}

}  // namespace
}  // namespace trainer::checkpoint

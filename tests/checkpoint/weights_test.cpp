#include <ATen/ops/zeros.h>
#include <gmock/gmock.h>

#include "checkpoint/safetensors.h"
#include "checkpoint/store.h"
#include "support.h"

namespace trainer::checkpoint {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

class Weights : public Temporary {
 protected:
  fs::path file_ = folder_ / "a.safetensors";
  Part model_{State{{{"body.weight", at::zeros({2, 3})},
                     {"body.count", at::zeros({}, at::kLong)},
                     {"head.weight", at::zeros({5, 2})}},
                    nlohmann::json::object()}};

  static NamedTensors fitting() {
    return {{"head.weight", patterned({5, 2}, at::kFloat)},
            {"body.weight", patterned({2, 3}, at::kFloat)},
            {"body.count", patterned({}, at::kLong)}};
  }
  const at::Tensor& of(std::size_t index) const { return model_.held.tensors[index].value; }
  void expect_loaded() const {
    expect_same(of(0), patterned({2, 3}, at::kFloat), "body.weight");
    expect_same(of(1), patterned({}, at::kLong), "body.count");
    expect_same(of(2), patterned({5, 2}, at::kFloat), "head.weight");
  }
  bool is_untouched(std::size_t index) const { return !of(index).any().item<bool>(); }
  std::string load_error(bool strict = true, const std::vector<std::string>& skip = {}) {
    return storage_error([&] { load_weights(file_, model_, strict, skip); });
  }
};

TEST_F(Weights, FromAFileInPlace) {
  write_safetensors(file_, fitting());
  const at::Tensor live = of(0).requires_grad_(true);
  load_weights(file_, model_, true, {});
  expect_loaded();
  EXPECT_EQ(live.const_data_ptr(), of(0).const_data_ptr());
  EXPECT_TRUE(live.requires_grad());
}

TEST_F(Weights, FromACheckpointVerified) {
  Part source{State{fitting(), nlohmann::json::object()}};
  {
    Store store({folder_ / "checkpoints"});
    store.save(3, {{"model", &source}}, nlohmann::json::object(), true);
  }
  load_weights(folder_ / "checkpoints" / "best", model_, true, {});
  expect_loaded();
  const fs::path stored = folder_ / "checkpoints" / "step-000003" / "model.safetensors";
  std::string bytes = read_bytes(stored);
  bytes.back() = static_cast<char>(bytes.back() ^ 4);
  write_bytes(stored, bytes);
  file_ = stored.parent_path();
  EXPECT_THAT(load_error(), HasSubstr("its contents are not those that were written"));
}

TEST_F(Weights, FromAHuggingFaceFolder) {
  write_safetensors(folder_ / "model.safetensors", fitting());
  load_weights(folder_, model_, true, {});
  expect_loaded();
}

TEST_F(Weights, FromAShardedFolder) {
  const NamedTensors all = fitting();
  write_safetensors(folder_ / "model-00001-of-00002.safetensors", {all[0]});
  write_safetensors(folder_ / "model-00002-of-00002.safetensors", {all[1], all[2]});
  const fs::path index = folder_ / "model.safetensors.index.json";
  write_bytes(index, R"({"metadata": {"total_size": 72}, "weight_map": {
      "head.weight": "model-00001-of-00002.safetensors",
      "body.weight": "model-00002-of-00002.safetensors",
      "body.count": "model-00002-of-00002.safetensors"}})");
  load_weights(folder_, model_, true, {});
  expect_loaded();

  file_ = folder_;
  write_bytes(index, R"({"weight_map": {"other": "model-00001-of-00002.safetensors"}})");
  EXPECT_THAT(load_error(), HasSubstr("1 of its tensors are not in the files that it names"));
  write_bytes(index, R"({"weight_map": {"head.weight": "../model-00001-of-00002.safetensors"}})");
  EXPECT_THAT(load_error(), HasSubstr("is no shard of this folder"));
  write_bytes(index, "[");
  EXPECT_THAT(load_error(), HasSubstr("model.safetensors.index.json: "));
}

TEST_F(Weights, OtherFloatingTypesAreConverted) {
  NamedTensors half = fitting();
  for (NamedTensor& tensor : half)
    if (tensor.value.is_floating_point()) tensor.value = tensor.value.to(at::kHalf);
  write_safetensors(file_, half);
  load_weights(file_, model_, true, {});
  expect_loaded();
}

TEST_F(Weights, EveryDifferenceIsListedAndNothingCopied) {
  write_safetensors(file_, {{"body.weight", patterned({2, 3}, at::kFloat)},
                            {"body.count", patterned({}, at::kFloat)},
                            {"head.weight", patterned({1000, 2}, at::kFloat)},
                            {"fc.bias", patterned({7}, at::kFloat)}});
  model_.held.tensors.push_back({"tail.bias", at::zeros({4})});
  EXPECT_THAT(
      load_error(),
      AllOf(HasSubstr("the weights of " + file_.string() + " do not fit the model:"),
            HasSubstr("\n  shape: head.weight is [5, 2] in the model, [1000, 2] in the file"),
            HasSubstr("\n  dtype: body.count is Long in the model, Float in the file"),
            HasSubstr("\n  missing: tail.bias [4]"), HasSubstr("\n  unexpected: fc.bias [7]"),
            HasSubstr("model.weights.skip"), Not(HasSubstr("body.weight"))));
  EXPECT_TRUE(is_untouched(0));
}

TEST_F(Weights, SkippedKeysAreLeftAlone) {
  write_safetensors(file_, {{"body.weight", patterned({2, 3}, at::kFloat)},
                            {"body.count", patterned({}, at::kLong)},
                            {"head.weight", patterned({1000, 2}, at::kFloat)},
                            {"head.bias", patterned({1000}, at::kFloat)}});
  load_weights(file_, model_, true, {"head.*"});
  expect_same(of(0), patterned({2, 3}, at::kFloat), "body.weight");
  EXPECT_TRUE(is_untouched(2));
}

TEST_F(Weights, NotStrictLoadsWhatFitsAndWarns) {
  write_safetensors(file_, {{"body.weight", patterned({2, 3}, at::kFloat)},
                            {"head.weight", patterned({1000, 2}, at::kFloat)}});
  testing::internal::CaptureStderr();
  load_weights(file_, model_, false, {});
  EXPECT_THAT(testing::internal::GetCapturedStderr(),
              AllOf(HasSubstr("shape: head.weight"), HasSubstr("missing: body.count []")));
  expect_same(of(0), patterned({2, 3}, at::kFloat), "body.weight");
  EXPECT_TRUE(is_untouched(2));
}

TEST_F(Weights, NotStrictStillNeedsOneThatFits) {
  write_safetensors(file_, {{"module.body.weight", patterned({2, 3}, at::kFloat)}});
  EXPECT_THAT(load_error(false), HasSubstr("no tensor of the model is in the file"));
}

TEST_F(Weights, WhatIsNoWeights) {
  file_ = folder_;
  EXPECT_THAT(load_error(), HasSubstr("holds neither model.safetensors nor"));
  file_ = folder_ / "model.pth";
  write_bytes(file_, "PK");
  EXPECT_THAT(load_error(), HasSubstr("is a pickle of Python's"));
  file_ = folder_ / "absent.safetensors";
  EXPECT_THAT(load_error(), HasSubstr("No such file or directory"));
}

}  // namespace
}  // namespace trainer::checkpoint

#include "memory/activation_checkpointing.h"

#include <ATen/Context.h>
#include <ATen/autocast_mode.h>
#include <ATen/ops/batch_norm.h>
#include <ATen/ops/cos.h>
#include <ATen/ops/dropout.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/gelu.h>
#include <ATen/ops/layer_norm.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/rand.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/scaled_dot_product_attention.h>
#include <ATen/ops/sin.h>
#include <ATen/ops/zeros.h>
#include <c10/core/GradMode.h>
#include <gmock/gmock.h>

#include <cmath>
#include <future>
#include <optional>
#include <string>
#include <vector>

#include "core/error.h"
#include "core/recompute.h"
#include "memory/memory.h"

#ifdef TRAINER_CUDA
#include <ATen/cuda/Sleep.h>
#include <c10/cuda/CUDAFunctions.h>
#endif

namespace trainer::memory {
namespace {

using config::KeepActivations;
using config::OffloadActivations;
using config::RecomputeBlocks;
using config::RecomputeSelective;
using ::testing::HasSubstr;
using Policy = config::ActivationCheckpointing;

// --- a small transformer -------------------------------------------------------------------------

struct Setting {
  at::Device device = at::kCPU;
  bool autocast = false;  // to bfloat16
  std::int64_t layers = 5, width = 32, heads = 4, batch = 2, length = 16;
  double dropout = 0.2, attention_dropout = 0;
};

class Autocast {
 public:
  Autocast(at::DeviceType type, bool on) : type_(type), on_(on) {
    if (!on) return;
    at::autocast::set_autocast_enabled(type, true);
    at::autocast::set_autocast_dtype(type, at::kBFloat16);
    at::autocast::increment_nesting();
  }
  ~Autocast() {
    if (!on_) return;
    if (at::autocast::decrement_nesting() == 0) at::autocast::clear_cache();
    at::autocast::set_autocast_enabled(type_, false);
  }
  Autocast(const Autocast&) = delete;
  Autocast& operator=(const Autocast&) = delete;

 private:
  at::DeviceType type_;
  bool on_;
};

using WeakStorage = c10::weak_intrusive_ptr<c10::StorageImpl>;

// What went on in the blocks.
struct Seen {
  std::int64_t attention = 0;  // calls
  std::int64_t begun = 0, ended = 0, again = 0;
  std::vector<WeakStorage> made;     // activations of first runs, except the attention's output
  std::vector<WeakStorage> kept;     // outputs of attention
  std::vector<WeakStorage> outputs;  // of blocks

  void note(std::vector<WeakStorage>& list, const at::Tensor& tensor) {
    if (!recompute::running_again()) list.push_back(tensor.storage().getWeakStorageImpl());
  }
  static std::size_t alive(const std::vector<WeakStorage>& list) {
    std::size_t count = 0;
    for (const WeakStorage& weak : list) count += !weak.expired();
    return count;
  }
};

struct Layer {
  at::Tensor norm1, qkv, projection, norm2, up, down, up_bias;
};

class Transformer {
 public:
  Transformer(const Setting& setting, const Policy& policy, bool frozen = false)
      : setting_(setting) {
    at::manual_seed(7);
    const std::int64_t w = setting.width;
    const double scale = 0.6 / std::sqrt(static_cast<double>(w));  // values stay of size 1
    for (std::int64_t i = 0; i < setting.layers; ++i)
      layers_.push_back({add(at::ones({w}), 1), add(at::randn({3 * w, w}), scale),
                         add(at::randn({w, w}), scale), add(at::ones({w}), 1),
                         add(at::randn({4 * w, w}), scale), add(at::randn({w, 4 * w}), scale / 2),
                         add(at::zeros({4 * w}), 1)});
    if (frozen)
      for (const Layer& layer : layers_) layer.qkv.set_requires_grad(false);
    checkpointing.emplace(policy, parameters);
    at::manual_seed(11);
  }

  at::Tensor forward(const at::Tensor& input) {
    const Autocast autocast(setting_.device.type(), setting_.autocast);
    const RunBlock run = checkpointing->runner();
    at::Tensor x = input;
    for (std::size_t i = 0; i < layers_.size(); ++i) {
      const Layer& layer = layers_[i];
      x = run(
          static_cast<std::int64_t>(i),
          [this, layer](const at::Tensor& in) { return block(layer, in); }, x);
      seen.note(seen.outputs, x);
    }
    return x.to(at::kFloat).square().mean();
  }
  at::Tensor input() const {
    return at::randn({setting_.batch, setting_.length, setting_.width}).to(setting_.device);
  }
  void update() {
    const c10::AutoGradMode no_grad(false);
    for (at::Tensor& parameter : parameters) {
      if (!parameter.grad().defined()) continue;
      parameter.sub_(parameter.grad(), 0.1);
      parameter.mutable_grad().reset();
    }
  }

  std::optional<ActivationCheckpointing> checkpointing;
  std::vector<at::Tensor> parameters;
  Seen seen;
  std::function<void()> in_block = [] {};  // called by every run

 private:
  at::Tensor add(const at::Tensor& value, double scale) {
    parameters.push_back(value.mul(scale).to(setting_.device).requires_grad_());
    return parameters.back();
  }
  at::Tensor attention(const at::Tensor& qkv) {
    const std::int64_t head = setting_.width / setting_.heads;
    std::vector<at::Tensor> parts;
    for (const at::Tensor& part : qkv.split(setting_.width, -1))
      parts.push_back(part.unflatten(-1, {setting_.heads, head}).transpose(1, 2));
    const at::Tensor out = recompute::keep(parts, [&] {
      ++seen.attention;
      return at::scaled_dot_product_attention(parts[0], parts[1], parts[2], {},
                                              setting_.attention_dropout, /*is_causal=*/true);
    });
    seen.note(seen.kept, out);
    return out.transpose(1, 2).flatten(2);
  }
  at::Tensor block(const Layer& layer, const at::Tensor& input) {
    ++seen.begun;
    seen.again += recompute::running_again();
    in_block();
    const at::Tensor normed = at::layer_norm(input, {setting_.width}, layer.norm1);
    const at::Tensor qkv = at::linear(normed, layer.qkv);
    at::Tensor x = at::linear(attention(qkv), layer.projection);
    x = input + at::dropout(x, setting_.dropout, true);
    const at::Tensor up =
        at::linear(at::layer_norm(x, {setting_.width}, layer.norm2), layer.up, layer.up_bias);
    const at::Tensor hidden = at::dropout(at::gelu(up), setting_.dropout, true);
    for (const at::Tensor& made : {normed, qkv, up, hidden}) seen.note(seen.made, made);
    x = x + at::linear(hidden, layer.down);
    ++seen.ended;
    return x;
  }

  Setting setting_;
  std::vector<Layer> layers_;
};

// Each step of two micro-batches, whose graphs live at a time where `together`.
struct Curve {
  std::vector<at::Tensor> losses, parameters;
};
Curve train(Transformer& model, bool together, int steps = 4) {
  Curve curve;
  for (int step = 0; step < steps; ++step) {
    std::vector<at::Tensor> losses;
    for (int micro = 0; micro < 2; ++micro) {
      losses.push_back(model.forward(model.input()) / 2);
      if (!together) losses.back().backward();
    }
    for (const at::Tensor& loss : losses) {
      if (together) loss.backward();
      curve.losses.push_back(loss.detach());
    }
    model.update();
  }
  curve.parameters = model.parameters;
  return curve;
}

void expect_equal(const Curve& curve, const Curve& wanted) {
  ASSERT_EQ(curve.losses.size(), wanted.losses.size());
  for (std::size_t i = 0; i < curve.losses.size(); ++i)
    EXPECT_TRUE(at::equal(curve.losses[i], wanted.losses[i]))
        << "loss " << i << ": " << curve.losses[i].item<double>() << ", not "
        << wanted.losses[i].item<double>();
  for (std::size_t i = 0; i < curve.parameters.size(); ++i)
    EXPECT_TRUE(at::equal(curve.parameters[i], wanted.parameters[i])) << "parameter " << i;
  EXPECT_FALSE(at::equal(wanted.losses.front(), wanted.losses.back())) << "nothing was learnt";
}

struct Case {
  const char* name;
  Policy policy;
};
const std::vector<Case> kCases{{"blocks", RecomputeBlocks{}},
                               {"every2", RecomputeBlocks{2}},
                               {"every9", RecomputeBlocks{9}},
                               {"selective", RecomputeSelective{}},
                               {"offload", OffloadActivations{1}}};

// --- equal to none -------------------------------------------------------------------------------

class ActivationPolicy
    : public testing::TestWithParam<std::tuple<Case, bool /*autocast*/, double /*attention*/>> {};

TEST_P(ActivationPolicy, LeavesTheLossCurveAsItIs) {
  const auto& [kind, autocast, attention_dropout] = GetParam();
  Setting setting;
  setting.autocast = autocast;
  setting.attention_dropout = attention_dropout;
  for (const bool together : {false, true}) {
    Transformer plain(setting, KeepActivations{});
    const Curve wanted = train(plain, together);
    Transformer model(setting, kind.policy);
    expect_equal(train(model, together), wanted);
    const CheckpointingCounts counts = model.checkpointing->counts();
    EXPECT_GT(counts.recomputed_blocks + counts.restored_bytes, 0);
  }
}

TEST_P(ActivationPolicy, WorksWithFrozenParametersAndALeafInput) {
  const auto& [kind, autocast, attention_dropout] = GetParam();
  Setting setting;
  setting.autocast = autocast;
  setting.attention_dropout = attention_dropout;
  Transformer plain(setting, KeepActivations{}, /*frozen=*/true);
  Transformer model(setting, kind.policy, /*frozen=*/true);
  const at::Tensor input = plain.input().requires_grad_();
  const at::Tensor same = input.detach().clone().requires_grad_();
  at::manual_seed(1);
  plain.forward(input).backward();
  at::manual_seed(1);
  model.forward(same).backward();
  EXPECT_TRUE(at::equal(input.grad(), same.grad()));
  for (std::size_t i = 0; i < plain.parameters.size(); ++i) {
    const at::Tensor& wanted = plain.parameters[i].grad();
    ASSERT_EQ(wanted.defined(), model.parameters[i].grad().defined());
    if (!wanted.defined()) continue;
    EXPECT_TRUE(at::equal(model.parameters[i].grad(), wanted));
  }
}

INSTANTIATE_TEST_SUITE_P(All, ActivationPolicy,
                         testing::Combine(testing::ValuesIn(kCases), testing::Bool(),
                                          testing::Values(0.0, 0.3)),
                         [](const auto& test) {
                           return std::string(std::get<0>(test.param).name) +
                                  (std::get<1>(test.param) ? "_bf16" : "") +
                                  (std::get<2>(test.param) > 0 ? "_attention_dropout" : "");
                         });

// --- recomputation -------------------------------------------------------------------------------

TEST(ActivationCheckpointing, NoneKeepsWhatBlocksSave) {
  Transformer model({}, KeepActivations{});
  const at::Tensor loss = model.forward(model.input());
  EXPECT_EQ(Seen::alive(model.seen.made), 4 * 5U);
  loss.backward();
  EXPECT_EQ(model.seen.begun, 5);
}

TEST(ActivationCheckpointing, BlocksDropWhatTheySave) {
  Transformer model({}, RecomputeBlocks{});
  const at::Tensor loss = model.forward(model.input());
  EXPECT_EQ(Seen::alive(model.seen.made), 0U);
  EXPECT_EQ(Seen::alive(model.seen.kept), 0U);
  EXPECT_EQ(Seen::alive(model.seen.outputs), 5U);  // inputs of the next, and of the loss
  loss.backward();
  EXPECT_EQ(model.seen.again, 5);
  EXPECT_EQ(model.checkpointing->counts().recomputed_blocks, 5);
  EXPECT_EQ(model.seen.attention, 10);
  EXPECT_EQ(Seen::alive(model.seen.outputs), 0U) << "the graph of the loss holds frames";
}

TEST(ActivationCheckpointing, TheSecondRunEndsWithTheLastSavedTensor) {
  Transformer model({}, RecomputeBlocks{});
  model.forward(model.input()).backward();
  EXPECT_EQ(model.seen.begun, 10);
  EXPECT_EQ(model.seen.ended, 5);
}

TEST(ActivationCheckpointing, EveryKeepsTheInputOfEachGroup) {
  Setting setting;
  setting.layers = 7;
  Transformer model(setting, RecomputeBlocks{3});
  const at::Tensor loss = model.forward(model.input());
  EXPECT_EQ(Seen::alive(model.seen.made), 0U);
  std::vector<bool> alive;
  for (const WeakStorage& weak : model.seen.outputs) alive.push_back(!weak.expired());
  EXPECT_EQ(alive, (std::vector<bool>{false, false, true, false, false, true, true}));
  loss.backward();
  EXPECT_EQ(model.checkpointing->counts().recomputed_blocks, 7);
}

TEST(ActivationCheckpointing, AGroupEndsWhereItsChainDoes) {
  ActivationCheckpointing checkpointing(RecomputeBlocks{4});
  const RunBlock run = checkpointing.runner();
  const at::Tensor weight = at::ones({3}).requires_grad_();
  const Block block = [weight](const at::Tensor& x) { return at::sin(x * weight); };
  at::Tensor x = at::ones({3});
  for (std::int64_t i = 0; i < 4; ++i) x = run(i, block, x) * 2;  // not what the block gave
  x.sum().backward();
  at::Tensor plain = at::ones({3});
  const at::Tensor same = at::ones({3}).requires_grad_();
  for (int i = 0; i < 4; ++i) plain = at::sin(plain * same) * 2;
  plain.sum().backward();
  EXPECT_TRUE(at::equal(weight.grad(), same.grad()));
}

TEST(ActivationCheckpointing, SelectiveRunsAttentionOnce) {
  for (const double dropout : {0.0, 0.3}) {
    Setting setting;
    setting.attention_dropout = dropout;
    Transformer model(setting, RecomputeSelective{});
    const at::Tensor loss = model.forward(model.input());
    // Queries, keys and values go, where attention saved no other form of them.
    EXPECT_EQ(Seen::alive(model.seen.made), 0U);
    EXPECT_EQ(Seen::alive(model.seen.kept), 5U);
    loss.backward();
    EXPECT_EQ(model.seen.again, 5);
    EXPECT_EQ(model.seen.attention, 5);
    EXPECT_EQ(Seen::alive(model.seen.kept), 0U);
  }
}

TEST(ActivationCheckpointing, WithoutGradientsBlocksAreOnlyCalled) {
  for (const Case& kind : kCases) {
    Transformer model({}, kind.policy);
    const c10::AutoGradMode no_grad(false);
    model.forward(model.input());
    EXPECT_EQ(Seen::alive(model.seen.outputs), 0U);
    EXPECT_EQ(model.checkpointing->counts().offloaded_bytes, 0);
  }
}

TEST(ActivationCheckpointing, GeneratorsGoOnWhereTheForwardPassLeftThem) {
  for (const Case& kind : kCases) {
    Transformer model({}, kind.policy);
    const at::Tensor loss = model.forward(model.input());
    const at::Tensor state = at::globalContext().defaultGenerator(at::kCPU).get_state();
    loss.backward();
    EXPECT_TRUE(at::equal(state, at::globalContext().defaultGenerator(at::kCPU).get_state()));
  }
}

TEST(ActivationCheckpointing, BackwardMayRunOnAnotherThread) {
  for (const Case& kind : kCases) {
    Setting setting;
    setting.autocast = true;
    Transformer plain(setting, KeepActivations{});
    plain.forward(plain.input()).backward();
    Transformer model(setting, kind.policy);
    const at::Tensor loss = model.forward(model.input());
    std::async(std::launch::async, [&] { loss.backward(); }).get();
    for (std::size_t i = 0; i < plain.parameters.size(); ++i)
      EXPECT_TRUE(at::equal(model.parameters[i].grad(), plain.parameters[i].grad())) << kind.name;
  }
}

// Running statistics are moved by the first run alone. The second passes copies, and not nothing:
// batch_norm saves them too, and a block saves as many tensors each time.
TEST(ActivationCheckpointing, BatchNormsCountABatchOnce) {
  const auto run = [](const Policy& policy) {
    at::manual_seed(3);
    const at::Tensor input = at::randn({4, 3, 5, 5});
    const at::Tensor weight = at::ones({3}).requires_grad_();
    const at::Tensor mean = at::zeros({3}), variance = at::ones({3});
    ActivationCheckpointing checkpointing(policy);
    const Block block = [=](const at::Tensor& x) {
      const bool again = recompute::running_again();
      return at::sin(at::batch_norm(at::sin(x), weight, {}, again ? mean.clone() : mean,
                                    again ? variance.clone() : variance, true, 0.1, 1e-5, true));
    };
    at::Tensor x = input;
    for (std::int64_t i = 0; i < 3; ++i) x = checkpointing.runner()(i, block, x);
    x.square().sum().backward();
    return std::vector<at::Tensor>{weight.grad(), mean, variance};
  };
  const std::vector<at::Tensor> wanted = run(KeepActivations{});
  for (const Case& kind : kCases) {
    const std::vector<at::Tensor> results = run(kind.policy);
    for (std::size_t i = 0; i < wanted.size(); ++i)
      EXPECT_TRUE(at::equal(results[i], wanted[i])) << kind.name << ' ' << i;
  }
}

// --- what goes wrong -----------------------------------------------------------------------------

TEST(ActivationCheckpointing, AnAbandonedForwardPassLeavesNothing) {
  for (const Case& kind : kCases) {
    Transformer model({}, kind.policy);
    int runs = 0;
    model.in_block = [&] {
      if (++runs == 4) throw Error(Exit::data, "the fourth block failed");
    };
    EXPECT_THROW(model.forward(model.input()), Error);
    EXPECT_EQ(recompute::current, nullptr);
    for (const auto* list : {&model.seen.made, &model.seen.kept, &model.seen.outputs})
      EXPECT_EQ(Seen::alive(*list), 0U) << kind.name;
    // A graph that is never walked.
    model.in_block = [] {};
    model.forward(model.input());
    for (const auto* list : {&model.seen.made, &model.seen.kept, &model.seen.outputs})
      EXPECT_EQ(Seen::alive(*list), 0U) << kind.name;
    model.forward(model.input()).backward();
    EXPECT_TRUE(model.parameters[0].grad().defined());
  }
}

TEST(ActivationCheckpointing, WhatASecondRunThrowsComesOutOfBackward) {
  for (const Policy& policy :
       {Policy(RecomputeBlocks{}), Policy(RecomputeBlocks{2}), Policy(RecomputeSelective{})}) {
    Transformer model({}, policy);
    {
      const at::Tensor loss = model.forward(model.input());
      model.in_block = [] { throw Error(Exit::out_of_memory, "no room to run again"); };
      try {
        loss.backward();
        FAIL() << "backward went through";
      } catch (const Error& error) {
        EXPECT_EQ(error.code(), Exit::out_of_memory);
        EXPECT_STREQ(error.what(), "no room to run again");
      }
      EXPECT_EQ(recompute::current, nullptr);
      EXPECT_FALSE(at::autocast::is_autocast_enabled(at::kCPU));
    }
    EXPECT_EQ(Seen::alive(model.seen.outputs), 0U);
    model.in_block = [] {};
    model.forward(model.input()).backward();
  }
}

// The message of the error that comes out of the backward pass of `block`.
std::string failure(const Block& block, const Policy& policy = RecomputeBlocks{}) {
  ActivationCheckpointing checkpointing(policy);
  const at::Tensor x = at::ones({4, 4}).requires_grad_();
  const at::Tensor loss = checkpointing.runner()(0, block, x * 1).sum();
  try {
    loss.backward();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Exit::internal);
    return error.what();
  }
  return "none";
}

TEST(ActivationCheckpointing, ABlockThatDiffersTheSecondTimeIsNamed) {
  const auto again = [] { return recompute::running_again(); };
  EXPECT_EQ(failure([](const at::Tensor& x) { return at::sin(x); }), "none");
  EXPECT_THAT(failure([&](const at::Tensor& x) { return again() ? x + 1 : at::sin(x); }),
              HasSubstr("does not save all the tensors of before; its output must depend on"));
  EXPECT_THAT(failure([&](const at::Tensor& x) { return at::sin(again() ? x.slice(0, 0, 2) : x); }),
              HasSubstr("saves a tensor of another shape or type"));
  const auto kept = [](const at::Tensor& x, bool transposed) {
    const at::Tensor y = x + 1;
    const at::Tensor in = transposed ? y.t() : y;
    return recompute::keep(in, [&] { return at::sin(in); }) * 2;
  };
  EXPECT_EQ(failure([&](const at::Tensor& x) { return kept(x, false); }, RecomputeSelective{}),
            "none");
  EXPECT_THAT(failure([&](const at::Tensor& x) { return kept(x, again()); }, RecomputeSelective{}),
              HasSubstr("an input of another layout"));
  EXPECT_THAT(
      failure(
          [&](const at::Tensor& x) { return again() ? kept(kept(x, false), false) : at::sin(x); },
          RecomputeSelective{}),
      HasSubstr("keeps more than before"));
}

// --- offloading ----------------------------------------------------------------------------------

TEST(ActivationCheckpointing, OffloadHoldsTheLastTwoBlocksAlone) {
  Transformer model({}, OffloadActivations{1});
  const at::Tensor loss = model.forward(model.input());
  EXPECT_EQ(Seen::alive(model.seen.made), 2 * 4U);
  const CheckpointingCounts forward = model.checkpointing->counts();
  EXPECT_EQ(forward.restored_bytes, 0);
  loss.backward();
  const CheckpointingCounts counts = model.checkpointing->counts();
  // All blocks save as much; three of five were gone.
  EXPECT_EQ(counts.restored_bytes * 5, counts.offloaded_bytes * 3);
  EXPECT_EQ(counts.offloaded_bytes, forward.offloaded_bytes);
  EXPECT_EQ(model.seen.again, 0);
}

TEST(ActivationCheckpointing, OffloadReusesItsHostMemory) {
  Transformer model({}, OffloadActivations{1});
  train(model, /*together=*/false, 1);
  const CheckpointingCounts once = model.checkpointing->counts();
  EXPECT_EQ(once.host_bytes * 2, once.offloaded_bytes);  // the second micro-batch took it again
  train(model, /*together=*/false, 3);
  EXPECT_EQ(model.checkpointing->counts().host_bytes, once.host_bytes);
  EXPECT_EQ(model.checkpointing->counts().offloaded_bytes, 4 * once.offloaded_bytes);
}

// The bytes that `blocks` blocks of the form sin(f(x)) offload.
std::int64_t offloaded(const Block& block, std::int64_t min_size, std::int64_t blocks,
                       const std::vector<at::Tensor>& resident = {}) {
  ActivationCheckpointing checkpointing(OffloadActivations{min_size}, resident);
  at::Tensor x = at::rand({10, 10}).requires_grad_() * 1;
  for (std::int64_t i = 0; i < blocks; ++i) x = checkpointing.runner()(i, block, x);
  x.sum().backward();
  return checkpointing.counts().offloaded_bytes;
}

TEST(ActivationCheckpointing, OffloadTakesEachStorageOnceAndLeavesWhatIsThereAnyway) {
  constexpr std::int64_t kBytes = 400;
  const auto sin = [](const at::Tensor& x) { return at::sin(x); };
  EXPECT_EQ(offloaded(sin, kBytes, 4), 4 * kBytes);
  EXPECT_EQ(offloaded(sin, kBytes + 1, 4), 0);
  // x twice and a view of it.
  EXPECT_EQ(offloaded([](const at::Tensor& x) { return at::sin(x) + at::cos(x) + x.t().exp() * 0; },
                      1, 1),
            2 * kBytes);
  const at::Tensor parameter = at::rand({10, 10}).requires_grad_();
  EXPECT_EQ(offloaded([=](const at::Tensor& x) { return at::linear(x, parameter); }, 1, 4),
            4 * kBytes);
  // The casts of a parameter stay; x in bfloat16 is moved.
  const auto cast = [=](const at::Tensor& x) {
    return at::linear(x.to(at::kBFloat16), parameter.to(at::kBFloat16)).to(at::kFloat);
  };
  EXPECT_EQ(offloaded(cast, 1, 4), 4 * kBytes / 2);
  const at::Tensor frozen = at::rand({10, 10});
  const auto by_frozen = [=](const at::Tensor& x) { return at::linear(x, frozen); };
  EXPECT_EQ(offloaded(by_frozen, 1, 4, {frozen}), 0);
  // Not known to stay, but the blocks share it: it is moved by the first at most.
  EXPECT_EQ(offloaded(by_frozen, 1, 4), kBytes);
}

TEST(ActivationCheckpointing, OffloadRestoresStridesAndOffsets) {
  ActivationCheckpointing checkpointing(OffloadActivations{1});
  const at::Tensor x = at::rand({6, 8}).requires_grad_();
  const at::Tensor same = x.detach().clone().requires_grad_();
  const Block block = [](const at::Tensor& in) {
    const at::Tensor y = in * 2;
    return at::sin(y.t().slice(0, 2, 7, 2)) * y.slice(1, 1, 4).t();
  };
  at::Tensor loss = checkpointing.runner()(0, block, x).sum();
  for (int i = 1; i < 4; ++i)  // so that the first block's are gone
    loss = checkpointing.runner()(
        i, [](const at::Tensor& in) { return at::sin(in); }, loss);
  loss.backward();
  block(same).sum().sin().sin().sin().backward();
  EXPECT_TRUE(at::equal(x.grad(), same.grad()));
  EXPECT_GT(checkpointing.counts().restored_bytes, 0);
}

// --- on a GPU ------------------------------------------------------------------------------------

// As in the program, the engine is in place before the first backward pass: the threads of torch's
// own for the devices cannot be started twice in a process.
class OwnEngine : public testing::Environment {
 public:
  void SetUp() override { const ActivationCheckpointing installs(RecomputeBlocks{}); }
};
testing::Environment* const own_engine = testing::AddGlobalTestEnvironment(new OwnEngine);

class GpuActivation : public testing::Test {
 protected:
  void SetUp() override {
    if (!at::hasCUDA()) GTEST_SKIP() << "no CUDA device on this machine";
    ::setenv("CUBLAS_WORKSPACE_CONFIG", ":4096:8", 1);
    at::Context& context = at::globalContext();
    context.setSDPUseCuDNN(false);  // its backward pass is not repeatable to the bit
    context.setDeterministicAlgorithms(true, /*warn_only=*/false);
    setting_.device = at::Device(at::kCUDA, 0);
    setting_.autocast = true;
    setting_.layers = 8;
    setting_.width = 512;
    setting_.heads = 8;
    setting_.batch = 8;
    setting_.length = 512;
    setting_.attention_dropout = 0.1;
  }
  void TearDown() override {
    at::globalContext().setSDPUseCuDNN(true);
    at::globalContext().setDeterministicAlgorithms(false, false);
  }

  Setting setting_;
};

TEST_F(GpuActivation, LeavesTheLossCurveAsItIs) {
  for (const bool together : {false, true}) {
    Transformer plain(setting_, KeepActivations{});
    const Curve wanted = train(plain, together);
    Transformer repeated(setting_, KeepActivations{});
    expect_equal(train(repeated, together), wanted);  // or the rest means nothing
    for (const Case& kind : kCases) {
      SCOPED_TRACE(kind.name);
      Transformer model(setting_, kind.policy);
      expect_equal(train(model, together), wanted);
    }
  }
}

TEST_F(GpuActivation, SelectiveRunsAttentionOnce) {
  Transformer model(setting_, RecomputeSelective{});
  const at::Tensor loss = model.forward(model.input());
  EXPECT_EQ(Seen::alive(model.seen.made), 0U);
  loss.backward();
  EXPECT_EQ(model.seen.attention, setting_.layers);
}

TEST_F(GpuActivation, WorksWithCuDnnAttention) {
  at::globalContext().setDeterministicAlgorithms(false, false);  // which rules cuDNN's out
  at::globalContext().setSDPUseCuDNN(true);
  at::globalContext().setSDPUseFlash(false);
  at::globalContext().setSDPUseMemEfficient(false);
  setting_.attention_dropout = 0;
  Transformer plain(setting_, KeepActivations{});
  plain.forward(plain.input()).backward();
  for (const Case& kind : kCases) {
    Transformer model(setting_, kind.policy);
    model.forward(model.input()).backward();
    for (std::size_t i = 0; i < plain.parameters.size(); ++i) {
      const at::Tensor wanted = plain.parameters[i].grad();
      const double error = (model.parameters[i].grad() - wanted).norm().item<double>();
      EXPECT_LT(error, 0.02 * wanted.norm().item<double>()) << kind.name << " parameter " << i;
    }
  }
  at::globalContext().setSDPUseFlash(true);
  at::globalContext().setSDPUseMemEfficient(true);
}

TEST_F(GpuActivation, ThePeakFalls) {
  const auto peak = [&](const Policy& policy) {
    Transformer model(setting_, policy);
    const at::Tensor input = model.input();
    model.forward(input).backward();  // gradients and library workspaces are there
    const std::int64_t before = statistics(0).allocated;
    reset_peak(0);
    model.forward(input).backward();
    return static_cast<double>(statistics(0).peak - before);
  };
  const double none = peak(KeepActivations{});
  const double blocks = peak(RecomputeBlocks{});
  const double selective = peak(RecomputeSelective{});
  const double offload = peak(OffloadActivations{});
  std::printf(
      "peak above parameters and gradients, MB: none %.0f, blocks %.0f, every 2 %.0f, "
      "selective %.0f, offload %.0f\n",
      none / 1e6, blocks / 1e6, peak(RecomputeBlocks{2}) / 1e6, selective / 1e6, offload / 1e6);
  EXPECT_LT(blocks, none / 2.5);
  EXPECT_LT(selective, none / 2);
  EXPECT_LT(offload, none * 0.7);
  EXPECT_LE(blocks, selective);
}

#ifdef TRAINER_CUDA
// Copies that did not wait for the device, or that it did not wait for, give other numbers here.
TEST_F(GpuActivation, OffloadIsOrderedWithABusyDevice) {
  Transformer plain(setting_, KeepActivations{});
  const Curve wanted = train(plain, true);
  Transformer model(setting_, OffloadActivations{1});
  model.in_block = [] { at::cuda::sleep(10'000'000); };
  expect_equal(train(model, true), wanted);
}

TEST_F(GpuActivation, DoesNotMakeTheHostWait) {
  for (const Case& kind : kCases) {
    Transformer model(setting_, kind.policy);
    const at::Tensor input = model.input();
    model.forward(input).backward();  // libraries may wait while they initialise
    c10::cuda::warning_state().set_sync_debug_mode(c10::cuda::SyncDebugMode::L_ERROR);
    EXPECT_NO_THROW(model.forward(input).backward()) << kind.name;
    c10::cuda::warning_state().set_sync_debug_mode(c10::cuda::SyncDebugMode::L_DISABLED);
  }
}
#endif

}  // namespace
}  // namespace trainer::memory

// Twenty AdamW steps of GPT-2, Llama and ViT against PyTorch's: tests/oracle/transformer_steps.py
// describes the golden file.
#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros_like.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <iostream>

#include "rig.h"
#include "support/golden.h"

namespace trainer::engine {
namespace {

using nlohmann::json;

// The bound on a loss's distance from PyTorch's.
constexpr double kLossTolerance = 1e-4;

// A step's rows of tokens, which may be packed.
class TokenBatch : public FixedBatch {
 public:
  TokenBatch(std::int64_t step, const at::Tensor& input, const at::Tensor& target,
             at::Tensor documents, at::Tensor positions)
      : FixedBatch(step, input, target),
        counted_(target.ne(kIgnored).sum().item<double>()),
        documents_(std::move(documents)),
        positions_(std::move(positions)) {}
  double weight() const override { return counted_; }
  Batch micro(std::int64_t begin, std::int64_t end) const override {
    Batch batch = FixedBatch::micro(begin, end);
    if (documents_.defined()) {
      batch.documents = documents_.slice(0, begin, end);
      batch.positions = positions_.slice(0, begin, end);
    }
    return batch;
  }

 private:
  double counted_;
  at::Tensor documents_, positions_;
};

struct GoldenRun {
  explicit GoldenRun(const json& described)
      : golden(described), input(described.at("input").get<std::vector<std::int64_t>>()) {
    text = input.size() == 2;
    const models::InputShape shape =
        text ? models::InputShape{} : models::InputShape{input[1], input[2], input[3]};
    classes = golden.at("classes");
    model = models::make_model(golden::model(golden.at("model")), shape, classes, 1);
    formula::fill_state(model->state());
    model->set_training(true);
    objective = objectives::make_objective(
        text ? config::Objective(config::LanguageModeling{}) : config::CrossEntropy{}, classes);
    const json& adamw = golden.at("optimizer");
    config::Adam adam;
    adam.decoupled = true;
    adam.lr = adamw.at("lr");
    adam.betas = adamw.at("betas").get<std::vector<double>>();
    adam.eps = adamw.at("eps");
    adam.weight_decay = adamw.at("weight_decay");
    optimizer = optim::make_optimizer(adam, model->parameters());
    scaler = std::make_unique<precision::Scaler>(config::Precision{}, at::kCPU);
    schedule = std::make_unique<optim::Schedule>(config::Constant{}, adam.lr,
                                                 optim::Horizon{20, 20, input[0], 0});
    TrainerOptions options;
    if (!golden.at("clip_norm").is_null()) options.clip_norm = golden.at("clip_norm");
    trainer = std::make_unique<Trainer>(
        TrainerParts{*model, *objective, *optimizer, nullptr, *scaler, *strategy, *schedule},
        options);
  }

  double step(std::int64_t number, std::int64_t micro) {
    if (text) return trainer->step(token_batch(number), micro)[0].item<double>();
    const FixedBatch batch(number, formula::model_input(input, number),
                           formula::targets(input[0], classes, number));
    return trainer->step(batch, micro)[0].item<double>();
  }

  TokenBatch token_batch(std::int64_t number) const {
    const std::int64_t count = input[0] * input[1];
    at::Tensor target = formula::targets(count, classes, number);
    if (const json& ignored = golden.at("ignored"); !ignored.is_null()) {
      const at::Tensor place = at::arange(count, at::kLong).remainder(ignored[0].get<int>());
      target.masked_fill_(place.eq(ignored[1].get<int>()), kIgnored);
    }
    at::Tensor documents, positions;
    if (!golden.at("documents").is_null()) {
      std::vector<at::Tensor> rows;
      for (const json& row : golden.at("documents"))
        rows.push_back(at::tensor(row.get<std::vector<std::int64_t>>(), at::kLong));
      documents = at::stack(rows);
      positions = positions_of(documents);
    }
    return {number, formula::targets(count, classes, 11 + number).view(input), target.view(input),
            documents, positions};
  }

  // The place of each token in its document.
  static at::Tensor positions_of(const at::Tensor& documents) {
    at::Tensor positions = at::zeros_like(documents);
    for (std::int64_t t = 1; t < documents.size(1); ++t) {
      const at::Tensor follows = documents.select(1, t).eq(documents.select(1, t - 1));
      positions.select(1, t).copy_(positions.select(1, t - 1).add(1).mul(follows));
    }
    return positions;
  }

  json golden;
  std::vector<std::int64_t> input;
  bool text = false;
  std::int64_t classes = 0;
  std::unique_ptr<models::Model> model;
  std::unique_ptr<objectives::Objective> objective;
  std::unique_ptr<optim::Optimizer> optimizer;
  std::unique_ptr<precision::Scaler> scaler;
  std::unique_ptr<distributed::Strategy> strategy = distributed::single_process();
  std::unique_ptr<optim::Schedule> schedule;
  std::unique_ptr<Trainer> trainer;
};

void expect_parameters(const GoldenRun& run) {
  const double tolerance = run.golden.at("parameter_tolerance");
  const json& wanted = run.golden.at("parameters");
  std::size_t compared = 0;
  for (const auto& [name, value] : run.model->parameters()) {
    if (!wanted.contains(name)) continue;
    ++compared;
    const at::Tensor flat = value.detach().contiguous().flatten();
    const std::int64_t size = flat.numel();
    const std::int64_t places[] = {0, size / 3, size / 2, size - 1};
    for (std::size_t i = 0; i < 4; ++i) {
      const double expected = wanted.at(name).at(i);
      EXPECT_NEAR(flat[places[i]].item<double>(), expected, tolerance * (1 + std::abs(expected)))
          << name << " at " << places[i];
    }
  }
  EXPECT_EQ(compared, wanted.size());
}

TEST(TransformerSteps, LossesAndParametersFollowPyTorchs) {
  const json goldens = golden::read("engine/transformer_steps.json");
  ASSERT_EQ(goldens.size(), 5U);
  for (const json& golden : goldens) {
    SCOPED_TRACE(golden.at("model").dump());
    GoldenRun run(golden);
    const auto wanted = golden.at("losses").get<std::vector<double>>();
    ASSERT_EQ(wanted.size(), 20U);
    double farthest = 0;
    for (std::size_t step = 0; step < wanted.size(); ++step) {
      const double loss = run.step(static_cast<std::int64_t>(step), run.input[0]);
      EXPECT_NEAR(loss, wanted[step], kLossTolerance) << "step " << step;
      farthest = std::max(farthest, std::abs(loss - wanted[step]));
    }
    expect_parameters(run);
    std::cout << golden.at("model").at("kind").get<std::string>()
              << (golden.at("documents").is_null() ? "" : ", packed and masked")
              << ": 20 losses at most " << farthest << " from PyTorch's\n";
  }
}

// The rows of the packed cases have unequal numbers of targets that count.
TEST(TransformerSteps, FollowPyTorchsWhateverTheCut) {
  for (const json& golden : golden::read("engine/transformer_steps.json")) {
    for (const std::int64_t micro : {1, 2}) {
      SCOPED_TRACE(golden.at("model").dump() + " by " + std::to_string(micro));
      GoldenRun run(golden);
      for (std::int64_t step = 0; step < 20; ++step) {
        const double wanted = golden.at("losses").at(static_cast<std::size_t>(step));
        EXPECT_NEAR(run.step(step, micro), wanted, 1e-5 * wanted) << "step " << step;
      }
    }
  }
}

}  // namespace
}  // namespace trainer::engine

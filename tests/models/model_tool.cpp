// The C++ side of interop_test.py: writes a model's weights and its logits, or computes the logits
// of weights that Python wrote. Every file is safetensors; models are in evaluation mode.
#include <ATen/core/grad_mode.h>

#include <cstdio>
#include <exception>
#include <string>
#include <vector>

#include "checkpoint/safetensors.h"
#include "checkpoint/store.h"
#include "models/model.h"
#include "support/formula.h"
#include "support/golden.h"

namespace {

using namespace trainer;

constexpr const char* kUsage =
    "model_tool export KIND CLASSES SEED FILE: the state to FILE, and to FILE.logits `logits` of\n"
    "  formula::model_input({2, 3, 64, 64})\n"
    "model_tool check KIND CLASSES FILE IN OUT: `logits` to OUT of `input` in IN with FILE's "
    "weights\n";

std::unique_ptr<models::Model> make(const std::string& kind, const std::string& classes,
                                    std::uint64_t seed) {
  auto model =
      models::make_model(golden::model({{"kind", kind}}), {3, 64, 64}, std::stoll(classes), seed);
  model->set_training(false);
  return model;
}

void write_logits(models::Model& model, const at::Tensor& input, const std::string& file) {
  const at::NoGradGuard no_grad;
  checkpoint::write_safetensors(file, {{"logits", model.forward(input).logits}});
}

int run(const std::vector<std::string>& arguments) {
  if (arguments.size() == 5 && arguments[0] == "export") {
    const auto model = make(arguments[1], arguments[2], std::stoull(arguments[3]));
    checkpoint::write_safetensors(arguments[4], model->state().tensors);
    write_logits(*model, formula::model_input({2, 3, 64, 64}), arguments[4] + ".logits");
    return 0;
  }
  if (arguments.size() == 6 && arguments[0] == "check") {
    const auto model = make(arguments[1], arguments[2], 0);
    checkpoint::load_weights(arguments[3], *model, /*strict=*/true, {});
    write_logits(*model, checkpoint::read_safetensors(arguments[4]).at(0).value, arguments[5]);
    return 0;
  }
  std::fputs(kUsage, stderr);
  return 2;
}

}  // namespace

int main(int count, char** values) {
  try {
    return run({values + 1, values + count});
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}

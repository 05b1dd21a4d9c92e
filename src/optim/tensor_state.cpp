#include "optim/tensor_state.h"

#include <c10/core/GradMode.h>
#include <c10/core/ScalarType.h>

#include <algorithm>
#include <map>
#include <sstream>
#include <vector>

#include "core/error.h"

namespace trainer::optim {
namespace {

constexpr std::size_t kListed = 10;  // differences spelt out in a message

std::map<std::string, at::Tensor> by_name(const NamedTensors& tensors) {
  std::map<std::string, at::Tensor> map;
  for (const NamedTensor& tensor : tensors) map.emplace(tensor.name, tensor.value);
  return map;
}

std::string describe(const at::Tensor& tensor) {
  std::ostringstream text;
  text << c10::toString(tensor.scalar_type()) << tensor.sizes();
  return text.str();
}

std::vector<std::string> differences(const std::map<std::string, at::Tensor>& saved,
                                     const std::map<std::string, at::Tensor>& live) {
  std::vector<std::string> found;
  for (const auto& [name, tensor] : live) {
    const auto match = saved.find(name);
    if (match == saved.end())
      found.push_back(name + ": missing in the saved state");
    else if (match->second.sizes() != tensor.sizes() ||
             match->second.scalar_type() != tensor.scalar_type())
      found.push_back(name + ": saved as " + describe(match->second) + ", expected " +
                      describe(tensor));
  }
  for (const auto& [name, tensor] : saved)
    if (!live.contains(name)) found.push_back(name + ": saved, but not part of this run");
  return found;
}

}  // namespace

void load_tensors(const NamedTensors& saved, const NamedTensors& live, const std::string& what) {
  const auto source = by_name(saved);
  const std::vector<std::string> found = differences(source, by_name(live));
  if (!found.empty()) {
    std::string message = what + " does not fit this run; resume with the model and the optim " +
                          "settings it was saved with:";
    for (std::size_t i = 0; i < std::min(found.size(), kListed); ++i) message += "\n  " + found[i];
    if (found.size() > kListed)
      message += "\n  and " + std::to_string(found.size() - kListed) + " more";
    throw Error(Exit::storage, message);
  }
  const c10::AutoGradMode no_grad(false);
  for (const NamedTensor& tensor : live) tensor.value.copy_(source.at(tensor.name));
}

}  // namespace trainer::optim

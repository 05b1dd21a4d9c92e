#include "engine/bundle.h"

namespace trainer::engine {

Bundle::Bundle(std::vector<std::pair<std::string, Stateful*>> parts) : parts_(std::move(parts)) {}

State Bundle::state() const {
  State all;
  for (const auto& [prefix, part] : parts_) {
    State one = part->state();
    for (NamedTensor& tensor : one.tensors)
      all.tensors.push_back({prefix + tensor.name, std::move(tensor.value)});
    if (!one.values.empty()) all.values[prefix] = std::move(one.values);
  }
  return all;
}

void Bundle::load(const State& state) {
  const auto owner = [&](const std::string& name) {
    std::size_t fallback = parts_.size();
    for (std::size_t i = 0; i < parts_.size(); ++i) {
      if (parts_[i].first.empty())
        fallback = i;
      else if (name.starts_with(parts_[i].first))
        return i;
    }
    return fallback;
  };
  std::vector<State> split(parts_.size());
  for (const NamedTensor& tensor : state.tensors) {
    const std::size_t i = owner(tensor.name);
    if (i < split.size())
      split[i].tensors.push_back({tensor.name.substr(parts_[i].first.size()), tensor.value});
  }
  for (std::size_t i = 0; i < parts_.size(); ++i) {
    if (const auto values = state.values.find(parts_[i].first); values != state.values.end())
      split[i].values = *values;
    parts_[i].second->load(split[i]);
  }
}

}  // namespace trainer::engine

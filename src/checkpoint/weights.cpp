// Weights alone, from files of ours or others'.
#include <c10/core/GradMode.h>

#include <algorithm>
#include <array>
#include <map>
#include <set>

#include "checkpoint/files.h"
#include "checkpoint/manifest.h"
#include "checkpoint/names.h"
#include "checkpoint/safetensors.h"
#include "checkpoint/store.h"
#include "core/error.h"
#include "core/log.h"
#include "core/text.h"

namespace trainer::checkpoint {
namespace {

namespace fs = std::filesystem;

constexpr const char* kModelFile = "model.safetensors";
// Hugging Face's table of a model in several files: {"weight_map": {tensor: file}}.
constexpr const char* kIndexFile = "model.safetensors.index.json";

[[noreturn]] void throw_bad_index(const fs::path& index, const std::string& reason) {
  throw Error(Exit::storage, index.string() + ": " + reason + "; download the model again");
}

std::set<std::string> shards_of(const fs::path& index, const nlohmann::json& weight_map) {
  std::set<std::string> shards;
  for (const auto& [tensor, file] : weight_map.items()) {
    const auto name = file.get<std::string>();
    if (name.find('/') != std::string::npos || !name.ends_with(".safetensors")) {
      std::string reason = "the file ";
      reason.append(name).append(" of ").append(tensor).append(" is no shard of this folder");
      throw_bad_index(index, reason);
    }
    shards.insert(name);
  }
  return shards;
}

NamedTensors read_sharded(const fs::path& index) {
  nlohmann::json weight_map;
  NamedTensors all;
  try {
    weight_map = nlohmann::json::parse(InputFile(index).read_rest()).at("weight_map");
    for (const std::string& shard : shards_of(index, weight_map))
      for (NamedTensor& tensor : map_safetensors(index.parent_path() / shard))
        if (weight_map.contains(tensor.name) && weight_map.at(tensor.name) == shard)
          all.push_back(std::move(tensor));
  } catch (const nlohmann::json::exception& error) {
    throw_bad_index(index, error.what());
  }
  if (all.size() != weight_map.size())
    throw_bad_index(index, std::to_string(weight_map.size() - all.size()) +
                               " of its tensors are not in the files that it names");
  return all;
}

NamedTensors read_folder(const fs::path& folder) {
  if (fs::exists(folder / kManifestFile)) {
    const Manifest manifest = read_manifest(folder);
    if (manifest.files.contains(kModelFile))
      return read_verified_tensors(folder, manifest, kModelFile);
  }
  if (fs::exists(folder / kModelFile)) return map_safetensors(folder / kModelFile);
  if (fs::exists(folder / kIndexFile)) return read_sharded(folder / kIndexFile);
  throw Error(Exit::storage, folder.string() + ": holds neither " + kModelFile + " nor " +
                                 kIndexFile +
                                 "; give a .safetensors file, a checkpoint folder (such as "
                                 "<run>/checkpoints/best) or a Hugging Face folder");
}

NamedTensors read_weights(const fs::path& path) {
  if (fs::is_directory(path)) return read_folder(path);
  static constexpr std::array<const char*, 4> kPickles{".pt", ".pth", ".bin", ".ckpt"};
  if (std::find(kPickles.begin(), kPickles.end(), path.extension()) != kPickles.end())
    throw Error(Exit::storage, path.string() +
                                   ": is a pickle of Python's; write its state_dict with "
                                   "safetensors.torch.save_file and give that file");
  return map_safetensors(path);
}

std::string shape_of(const at::Tensor& tensor) {
  std::string text = "[";
  for (const std::int64_t size : tensor.sizes())
    text += (text.size() > 1 ? ", " : "") + std::to_string(size);
  return text + "]";
}

// What goes where, and what does not fit, a line each.
struct Match {
  std::vector<std::pair<at::Tensor, at::Tensor>> copies;  // to, from
  std::string problems;

  void problem(const std::string& line) { problems += "\n  " + line; }
};

bool is_skipped(const std::string& name, const std::vector<std::string>& skip) {
  return std::any_of(skip.begin(), skip.end(),
                     [&](const std::string& pattern) { return glob_match(pattern, name); });
}

Match match(const NamedTensors& model, const NamedTensors& file,
            const std::vector<std::string>& skip) {
  std::map<std::string, at::Tensor> given;
  for (const NamedTensor& tensor : file) given.emplace(tensor.name, tensor.value);
  Match result;
  std::set<std::string> known;
  for (const auto& [name, target] : model) {
    known.insert(name);
    if (is_skipped(name, skip)) continue;
    const auto found = given.find(name);
    if (found == given.end()) {
      result.problem("missing: " + name + " " + shape_of(target));
    } else if (found->second.sizes() != target.sizes()) {
      result.problem("shape: " + name + " is " + shape_of(target) + " in the model, " +
                     shape_of(found->second) + " in the file");
    } else if (found->second.is_floating_point() != target.is_floating_point()) {
      result.problem("dtype: " + name + " is " + c10::toString(target.scalar_type()) +
                     " in the model, " + c10::toString(found->second.scalar_type()) +
                     " in the file");
    } else {
      result.copies.emplace_back(target, found->second);
    }
  }
  for (const auto& [name, value] : file)
    if (!known.contains(name) && !is_skipped(name, skip))
      result.problem("unexpected: " + name + " " + shape_of(value));
  return result;
}

}  // namespace

void load_weights(const fs::path& path, Stateful& model, bool strict,
                  const std::vector<std::string>& skip, const Rename& rename) {
  const State live = model.state();
  NamedTensors file = read_weights(path);
  if (rename) file = rename(file);
  const Match matched = match(live.tensors, file, skip);
  const std::string message =
      "the weights of " + path.string() + " do not fit the model:" + matched.problems;
  if (matched.copies.empty())
    throw Error(Exit::storage, message +
                                   "\nno tensor of the model is in the file; check that it "
                                   "is of the same architecture");
  if (strict && !matched.problems.empty())
    throw Error(Exit::storage, message +
                                   "\nname the keys to leave as initialised in "
                                   "model.weights.skip, or load what fits with strict: false");
  if (!matched.problems.empty()) log::warning(message);
  const c10::AutoGradMode no_grad(false);
  for (auto [target, source] : matched.copies) target.copy_(source);
}

}  // namespace trainer::checkpoint

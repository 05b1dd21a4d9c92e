// Checkpoints of a run: whole or absent, written behind training, verified when read. Knows no
// concrete class.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/tensors.h"

namespace trainer::checkpoint {

// Parts by name: a part with tensors becomes <name>.safetensors, its values state.json[<name>].
using Parts = std::vector<std::pair<std::string, Stateful*>>;

struct StoreOptions {
  std::filesystem::path folder;  // <run>/checkpoints
  std::int64_t keep = 3;         // newest ones kept, beside the best
};

class Store {
 public:
  explicit Store(StoreOptions options);  // removes what an interrupted write left behind
  ~Store();                              // waits for the write under way

  // Copies the parts' state (device tensors through page-locked memory, in stream order, without
  // stopping the host longer than the copy), then writes in a thread: temporary sibling, fsync,
  // rename to step-<%06d>, fsync of the folder, retention. `extra` is merged into state.json. One
  // write runs at a time: the next save waits for it. A failed write is rethrown by the next save
  // or by `wait`, as Error(storage) with the path and, on a full disk, the bytes needed and free.
  void save(std::int64_t step, const Parts& parts, const nlohmann::json& extra,
            bool is_best = false);
  // Blocks until the last save is on disk.
  void wait();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// A verified checkpoint, read back.
struct Loaded {
  std::filesystem::path path;
  std::int64_t step = 0;
  nlohmann::json values;                             // state.json
  std::vector<std::pair<std::string, State>> parts;  // by file stem, tensors on the CPU
  State part(const std::string& name) const;         // Error(storage) where it is absent
};

// The newest good checkpoint under `folder`, or nullopt where there is none at all. One whose
// manifest does not verify is passed over with a logged warning; Error(storage) where all are bad.
std::optional<Loaded> load_newest(const std::filesystem::path& folder);
// Exactly this checkpoint folder; Error(storage) where it does not verify.
Loaded load_checkpoint(const std::filesystem::path& folder);

// Copies into `model` the tensors of a .safetensors file or a checkpoint folder. Missing,
// unexpected and differently shaped keys are listed in Error(storage) where `strict`; keys of the
// model that match a glob of `skip` are left alone. `rename` makes the model's names of the file's.
using Rename = std::function<NamedTensors(const NamedTensors&)>;
void load_weights(const std::filesystem::path& path, Stateful& model, bool strict,
                  const std::vector<std::string>& skip, const Rename& rename = {});

}  // namespace trainer::checkpoint

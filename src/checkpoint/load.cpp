// Reading checkpoints back, verified.

#include "checkpoint/files.h"
#include "checkpoint/manifest.h"
#include "checkpoint/names.h"
#include "checkpoint/store.h"
#include "checkpoint/tensor_io.h"
#include "checkpoint/values.h"
#include "core/error.h"
#include "core/log.h"

namespace trainer::checkpoint {
namespace {

namespace fs = std::filesystem;

State read_part(const fs::path& folder, const Manifest& manifest, const std::string& name,
                const nlohmann::json& values) {
  State state;
  if (!values.contains(name))
    throw Error(Exit::storage, (folder / kStateFile).string() + ": has no values of " + name);
  state.values = values.at(name);
  const std::string file = tensors_file(name);
  if (manifest.files.contains(file)) state.tensors = read_verified_tensors(folder, manifest, file);
  return state;
}

Loaded read_checkpoint(const fs::path& folder) {
  const Manifest manifest = read_manifest(folder);
  Loaded loaded;
  loaded.path = folder;
  try {
    loaded.values = parse_values(read_verified_text(folder, manifest, kStateFile));
    loaded.step = loaded.values.at("step").get<std::int64_t>();
  } catch (const nlohmann::json::exception& error) {
    throw Error(Exit::storage, (folder / kStateFile).string() + ": " + error.what());
  }
  for (const std::string& name : manifest.parts)
    loaded.parts.emplace_back(name, read_part(folder, manifest, name, loaded.values));
  return loaded;
}

[[noreturn]] void throw_all_bad(const fs::path& folder, const std::string& reasons) {
  throw Error(Exit::storage, "no checkpoint in " + folder.string() + " can be used:" + reasons +
                                 "\ncopy one here that is whole, give --resume the path of another "
                                 "one, or start anew with another --output");
}

}  // namespace

State Loaded::part(const std::string& name) const {
  for (const auto& [key, state] : parts)
    if (key == name) return state;
  std::string known;
  for (const auto& [key, state] : parts) known += (known.empty() ? "" : ", ") + key;
  throw Error(Exit::storage, "the checkpoint " + path.string() + " holds no state of " + name +
                                 " (it holds " + known +
                                 "): it was written by a run of other settings");
}

std::optional<Loaded> load_newest(const fs::path& folder) {
  std::vector<Entry> entries;
  try {
    entries = list_checkpoints(folder, true);
  } catch (const std::system_error& failure) {
    throw Error(Exit::storage,
                "cannot list " + folder.string() + ": " + failure.code().message() +
                    "; make it readable for this user, or give --resume another path");
  }
  std::string reasons;
  for (const Entry& entry : entries) {
    try {
      return read_checkpoint(entry.path);
    } catch (const Error& error) {
      log::warning("passing over the checkpoint " + entry.path.filename().string() + ": " +
                   error.what());
      reasons += std::string("\n  ") + error.what();
    }
  }
  if (!entries.empty()) throw_all_bad(folder, reasons);
  return std::nullopt;
}

Loaded load_checkpoint(const fs::path& folder) {
  try {
    return read_checkpoint(folder);
  } catch (const Error& error) {
    throw Error(Exit::storage, "the checkpoint " + folder.string() + " cannot be used: " +
                                   error.what() + "\ncopy it again, or give another one");
  }
}

}  // namespace trainer::checkpoint

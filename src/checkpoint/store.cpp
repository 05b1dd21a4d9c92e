#include "checkpoint/store.h"

#include <algorithm>
#include <exception>
#include <stdexcept>
#include <system_error>
#include <thread>

#include "checkpoint/files.h"
#include "checkpoint/names.h"
#include "checkpoint/staging.h"
#include "checkpoint/tensor_io.h"
#include "checkpoint/values.h"
#include "core/error.h"
#include "core/log.h"
#include "core/storage.h"

namespace trainer::checkpoint {
namespace {

namespace fs = std::filesystem;

// A checkpoint's contents, on the host once `ready` has passed.
struct Snapshot {
  std::int64_t step = 0;
  bool is_best = false;
  std::vector<std::string> parts;
  std::vector<std::pair<std::string, NamedTensors>> tensors;  // of the parts that have any
  std::string values;                                         // state.json
  std::vector<c10::Event> ready;
};

void check_part_name(const std::string& name) {
  if (name.empty() || name.front() == '.' || name.find('/') != std::string::npos)
    throw std::invalid_argument("\"" + name + "\" cannot be the name of a part's file");
}

Snapshot take_snapshot(Staging& staging, std::int64_t step, const Parts& parts,
                       const nlohmann::json& extra) {
  Snapshot snapshot;
  snapshot.step = step;
  nlohmann::json values = nlohmann::json::object();
  staging.begin();
  for (const auto& [name, part] : parts) {
    check_part_name(name);
    const State state = part->state();
    if (!values.emplace(name, state.values).second)
      throw std::invalid_argument("two parts are named " + name);
    snapshot.parts.push_back(name);
    if (state.tensors.empty()) continue;
    NamedTensors copies;
    for (const NamedTensor& tensor : state.tensors)
      copies.push_back({tensor.name, staging.copy(name + '/' + tensor.name, tensor.value)});
    snapshot.tensors.emplace_back(name, std::move(copies));
  }
  snapshot.ready = staging.end();
  for (const auto& [key, value] : extra.items())
    if (!values.emplace(key, value).second)
      throw std::invalid_argument("the extra value " + key + " has the name of a part");
  values["step"] = step;
  snapshot.values = dump_values(values);
  return snapshot;
}

std::int64_t bytes_needed(const Snapshot& snapshot) {
  constexpr std::int64_t kManifestAndFolder = 16384;
  auto bytes = kManifestAndFolder + static_cast<std::int64_t>(snapshot.values.size());
  for (const auto& [name, tensors] : snapshot.tensors) bytes += layout_of(tensors).total_bytes;
  return bytes;
}

Fingerprint write_text(const fs::path& path, const std::string& text) {
  OutputFile file(path);
  file.write(text.data(), text.size());
  return file.finish();
}

// The manifest comes last: a folder without it is no checkpoint.
void write_files(const fs::path& folder, const Snapshot& snapshot) {
  nlohmann::json files;
  const auto record = [&](const std::string& name, const Fingerprint& fingerprint) {
    files[name] = {{"size", fingerprint.size}, {"xxh3", fingerprint.xxh3}};
  };
  for (const auto& [name, tensors] : snapshot.tensors) {
    OutputFile file(folder / tensors_file(name));
    write_tensors(file, tensors);
    record(tensors_file(name), file.finish());
  }
  record(kStateFile, write_text(folder / kStateFile, snapshot.values));
  const nlohmann::json manifest = {
      {"version", kManifestVersion}, {"parts", snapshot.parts}, {"files", files}};
  write_text(folder / kManifestFile, manifest.dump(2));  // no newline: cut anywhere, it is not JSON
  sync_folder(folder);
}

// Renames `temporary` to `target`. A checkpoint of the same step steps aside for that moment; if
// the process dies in it, the loader and the next store find the one that stepped aside.
void put_in_place(const fs::path& temporary, const fs::path& target) {
  const fs::path old = sibling(target, kOld);
  const bool replaces = fs::exists(fs::symlink_status(target));
  if (replaces) {
    fs::remove_all(old);
    fs::rename(target, old);
  }
  try {
    fs::rename(temporary, target);
    sync_folder(target.parent_path());
  } catch (...) {
    std::error_code ignored;
    if (replaces && !fs::exists(target)) fs::rename(old, target, ignored);
    throw;
  }
  if (replaces) fs::remove_all(old);
}

std::string previous_checkpoint(const fs::path& folder) {
  std::vector<Entry> entries;
  try {
    entries = list_checkpoints(folder, true);
  } catch (const std::system_error&) {
  }
  return entries.empty()
             ? "there is no earlier checkpoint"
             : "the previous checkpoint " + entries.front().path.filename().string() + " is intact";
}

void write_and_place(const fs::path& folder, const Snapshot& snapshot) {
  const fs::path target = folder / folder_name(snapshot.step);
  const fs::path temporary = sibling(target, kTemporary);
  const std::int64_t needed = bytes_needed(snapshot);
  std::error_code ignored;
  try {
    fs::create_directories(folder);
    fs::remove_all(temporary);
    if (const std::int64_t available = free_space(folder); available >= 0 && available < needed)
      throw std::system_error(ENOSPC, std::generic_category());
    fs::create_directory(temporary);
    write_files(temporary, snapshot);
    put_in_place(temporary, target);
  } catch (const std::system_error& failure) {
    fs::remove_all(temporary, ignored);
    throw Error(Exit::storage, std::string(write_error(target, needed, failure.code()).what()) +
                                   "; " + previous_checkpoint(folder));
  } catch (...) {
    fs::remove_all(temporary, ignored);
    throw;
  }
}

// Points `best` to the checkpoint `name`, in one step.
void link_best(const fs::path& folder, const std::string& name) {
  const fs::path temporary = sibling(folder / kBestLink, kTemporary);
  try {
    fs::remove_all(temporary);
    fs::create_symlink(name, temporary);
    fs::rename(temporary, folder / kBestLink);
    sync_folder(folder);
  } catch (const std::system_error& failure) {
    throw write_error(folder / kBestLink, 0, failure.code());
  }
}

std::string best_name(const fs::path& folder) {
  std::error_code ignored;
  return fs::read_symlink(folder / kBestLink, ignored).filename().string();
}

// Steps after the one just written belong to a run that this one, resumed before them, takes the
// place of. They must not be resumed from, and are no longer counted, but are the user's to delete.
void set_superseded_aside(const fs::path& folder, std::int64_t step) {
  for (const Entry& entry : list_checkpoints(folder, false)) {
    if (entry.step <= step) break;
    const std::string name = entry.path.filename().string();
    if (best_name(folder) == name) fs::remove(folder / kBestLink);
    const fs::path aside = folder / (kSuperseded + name);
    fs::remove_all(aside);
    fs::rename(entry.path, aside);
    log::warning("the checkpoint " + name + " is of a later step than the run now has: kept as " +
                 aside.string() + ", not used any more");
  }
}

void remove_surplus(const fs::path& folder, std::int64_t keep) {
  const std::string best = best_name(folder);
  std::int64_t kept = 0;
  for (const Entry& entry : list_checkpoints(folder, false)) {
    if (++kept <= keep || entry.path.filename() == best) continue;
    // Renamed first, so that a checkpoint is never seen half removed.
    const fs::path temporary = sibling(entry.path, kTemporary);
    fs::remove_all(temporary);
    fs::rename(entry.path, temporary);
    fs::remove_all(temporary);
  }
}

void write_checkpoint(const StoreOptions& options, const Snapshot& snapshot) {
  for (const c10::Event& event : snapshot.ready) event.synchronize();
  write_and_place(options.folder, snapshot);
  if (snapshot.is_best) link_best(options.folder, folder_name(snapshot.step));
  try {
    set_superseded_aside(options.folder, snapshot.step);
    remove_surplus(options.folder, options.keep);
  } catch (const std::system_error& failure) {
    log::warning(std::string("an old checkpoint could not be removed: ") + failure.what());
  }
}

// What a process that was killed while writing left: partial checkpoints go, and one that was being
// replaced comes back where its successor did not get into place.
void clean_up(const fs::path& folder) {
  std::vector<fs::path> entries;
  for (const auto& entry : fs::directory_iterator(folder)) entries.push_back(entry.path());
  for (const fs::path& entry : entries) {
    const std::string name = entry.filename().string();
    const std::string replaced = replaced_name(name);
    if (name.starts_with(kTemporary) || (!replaced.empty() && fs::exists(folder / replaced)))
      fs::remove_all(entry);
    else if (!replaced.empty())
      fs::rename(entry, folder / replaced);
  }
}

}  // namespace

struct Store::Impl {
  StoreOptions options;
  Staging staging;
  std::thread writer;          // of the last save, until it is waited for
  std::exception_ptr failure;  // set by the writer, read after joining it

  void wait() {
    if (writer.joinable()) writer.join();
    if (failure) std::rethrow_exception(std::exchange(failure, nullptr));
  }
};

Store::Store(StoreOptions options) : impl_(std::make_unique<Impl>()) {
  if (options.keep < 1) throw std::invalid_argument("a store keeps at least one checkpoint");
  try {
    fs::create_directories(options.folder);
    clean_up(options.folder);
  } catch (const std::system_error& failure) {
    throw write_error(options.folder, 0, failure.code());
  }
  impl_->options = std::move(options);
}

Store::~Store() {
  try {
    impl_->wait();
  } catch (const std::exception& failure) {
    log::error(failure.what());
  }
}

void Store::save(std::int64_t step, const Parts& parts, const nlohmann::json& extra, bool is_best) {
  impl_->wait();
  Snapshot snapshot = take_snapshot(impl_->staging, step, parts, extra);
  snapshot.is_best = is_best;
  impl_->writer = std::thread([impl = impl_.get(), snapshot = std::move(snapshot)] {
    try {
      write_checkpoint(impl->options, snapshot);
    } catch (...) {
      impl->failure = std::current_exception();
    }
  });
}

void Store::wait() { impl_->wait(); }

}  // namespace trainer::checkpoint

// The folder of a run on disk.
#pragma once

#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>

namespace trainer::monitor {

class RunFolder {
 public:
  // Makes (or with `resume` reopens) the folder and holds an exclusive lock on it (flock on
  // .lock) for the object's life, so that two processes never write one run. Without `output`:
  // runs/<name>/<NNN>, the next free number, and runs/<name>/latest linked to it; with `resume`
  // and no `output`: the newest such run, or a new one where there is none.
  // Throws Error(storage) where it can't be made or is locked, and Error(usage) where it holds a
  // run and `resume` is false.
  static RunFolder open(const std::optional<std::filesystem::path>& output, const std::string& name,
                        bool resume);
  RunFolder(RunFolder&&) noexcept;
  ~RunFolder();

  const std::filesystem::path& path() const { return path_; }
  bool existed() const { return existed_; }  // holds a run already
  std::filesystem::path checkpoints() const { return path_ / "checkpoints"; }
  // Writes `text` to a file of the folder so that it is there whole or not at all.
  void write(const std::string& file, const std::string& text) const;

 private:
  RunFolder(std::filesystem::path path, bool existed, int lock);
  std::filesystem::path path_;
  bool existed_ = false;
  int lock_ = -1;
};

// environment.json: versions, host, command, working folder, git commit where there is one, and
// what the caller adds under its own keys.
nlohmann::json environment(int argc, const char* const* argv);

}  // namespace trainer::monitor

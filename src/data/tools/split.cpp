#include "data/tools/split.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <string>
#include <system_error>
#include <vector>

#include "core/error.h"
#include "core/random.h"
#include "core/storage.h"
#include "data/sources/csv.h"
#include "data/sources/files.h"
#include "data/sources/labels.h"
#include "data/sources/sources.h"
#include "data/tools/output_file.h"

namespace trainer::data {
namespace {

namespace fs = std::filesystem;

const FileSource& files_of(const Source& source) {
  if (const auto* files = dynamic_cast<const FileSource*>(&source)) return *files;
  throw Error(Exit::data, source.describe() +
                              ": only folders and manifests of image files can be split, since a "
                              "manifest lists files");
}

std::string class_name(const Source& source, std::size_t label) {
  const auto& names = source.class_names();
  return names.empty() ? std::to_string(label) : names[label];
}

std::vector<std::vector<std::int64_t>> samples_by_class(const Source& source) {
  std::vector<std::vector<std::int64_t>> samples(static_cast<std::size_t>(source.classes()));
  for (std::int64_t i = 0; i < source.size(); ++i)
    samples[static_cast<std::size_t>(source.label(i))].push_back(i);
  return samples;
}

std::size_t held_out(double share, std::size_t count) {
  const double wanted = std::round(share * static_cast<double>(count));
  return std::clamp(static_cast<std::size_t>(wanted), std::size_t{1}, count - 1);
}

// Whether each sample is one for validation.
std::vector<bool> choose(const Source& source, const SplitOptions& options) {
  std::vector<bool> chosen(static_cast<std::size_t>(source.size()));
  const auto by_class = samples_by_class(source);
  for (std::size_t label = 0; label < by_class.size(); ++label) {
    const std::vector<std::int64_t>& samples = by_class[label];
    if (samples.empty()) continue;
    if (samples.size() == 1) {
      throw Error(Exit::data, "the class \"" + printable(class_name(source, label)) +
                                  "\" has only one sample, " + source.sample_name(samples[0]) +
                                  ": it cannot be in both parts");
    }
    const Permutation order(samples.size(), mix(options.seed, label));
    const std::size_t count = held_out(options.share, samples.size());
    for (std::size_t i = 0; i < count; ++i)
      chosen[static_cast<std::size_t>(samples[order(i)])] = true;
  }
  return chosen;
}

// Labels as they are written. A manifest that is read without a list of classes takes integers for
// indices and other names in sorted order.
std::vector<std::string> label_texts(const Source& source) {
  const std::vector<std::string>& names = source.class_names();
  const bool integers = std::all_of(names.begin(), names.end(), is_index);
  const bool sorted = std::is_sorted(names.begin(), names.end());
  std::vector<std::string> indices;
  for (std::int64_t i = 0; i < source.classes(); ++i) indices.push_back(std::to_string(i));
  return integers || !sorted ? indices : names;
}

std::string shortest(float value) {
  std::array<char, 32> text{};
  const auto result = std::to_chars(text.data(), text.data() + text.size(), value);
  return {text.data(), result.ptr};
}

// A manifest under a temporary name.
class PendingManifest {
 public:
  PendingManifest(const fs::path& path, bool weighted)
      : path_(fs::absolute(path)),
        temporary_(path_.string() + ".partial-" + std::to_string(::getpid())),
        weighted_(weighted),
        file_(temporary_) {
    file_.append(weighted ? "path,label,weight\n" : "path,label\n");
  }
  ~PendingManifest() {
    ::unlink(temporary_.c_str());
    if (!kept_ && committed_) ::unlink(path_.c_str());
  }
  PendingManifest(const PendingManifest&) = delete;
  PendingManifest& operator=(const PendingManifest&) = delete;

  void add(const fs::path& sample, const std::string& label, float weight) {
    std::string line = csv_field(fs::absolute(sample).native()) + "," + csv_field(label);
    if (weighted_) line += "," + shortest(weight);
    file_.append(line + "\n");
    ++rows_;
  }

  void finish() { file_.finish(); }
  void commit() {
    if (::rename(temporary_.c_str(), path_.c_str()) != 0) throw_write_error(path_, errno);
    committed_ = true;
    sync_folder(path_.parent_path());
  }
  // Not before the other manifest is there too.
  void keep() { kept_ = true; }
  std::int64_t rows() const { return rows_; }

 private:
  fs::path path_;
  fs::path temporary_;
  bool weighted_;
  bool committed_ = false;
  bool kept_ = false;
  OutputFile file_;
  std::int64_t rows_ = 0;
};

SplitCounts write_manifests(const FileSource& source, const SplitOptions& options) {
  const std::vector<bool> chosen = choose(source, options);
  const std::vector<std::string> labels = label_texts(source);
  PendingManifest train(options.train, source.weighted());
  PendingManifest val(options.val, source.weighted());
  for (std::int64_t i = 0; i < source.size(); ++i) {
    PendingManifest& part = chosen[static_cast<std::size_t>(i)] ? val : train;
    part.add(source.file(i), labels[static_cast<std::size_t>(source.label(i))], source.weight(i));
  }
  train.finish();
  val.finish();
  train.commit();
  val.commit();
  train.keep();
  val.keep();
  return {train.rows(), val.rows()};
}

void require_absent(const fs::path& path) {
  if (!fs::exists(fs::symlink_status(path))) return;
  throw Error(Exit::storage,
              printable(path) + ": exists already; remove it or choose another name");
}

}  // namespace

SplitCounts split(const Source& source, const SplitOptions& options) {
  if (!(options.share > 0 && options.share < 1))
    throw Error(Exit::usage, "the share for validation must be between 0 and 1");
  const FileSource& files = files_of(source);
  require_absent(options.train);
  require_absent(options.val);
  try {
    return write_manifests(files, options);
  } catch (const std::system_error& failure) {
    throw_write_error(options.train, failure.code().value());
  }
}

}  // namespace trainer::data

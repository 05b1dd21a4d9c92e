#include "data/tools/pack.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <optional>
#include <system_error>

#include "core/error.h"
#include "core/storage.h"
#include "data/images/decode.h"
#include "data/sources/files.h"
#include "data/sources/tar.h"
#include "data/tools/output_file.h"

namespace trainer::data {
namespace {

namespace fs = std::filesystem;

constexpr const char* kClasses = "classes.txt";

std::string numbered(const char* format, std::int64_t number) {
  std::array<char, 48> text{};
  std::snprintf(text.data(), text.size(), format, static_cast<long long>(number));
  return text.data();
}

// Whether `pack` gives files such names.
bool is_ours(const std::string& name) {
  return name == kClasses || (name.starts_with("shard-") && name.ends_with(".tar"));
}

// Overwriting removes a folder with all that is in it, so nothing else may be there.
void require_replaceable(const fs::path& output) {
  if (!fs::is_directory(output))
    throw Error(Exit::storage, printable(output) + ": is no folder, it is not overwritten");
  for (const auto& entry : fs::directory_iterator(output)) {
    if (is_ours(entry.path().filename().string())) continue;
    throw Error(Exit::storage, printable(output) + ": is not overwritten, since it holds " +
                                   printable(entry.path().filename()) +
                                   ", which does not belong to packed data");
  }
}

void require_free(const fs::path& output, bool overwrite) {
  if (!fs::exists(fs::symlink_status(output))) return;
  if (overwrite) return require_replaceable(output);
  throw Error(Exit::storage,
              printable(output) + ": exists already; choose another folder or ask to overwrite it");
}

// A folder beside the one that is wanted, which it becomes when all is in it. Removed otherwise.
class PendingFolder {
 public:
  explicit PendingFolder(const fs::path& wanted)
      : wanted_(wanted), path_(wanted.string() + ".partial-" + std::to_string(::getpid())) {
    if (::mkdir(path_.c_str(), 0777) != 0) throw_write_error(path_, errno);
  }
  ~PendingFolder() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  PendingFolder(const PendingFolder&) = delete;
  PendingFolder& operator=(const PendingFolder&) = delete;

  const fs::path& path() const { return path_; }

  // What was at the wanted place before is then at path(), and is removed with this.
  void commit() {
    sync_folder(path_);
    const bool replaces = fs::exists(fs::symlink_status(wanted_));
    const unsigned flags = replaces ? RENAME_EXCHANGE : RENAME_NOREPLACE;
    if (::renameat2(AT_FDCWD, path_.c_str(), AT_FDCWD, wanted_.c_str(), flags) != 0) {
      if (errno != EINVAL && errno != ENOSYS) throw_write_error(wanted_, errno);
      rename_in_two_steps(replaces);
    }
    sync_folder(wanted_.parent_path());
  }

 private:
  // For file systems that cannot exchange two names.
  void rename_in_two_steps(bool replaces) {
    const fs::path aside = path_.string() + ".old";
    if (replaces) fs::rename(wanted_, aside);
    fs::rename(path_, wanted_);
    if (replaces) fs::rename(aside, path_);
  }

  fs::path wanted_;
  fs::path path_;
};

// The members of one sample, as they stand in an archive.
class SampleMembers {
 public:
  explicit SampleMembers(std::int64_t index) : key_(numbered("%09lld", index)) {}

  // `content` in two parts, the second one of which must stay valid.
  void add(const std::string& extension, const std::string& head, std::string_view rest = {}) {
    const std::uint64_t size = head.size() + rest.size();
    std::string front = tar_header(key_ + "." + extension, size) + head;
    members_.push_back({std::move(front), rest, tar_padding(size)});
  }

  std::int64_t size() const {
    std::size_t size = 0;
    for (const Member& each : members_) size += each.front.size() + each.rest.size() + each.padding;
    return static_cast<std::int64_t>(size);
  }

  void write(OutputFile& file) const {
    for (const Member& each : members_) {
      file.append(each.front);
      file.append(each.rest);
      file.append(std::string(each.padding, '\0'));
    }
  }

 private:
  struct Member {
    std::string front;
    std::string_view rest;
    std::size_t padding;
  };

  std::string key_;
  std::vector<Member> members_;
};

// For decoders the content counts, whatever the file is called; what is no image keeps its place
// in the order, so that it is found again under its number.
const char* extension_of(Bytes image) {
  switch (format_of(image)) {
    case Format::png:
      return "png";
    case Format::bmp:
      return "bmp";
    case Format::webp:
      return "webp";
    case Format::tiff:
      return "tif";
    case Format::pnm:
      return "pnm";
    case Format::jpeg:
    case Format::unknown:
      break;
  }
  return "jpg";
}

void add_image(const Raw& raw, SampleMembers& members) {
  const std::string_view bytes = as_text(raw.bytes);
  if (raw.encoded()) return members.add(extension_of(raw.bytes), "", bytes);
  const bool grey = raw.channels == 1;
  const std::string header = std::string(grey ? "P5" : "P6") + "\n" + std::to_string(raw.width) +
                             " " + std::to_string(raw.height) + "\n255\n";
  members.add(grey ? "pgm" : "ppm", header, bytes);
}

// Writes samples to one shard after another.
class ShardWriter {
 public:
  ShardWriter(const Source& source, const fs::path& folder, std::int64_t shard_bytes)
      : source_(source), folder_(folder), shard_bytes_(shard_bytes) {}

  void add(std::int64_t index) {
    const Raw raw = source_.fetch(index, buffer_);
    if (raw.bytes.size() >> 32 != 0) {
      throw Error(Exit::data,
                  source_.sample_name(index) + ": the file is too large for a tar archive");
    }
    SampleMembers members(index);
    add_image(raw, members);
    const std::int64_t label = source_.label(index);
    members.add("cls", std::to_string(label));
    if (source_.weighted()) {
      const nlohmann::json json{{"label", label}, {"weight", source_.weight(index)}};
      members.add("json", json.dump());
    }
    members.write(shard_for(members.size()));
  }

  void finish() {
    if (!shard_) return;
    shard_->append(std::string(kTarEnd, '\0'));
    shard_->finish();
    shard_.reset();
  }

 private:
  OutputFile& shard_for(std::int64_t bytes) {
    const auto end = static_cast<std::int64_t>(kTarEnd);
    if (shard_ && shard_->size() + bytes + end > shard_bytes_) finish();
    if (!shard_) shard_.emplace(folder_ / numbered("shard-%06lld.tar", shards_++));
    return *shard_;
  }

  const Source& source_;
  const fs::path& folder_;
  std::int64_t shard_bytes_;
  std::int64_t shards_ = 0;
  std::optional<OutputFile> shard_;
  std::vector<std::uint8_t> buffer_;
};

// A line a class; their indices where they have no names.
std::string class_lines(const Source& source) {
  std::string lines;
  for (const std::string& name : source.class_names()) {
    if (name.empty() || name.find_first_of("\r\n") != std::string::npos) {
      throw Error(Exit::data, "the class \"" + printable(name) +
                                  "\" cannot be packed, since its name is no line of " + kClasses);
    }
    lines += name + "\n";
  }
  if (!lines.empty()) return lines;
  for (std::int64_t i = 0; i < source.classes(); ++i) lines += std::to_string(i) + "\n";
  return lines;
}

void write_classes(const Source& source, const fs::path& folder) {
  const std::string lines = class_lines(source);
  OutputFile file(folder / kClasses);
  file.append(lines);
  file.finish();
}

void write_folder(const Source& source, const PackOptions& options, const PackProgress& progress,
                  PendingFolder& folder) {
  write_classes(source, folder.path());
  ShardWriter shards(source, folder.path(), options.shard_bytes);
  for (std::int64_t i = 0; i < source.size(); ++i) {
    shards.add(i);
    if (progress) progress(i + 1, source.size());
  }
  shards.finish();
  folder.commit();
}

// Absolute, without a slash at its end.
fs::path normal(const fs::path& output) {
  const fs::path path = fs::absolute(output).lexically_normal();
  return path.has_filename() ? path : path.parent_path();
}

}  // namespace

void pack(const Source& source, const PackOptions& options, const PackProgress& progress) {
  const fs::path output = normal(options.output);
  try {
    require_free(output, options.overwrite);
    PendingFolder folder(output);
    write_folder(source, options, progress, folder);
  } catch (const std::system_error& failure) {
    throw_write_error(output, failure.code().value());
  }
}

}  // namespace trainer::data

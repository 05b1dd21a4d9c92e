#include "data/sources/index_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cinttypes>
#include <cstdio>

#include "core/error.h"
#include "core/paths.h"
#include "data/sources/files.h"

namespace trainer::data {
namespace {

namespace fs = std::filesystem;

// Raised with every change of what any kind of source packs, or of what it would find.
constexpr std::uint64_t kVersion = 1;
constexpr std::int64_t kMargin = 2'000'000'000;

// version, hash of the rest, subject, content
constexpr std::size_t kHeader = 2 * sizeof(std::uint64_t);

std::optional<fs::path> index_path(const std::string& kind, const std::string& subject) {
  const auto folder = cache_folder();
  if (!folder) return std::nullopt;
  std::array<char, 17> name{};
  std::snprintf(name.data(), name.size(), "%016" PRIx64, hash_text(subject, 0));
  return *folder / (kind + "-" + name.data() + ".index");
}

bool write_all(int descriptor, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(descriptor, bytes.data(), bytes.size());
    if (written <= 0) return false;
    bytes.remove_prefix(static_cast<std::size_t>(written));
  }
  return true;
}

// Not synced: after a power failure the hash tells, and the next run looks again.
void replace_file(const fs::path& path, std::string_view header, std::string_view content) {
  std::string temporary = path.string() + ".XXXXXX";
  const int descriptor = ::mkostemp(temporary.data(), O_CLOEXEC);
  if (descriptor < 0) return;
  bool whole = write_all(descriptor, header) && write_all(descriptor, content);
  whole = ::close(descriptor) == 0 && whole;
  if (!whole || ::rename(temporary.c_str(), path.c_str()) != 0) ::unlink(temporary.c_str());
}

Stamp stamp(const struct stat& status) {
  return {status.st_mtim.tv_sec * std::int64_t{1'000'000'000} + status.st_mtim.tv_nsec,
          status.st_ino, static_cast<std::uint64_t>(S_ISREG(status.st_mode) ? status.st_size : 0)};
}

}  // namespace

std::optional<Stamp> stamp_of(const fs::path& path) {
  struct stat status {};
  if (::stat(path.c_str(), &status) != 0) return std::nullopt;
  return stamp(status);
}

Stamp stamp_of_open(int descriptor) {
  struct stat status {};
  if (::fstat(descriptor, &status) != 0) return {};
  return stamp(status);
}

std::int64_t now() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

bool settled(const Stamp& stamp, std::int64_t looked_at) {
  return stamp.changed < looked_at - kMargin;
}

void Packer::text(std::string_view value) {
  number<std::uint64_t>(value.size());
  bytes_ += value;
}

void Packer::texts(const std::vector<std::string>& values) {
  number<std::uint64_t>(values.size());
  for (const std::string& value : values) text(value);
}

void Packer::texts(const TextList& values) {
  bytes_.reserve(bytes_.size() + values.bytes().size() + 8 * values.size() + 64);
  text(values.bytes());
  numbers(values.ends());
}

std::string_view Unpacker::take(std::uint64_t count, std::size_t size) {
  if (count > bytes_.size() / size) throw Damaged();
  const std::string_view taken = bytes_.substr(0, count * size);
  bytes_.remove_prefix(taken.size());
  return taken;
}

std::string Unpacker::text() { return std::string(take(number<std::uint64_t>(), 1)); }

std::vector<std::string> Unpacker::texts() {
  std::vector<std::string> values;
  for (auto left = number<std::uint64_t>(); left > 0; --left) values.push_back(text());
  return values;
}

TextList Unpacker::text_list() {
  std::string bytes = text();
  std::vector<std::uint64_t> ends = numbers<std::uint64_t>();
  TextList list;
  if (!list.assign(std::move(bytes), std::move(ends))) throw Damaged();
  return list;
}

std::optional<std::string> load_index(const std::string& kind, const std::string& subject) {
  const auto path = index_path(kind, subject);
  if (!path) return std::nullopt;
  try {
    const MappedFile file(*path);
    const std::string_view bytes = as_text(file.bytes());
    Unpacker unpacker(bytes);
    if (unpacker.number<std::uint64_t>() != kVersion) return std::nullopt;
    if (unpacker.number<std::uint64_t>() != hash_text(bytes.substr(kHeader), 0))
      return std::nullopt;
    if (unpacker.text() != subject) return std::nullopt;
    return std::string(bytes.substr(kHeader + sizeof(std::uint64_t) + subject.size()));
  } catch (const Error&) {
    return std::nullopt;  // there is none
  } catch (const Unpacker::Damaged&) {
    return std::nullopt;
  }
}

void save_index(const std::string& kind, const std::string& subject, const Packer& content) {
  const auto path = index_path(kind, subject);
  if (!path) return;
  Packer body;
  body.text(subject);
  std::string bytes = body.bytes() + content.bytes();
  Packer header;
  header.number(kVersion);
  header.number(hash_text(bytes, 0));
  replace_file(*path, header.bytes(), bytes);
}

}  // namespace trainer::data

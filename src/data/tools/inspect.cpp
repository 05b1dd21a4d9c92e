#include "data/tools/inspect.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <exception>
#include <filesystem>
#include <fstream>
#include <map>
#include <mutex>
#include <optional>
#include <string_view>
#include <thread>

#include "core/cpu.h"
#include "core/error.h"
#include "data/sources/files.h"
#include "data/sources/sources.h"

namespace trainer::data {
namespace {

namespace fs = std::filesystem;

// What most headers lie in, with a thumbnail in their EXIF data.
constexpr std::size_t kFront = 128 * 1024;

struct Broken {
  std::int64_t index = 0;
  std::string reason;
};

// Of one sample.
struct Found {
  bool good = false;
  bool turned = false;
  Format format = Format::unknown;  // of an image file
  std::uint32_t kind = 0;           // see `kind_of`
  int height = 0, width = 0;
  std::int64_t bytes = 0;
  std::uint64_t content = 0;
};

// What reports tell apart, in one number.
std::uint32_t kind_of(const ImageInfo& info) {
  return static_cast<std::uint32_t>(info.format) << 24 |
         static_cast<std::uint32_t>(info.components) << 16 |
         static_cast<std::uint32_t>(info.bits) << 8 | (info.progressive ? 1U : 0U);
}

const char* name_of_channels(Format format, std::uint32_t components) {
  switch (components) {
    case 1:
      return "grey";
    case 2:
      return "grey with alpha";
    case 4:
      return format == Format::jpeg ? "CMYK" : "RGB with alpha";
    default:
      return "RGB";
  }
}

// "JPEG, progressive, RGB", "PNG, grey, 16-bit".
std::string describe_kind(std::uint32_t kind) {
  const auto format = static_cast<Format>(kind >> 24);
  const std::uint32_t bits = (kind >> 8) & 0xFF;
  std::string text = format == Format::unknown ? "pixels" : name_of(format);
  if (format == Format::jpeg) text += (kind & 1) != 0 ? ", progressive" : ", baseline";
  text += std::string(", ") + name_of_channels(format, (kind >> 16) & 0xFF);
  if (bits != 8) text += ", " + std::to_string(bits) + "-bit";
  return text;
}

// The format that files with such a name have; nullopt where the name says nothing.
std::optional<Format> format_by_name(std::string_view name) {
  static const std::map<std::string, Format, std::less<>> formats{
      {"jpg", Format::jpeg}, {"jpeg", Format::jpeg}, {"jpe", Format::jpeg}, {"png", Format::png},
      {"bmp", Format::bmp},  {"webp", Format::webp}, {"tif", Format::tiff}, {"tiff", Format::tiff},
      {"ppm", Format::pnm},  {"pgm", Format::pnm},   {"pnm", Format::pnm}};
  if (!has_image_extension(name)) return std::nullopt;
  std::string extension(name.substr(name.rfind('.') + 1));
  for (char& c : extension)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  return formats.find(extension)->second;
}

// Up to `most` bytes of the file's front.
void read_front(const fs::path& path, std::size_t most, std::vector<std::uint8_t>& buffer) {
  buffer.resize(most);
  std::ifstream file(path, std::ios::binary);
  file.read(reinterpret_cast<char*>(buffer.data()), static_cast<std::streamsize>(most));
  buffer.resize(static_cast<std::size_t>(file.gcount()));
}

// One thread's work.
class Examiner {
 public:
  Examiner(const Source& source, const InspectOptions& options)
      : source_(source),
        files_(dynamic_cast<const FileSource*>(&source)),
        options_(options),
        decoder_(options.decode) {}

  // Throws Error(data) with the reason alone, as far as the source leaves it alone. What has been
  // found by then is in `found`.
  void examine(std::int64_t index, Found& found) {
    if (options_.headers_only && files_ != nullptr && examine_front(index, found)) return;
    const Raw raw = read(index);
    found.bytes = static_cast<std::int64_t>(raw.bytes.size());
    if (!options_.headers_only) found.content = hash_bytes(raw.bytes, 0);
    if (raw.encoded())
      examine_file(raw.bytes, found);
    else
      examine_pixels(raw, found);
    found.good = true;
  }

 private:
  // False where the header is longer than that, or damaged.
  bool examine_front(std::int64_t index, Found& found) {
    const fs::path path = files_->file(index);
    read_front(path, kFront, buffer_);
    try {
      note(read_header(buffer_, options_.decode), buffer_, found);
    } catch (const Error&) {
      return false;
    }
    std::error_code failure;
    found.bytes = static_cast<std::int64_t>(fs::file_size(path, failure));
    found.good = !failure;
    return found.good;
  }

  Raw read(std::int64_t index) {
    if (files_ == nullptr) return source_.fetch(index, buffer_);
    read_file(files_->file(index).string(), buffer_);
    return {.bytes = buffer_};
  }

  void examine_file(Bytes bytes, Found& found) {
    found.format = format_of(bytes);
    if (options_.headers_only) return note(read_header(bytes, options_.decode), bytes, found);
    const ImageInfo info = decoder_.open(bytes);
    note(info, bytes, found);
    decoder_.read({0, 0, info.height, info.width}, 1, picture_);
  }

  static void examine_pixels(const Raw& raw, Found& found) {
    found.height = raw.height;
    found.width = raw.width;
    ImageInfo info;
    info.components = raw.channels;
    found.kind = kind_of(info);
  }

  void note(const ImageInfo& info, Bytes bytes, Found& found) const {
    found.format = info.format;
    found.height = info.height;
    found.width = info.width;
    found.kind = kind_of(info);
    found.turned = info.orientation != 1;
    if (options_.decode.exif_orientation) return;
    DecodeOptions turning = options_.decode;
    turning.exif_orientation = true;
    found.turned = read_header(bytes, turning).orientation != 1;
  }

  const Source& source_;
  const FileSource* files_;
  const InspectOptions& options_;
  Decoder decoder_;
  std::vector<std::uint8_t> buffer_;
  Image picture_;
};

// All samples on all CPUs.
class Pass {
 public:
  Pass(const Source& source, const InspectOptions& options, const InspectProgress& progress)
      : source_(source),
        options_(options),
        progress_(progress),
        found_(static_cast<std::size_t>(source.size())) {}

  void run() {
    const auto threads = static_cast<int>(std::min(std::int64_t{cpu_limit()}, source_.size()));
    {
      std::vector<std::jthread> others;
      for (int i = 1; i < threads; ++i) others.emplace_back([this] { work(/*reports=*/false); });
      work(/*reports=*/true);
    }
    if (failure_) std::rethrow_exception(failure_);
    if (progress_) progress_(source_.size(), source_.size());
    std::sort(broken_.begin(), broken_.end(),
              [](const Broken& a, const Broken& b) { return a.index < b.index; });
  }

  const std::vector<Found>& found() const { return found_; }
  const std::vector<Broken>& broken() const { return broken_; }

 private:
  void work(bool reports) {
    try {
      Examiner examiner(source_, options_);
      for (std::int64_t i = next_++; i < source_.size() && !failed_; i = next_++) {
        examine(i, examiner);
        if (reports) report(i);
      }
    } catch (...) {
      const std::lock_guard lock(mutex_);
      failure_ = std::current_exception();
      failed_ = true;
    }
  }

  void examine(std::int64_t index, Examiner& examiner) {
    try {
      examiner.examine(index, found_[static_cast<std::size_t>(index)]);
    } catch (const Error& error) {
      const std::lock_guard lock(mutex_);
      broken_.push_back({index, error.what()});
    }
  }

  void report(std::int64_t done) {
    const auto now = std::chrono::steady_clock::now();
    if (!progress_ || now < reported_ + std::chrono::milliseconds(100)) return;
    reported_ = now;
    progress_(done, source_.size());
  }

  const Source& source_;
  const InspectOptions& options_;
  const InspectProgress& progress_;
  std::vector<Found> found_;
  std::atomic<std::int64_t> next_ = 0;
  std::atomic<bool> failed_ = false;
  std::mutex mutex_;
  std::vector<Broken> broken_;
  std::exception_ptr failure_;
  std::chrono::steady_clock::time_point reported_;
};

std::string class_name(const Source& source, std::int64_t label) {
  const auto at = static_cast<std::size_t>(label);
  const std::vector<std::string>& names = source.class_names();
  return at < names.size() ? printable(names[at]) : "class " + std::to_string(label);
}

NamedSample named(const Source& source, std::int64_t index) {
  return {index, source.sample_name(index), class_name(source, source.label(index))};
}

std::vector<Count> count_classes(const Source& source) {
  std::vector<Count> classes;
  for (std::int64_t label = 0; label < source.classes(); ++label)
    classes.push_back({class_name(source, label), 0});
  for (std::int64_t i = 0; i < source.size(); ++i)
    ++classes[static_cast<std::size_t>(source.label(i))].samples;
  return classes;
}

std::vector<Count> count_formats(const std::vector<Found>& found) {
  std::map<std::uint32_t, std::int64_t> counts;
  for (const Found& each : found)
    if (each.good) ++counts[each.kind];
  std::vector<Count> formats;
  for (const auto& [kind, samples] : counts) formats.push_back({describe_kind(kind), samples});
  std::stable_sort(formats.begin(), formats.end(),
                   [](const Count& a, const Count& b) { return a.samples > b.samples; });
  return formats;
}

template <class Value>
Spread spread(const std::vector<Found>& found, Value&& value) {
  std::vector<std::int64_t> values;
  for (const Found& each : found)
    if (each.good) values.push_back(value(each));
  if (values.empty()) return {};
  std::sort(values.begin(), values.end());
  return {values.front(), values[(values.size() - 1) / 2], values.back()};
}

std::vector<MisnamedSample> find_misnamed(const Source& source, const std::vector<Found>& found) {
  std::vector<MisnamedSample> misnamed;
  for (std::size_t i = 0; i < found.size(); ++i) {
    if (found[i].format == Format::unknown) continue;
    NamedSample sample = named(source, static_cast<std::int64_t>(i));
    const auto says = format_by_name(sample.name);
    if (says && *says != found[i].format)
      misnamed.push_back({std::move(sample), name_of(found[i].format)});
  }
  return misnamed;
}

// A sample of one of several sets, by its content.
struct Content {
  std::uint64_t hash = 0;
  std::size_t set = 0;
  std::int64_t index = 0;
  auto operator<=>(const Content&) const = default;
};

using Group = std::vector<Content>;

// Samples with the same content, of those whose content is known; in the order of their first ones.
std::vector<Group> group_equal(const std::vector<InspectedSet>& sets) {
  std::vector<Content> all;
  for (std::size_t set = 0; set < sets.size(); ++set) {
    const auto& contents = sets[set].inspection.contents;
    for (std::size_t i = 0; i < contents.size(); ++i)
      if (contents[i] != 0) all.push_back({contents[i], set, static_cast<std::int64_t>(i)});
  }
  std::sort(all.begin(), all.end());
  std::vector<Group> groups;
  for (auto begin = all.begin(); begin != all.end();) {
    const auto end = std::find_if(
        begin, all.end(), [begin](const Content& each) { return each.hash != begin->hash; });
    if (end - begin > 1) groups.emplace_back(begin, end);
    begin = end;
  }
  std::sort(groups.begin(), groups.end(), [](const Group& a, const Group& b) {
    return std::pair(a[0].set, a[0].index) < std::pair(b[0].set, b[0].index);
  });
  return groups;
}

SameContent named(const Group& group, const std::vector<InspectedSet>& sets) {
  SameContent same;
  for (const Content& each : group) {
    const InspectedSet& set = sets[each.set];
    same.members.push_back({set.inspection.name, named(set.source, each.index)});
    if (same.members.back().sample.class_name != same.members.front().sample.class_name)
      same.classes_differ = true;
  }
  return same;
}

}  // namespace

Inspection inspect(const std::string& name, const Source& source, const InspectOptions& options,
                   const InspectProgress& progress) {
  Pass pass(source, options, progress);
  pass.run();
  const std::vector<Found>& found = pass.found();
  Inspection result;
  result.name = name;
  result.source = source.describe();
  result.samples = source.size();
  result.classes = count_classes(source);
  result.formats = count_formats(found);
  result.height = spread(found, [](const Found& each) { return each.height; });
  result.width = spread(found, [](const Found& each) { return each.width; });
  result.pixels =
      spread(found, [](const Found& each) { return std::int64_t{each.height} * each.width; });
  for (const Found& each : found) {
    result.bytes += each.bytes;
    result.turned += each.good && each.turned ? 1 : 0;
    result.contents.push_back(each.content);
  }
  result.turns_applied = options.decode.exif_orientation;
  for (const Broken& each : pass.broken())
    result.broken.push_back({named(source, each.index), each.reason});
  result.misnamed = find_misnamed(source, found);
  const std::vector<InspectedSet> sets{{source, result}};
  for (const Group& group : group_equal(sets)) result.duplicates.push_back(named(group, sets));
  return result;
}

std::vector<SameContent> in_both(const InspectedSet& a, const InspectedSet& b) {
  const std::vector<InspectedSet> sets{a, b};
  std::vector<SameContent> both;
  for (const Group& group : group_equal(sets))
    if (group.front().set != group.back().set) both.push_back(named(group, sets));
  return both;
}

}  // namespace trainer::data

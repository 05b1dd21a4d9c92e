#include "checkpoint/safetensors.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <nlohmann/json.hpp>
#include <numeric>
#include <optional>
#include <set>
#include <stdexcept>

#include "checkpoint/tensor_io.h"

namespace trainer::checkpoint {
namespace {

static_assert(std::endian::native == std::endian::little, "the format is little-endian");

constexpr std::size_t kLengthBytes = 8;
constexpr std::size_t kAlignment = 8;
// The limit of the reference implementation: a longer header is a damaged length.
constexpr std::uint64_t kLargestHeader = 100'000'000;
constexpr const char* kMetadata = "__metadata__";

struct DtypeName {
  const char* name;
  at::ScalarType type;
};
constexpr std::array<DtypeName, 10> kDtypes{{{"F64", at::kDouble},
                                             {"F32", at::kFloat},
                                             {"F16", at::kHalf},
                                             {"BF16", at::kBFloat16},
                                             {"I64", at::kLong},
                                             {"I32", at::kInt},
                                             {"I16", at::kShort},
                                             {"I8", at::kChar},
                                             {"U8", at::kByte},
                                             {"BOOL", at::kBool}}};

const char* dtype_name(const NamedTensor& tensor) {
  for (const DtypeName& dtype : kDtypes)
    if (dtype.type == tensor.value.scalar_type()) return dtype.name;
  throw std::invalid_argument("safetensors has no name for the dtype of tensor " + tensor.name);
}

[[noreturn]] void malformed(const InputFile& file, const std::string& reason) {
  throw Error(Exit::storage, file.path().string() + ": not a valid safetensors file: " + reason +
                                 "; copy or download it again");
}

void check_writable(const NamedTensors& tensors) {
  std::set<std::string> names{kMetadata};
  for (const NamedTensor& tensor : tensors) {
    if (!names.insert(tensor.name).second)
      throw std::invalid_argument("two tensors are named " + tensor.name);
    if (!tensor.value.defined() || !tensor.value.device().is_cpu())
      throw std::invalid_argument("tensor " + tensor.name + " is not on the CPU");
  }
}

// One tensor as the header describes it; offsets from the end of the header.
struct Entry {
  std::string name;
  at::ScalarType type = at::kByte;
  std::vector<std::int64_t> shape;
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
};

// The header's JSON, and its top-level keys in file order. A key that stands twice in one object is
// refused: which of the two counts is not defined.
struct Header {
  nlohmann::json json;
  std::vector<std::string> names;
};
Header parse_header(const InputFile& file, const std::string& text) {
  Header header;
  std::vector<std::set<std::string>> keys;
  std::optional<std::string> duplicate;
  const auto watch = [&](int, nlohmann::json::parse_event_t event, nlohmann::json& parsed) {
    using Event = nlohmann::json::parse_event_t;
    if (event == Event::object_start) keys.emplace_back();
    if (event == Event::object_end) keys.pop_back();
    if (event == Event::key) {
      const auto& key = parsed.get_ref<const std::string&>();
      if (!keys.back().insert(key).second) duplicate = key;
      if (keys.size() == 1) header.names.push_back(key);
    }
    return true;
  };
  try {
    header.json = nlohmann::json::parse(text, watch);
  } catch (const nlohmann::json::exception& error) {
    malformed(file, std::string("its header is not JSON: ") + error.what());
  }
  if (duplicate) malformed(file, "its header has the key " + *duplicate + " twice");
  if (!header.json.is_object()) malformed(file, "its header is not a JSON object");
  return header;
}

bool is_list_of_counts(const nlohmann::json& value) {
  return value.is_array() && std::all_of(value.begin(), value.end(), [](const auto& element) {
           return element.is_number_unsigned();
         });
}

// Elements × bytes of one, or nullopt where that, or a stride of the shape, passes 63 bits.
std::optional<std::uint64_t> byte_count(const Entry& entry) {
  auto bytes = static_cast<std::int64_t>(c10::elementSize(entry.type));
  bool empty = false;
  for (const std::int64_t dimension : entry.shape) {
    empty = empty || dimension == 0;
    const std::int64_t factor = std::max<std::int64_t>(dimension, 1);
    if (__builtin_mul_overflow(bytes, factor, &bytes)) return std::nullopt;
  }
  return empty ? 0 : static_cast<std::uint64_t>(bytes);
}

Entry parse_entry(const InputFile& file, const std::string& name, const nlohmann::json& value) {
  const auto fail = [&](const std::string& reason) {
    malformed(file, "tensor " + name + ": " + reason);
  };
  if (!value.is_object() || value.size() != 3 || !value.contains("dtype") ||
      !value.contains("shape") || !value.contains("data_offsets"))
    fail("its entry is not {dtype, shape, data_offsets}");
  Entry entry;
  entry.name = name;
  const std::string dtype =
      value["dtype"].is_string() ? value["dtype"].get<std::string>() : value["dtype"].dump();
  const auto known = std::find_if(kDtypes.begin(), kDtypes.end(),
                                  [&](const DtypeName& one) { return one.name == dtype; });
  if (known == kDtypes.end()) fail("the dtype " + dtype + " is not supported");
  entry.type = known->type;

  if (!is_list_of_counts(value["shape"])) fail("its shape is not a list of whole numbers");
  for (const nlohmann::json& dimension : value["shape"]) {
    const auto size = dimension.get<std::uint64_t>();
    if (size > static_cast<std::uint64_t>(INT64_MAX)) fail("its shape is too large");
    entry.shape.push_back(static_cast<std::int64_t>(size));
  }
  const nlohmann::json& offsets = value["data_offsets"];
  if (!is_list_of_counts(offsets) || offsets.size() != 2)
    fail("data_offsets is not a pair of whole numbers");
  entry.begin = offsets[0].get<std::uint64_t>();
  entry.end = offsets[1].get<std::uint64_t>();
  const std::optional<std::uint64_t> bytes = byte_count(entry);
  if (!bytes) fail("its shape is too large");
  if (entry.end < entry.begin || entry.end - entry.begin != *bytes)
    fail("its shape takes " + std::to_string(*bytes) + " bytes, its data_offsets say otherwise");
  return entry;
}

// In file order the tensors must tile the data exactly, as the format asks: no overlap, no hole,
// nothing behind. Returns the entries' indices in file order.
std::vector<std::size_t> check_tiling(const InputFile& file, const std::vector<Entry>& entries,
                                      std::uint64_t data_bytes) {
  std::vector<std::size_t> order(entries.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return std::pair(entries[a].begin, entries[a].end) <
           std::pair(entries[b].begin, entries[b].end);
  });
  std::uint64_t position = 0;
  for (const std::size_t index : order) {
    const Entry& entry = entries[index];
    if (entry.end > data_bytes)
      malformed(file, "tensor " + entry.name + " ends at byte " + std::to_string(entry.end) +
                          " of the data, which has " + std::to_string(data_bytes) +
                          " (was the file cut short?)");
    if (entry.begin != position)
      malformed(file, "tensor " + entry.name +
                          (entry.begin < position ? " overlaps the one before it"
                                                  : " leaves a gap before it"));
    position = entry.end;
  }
  if (position != data_bytes)
    malformed(file, std::to_string(data_bytes - position) + " bytes follow the last tensor");
  return order;
}

std::string read_header_text(InputFile& file) {
  const auto size = static_cast<std::uint64_t>(file.size());
  if (size < kLengthBytes)
    malformed(file, "it has " + std::to_string(size) + " bytes, fewer than its header's length");
  std::uint64_t length = 0;
  file.read(&length, kLengthBytes);
  if (length > kLargestHeader || length > size - kLengthBytes)
    malformed(file, "its header's length " + std::to_string(length) + " passes the file's " +
                        std::to_string(size) + " bytes or the format's limit");
  std::string text(length, '\0');
  file.read(text.data(), text.size());
  return text;
}

}  // namespace

Layout layout_of(const NamedTensors& tensors) {
  check_writable(tensors);
  Layout layout;
  layout.order.resize(tensors.size());
  std::iota(layout.order.begin(), layout.order.end(), std::size_t{0});
  std::stable_sort(layout.order.begin(), layout.order.end(), [&](std::size_t a, std::size_t b) {
    return tensors[a].value.element_size() > tensors[b].value.element_size();
  });
  std::vector<std::int64_t> begin(tensors.size());
  std::int64_t data_bytes = 0;
  for (const std::size_t index : layout.order) {
    begin[index] = data_bytes;
    data_bytes += static_cast<std::int64_t>(tensors[index].value.nbytes());
  }

  // By hand, since nlohmann's ordered object looks each key up from its beginning.
  std::string text = R"({"__metadata__":{"format":"pt"})";
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const at::Tensor& value = tensors[i].value;
    const nlohmann::json entry = {
        {"dtype", dtype_name(tensors[i])},
        {"shape", value.sizes().vec()},
        {"data_offsets", {begin[i], begin[i] + static_cast<std::int64_t>(value.nbytes())}}};
    text += ',' + nlohmann::json(tensors[i].name).dump() + ':' + entry.dump();
  }
  text += '}';
  text.resize((text.size() + kAlignment - 1) / kAlignment * kAlignment, ' ');
  const std::uint64_t length = text.size();
  layout.head.assign(reinterpret_cast<const char*>(&length), kLengthBytes);
  layout.head += text;
  layout.total_bytes = static_cast<std::int64_t>(layout.head.size()) + data_bytes;
  return layout;
}

void write_tensors(OutputFile& file, const NamedTensors& tensors) {
  const Layout layout = layout_of(tensors);
  file.write(layout.head.data(), layout.head.size());
  for (const std::size_t index : layout.order) {
    const at::Tensor value = tensors[index].value.contiguous();
    file.write(value.const_data_ptr(), value.nbytes());
  }
}

namespace {

// What a file holds, checked against its size.
struct Contents {
  std::vector<Entry> entries;      // in the order of the header
  std::vector<std::size_t> order;  // of their data
  std::uint64_t data_begin = 0;
};

Contents read_contents(InputFile& file) {
  const std::string text = read_header_text(file);
  const Header header = parse_header(file, text);
  Contents contents;
  for (const std::string& name : header.names)
    if (name != kMetadata)
      contents.entries.push_back(parse_entry(file, name, header.json.at(name)));
  contents.data_begin = kLengthBytes + text.size();
  contents.order = check_tiling(file, contents.entries,
                                static_cast<std::uint64_t>(file.size()) - contents.data_begin);
  return contents;
}

}  // namespace

NamedTensors read_tensors(InputFile& file) {
  const Contents contents = read_contents(file);
  NamedTensors tensors(contents.entries.size());
  for (const std::size_t index : contents.order) {
    const Entry& entry = contents.entries[index];
    at::Tensor value = at::empty(entry.shape, at::TensorOptions().dtype(entry.type));
    file.read(value.mutable_data_ptr(), value.nbytes());
    tensors[index] = {entry.name, std::move(value)};
  }
  return tensors;
}

std::int64_t write_safetensors(const std::filesystem::path& file, const NamedTensors& tensors) {
  const std::int64_t needed = layout_of(tensors).total_bytes;
  try {
    OutputFile output(file);
    write_tensors(output, tensors);
    return output.finish().size;
  } catch (const std::system_error& failure) {
    throw write_error(file, needed, failure.code());
  }
}

NamedTensors read_safetensors(const std::filesystem::path& file) {
  InputFile input(file);
  return read_tensors(input);
}

NamedTensors map_safetensors(const std::filesystem::path& file) {
  InputFile input(file);
  const Contents contents = read_contents(input);
  const std::shared_ptr<std::byte> mapping = input.map();
  NamedTensors tensors;
  for (const Entry& entry : contents.entries) {
    std::byte* data = mapping.get() + contents.data_begin + entry.begin;
    const auto options = at::TensorOptions().dtype(entry.type);
    const auto keep = [mapping](void*) {};
    at::Tensor value = at::from_blob(data, entry.shape, keep, options);
    // The format does not promise it, and a processor may.
    if (reinterpret_cast<std::uintptr_t>(data) % value.element_size() != 0) {
      value = at::empty(entry.shape, options);
      std::memcpy(value.mutable_data_ptr(), data, value.nbytes());
    }
    tensors.push_back({entry.name, std::move(value)});
  }
  return tensors;
}

}  // namespace trainer::checkpoint

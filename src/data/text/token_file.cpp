#include "data/text/token_file.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstring>
#include <type_traits>

#include "core/error.h"
#include "data/sources/index_file.h"
#include "data/sources/parallel.h"
#include "data/tools/output_file.h"

namespace trainer::data {
namespace {

namespace fs = std::filesystem;

static_assert(std::endian::native == std::endian::little, "token files are read as they lie");

constexpr std::array<char, 8> kMagic{'t', 'r', 'n', 'r', 't', 'o', 'k', '\n'};
constexpr std::uint32_t kVersion = 1;

struct Header {
  std::array<char, 8> magic = kMagic;
  std::uint32_t version = kVersion;
  std::uint32_t width = 0;  // bytes of a token
  std::uint64_t tokens = 0;
  std::uint64_t documents = 0;  // that end in it
  std::uint64_t largest = 0;    // id
  std::uint64_t tokenizer = 0;  // its fingerprint
  std::uint64_t origin = 0;
  std::uint64_t masked = 0;        // 1: there is a mask
  std::uint64_t content_hash = 0;  // XXH3 of the tokens, the ends and the mask, chained
  std::array<std::uint64_t, 6> reserved{};
  std::uint64_t header_hash = 0;  // of what stands before it
};
static_assert(sizeof(Header) == 128 && std::is_trivially_copyable_v<Header>);

// llm.c's: 256 int32 in front of the tokens.
constexpr std::size_t kLlmcHeader = 256 * sizeof(std::int32_t);
constexpr std::int32_t kLlmcMagic = 20240520;       // GPT-2's tokens: uint16, version 1
constexpr std::int32_t kLlmcMagicLlama = 20240801;  // Llama 3's tokens: uint32, version 7

[[noreturn]] void fail(const fs::path& path, const std::string& reason) {
  throw Error(Exit::data, printable(path) + ": " + reason);
}

std::string number(std::uint64_t value) { return std::to_string(value); }

std::uint64_t header_hash(const Header& header) {
  return hash_bytes({reinterpret_cast<const std::uint8_t*>(&header), offsetof(Header, header_hash)},
                    0);
}

std::size_t padded(std::size_t bytes) { return (bytes + 7) / 8 * 8; }

std::uint64_t content_hash(Bytes tokens, std::span<const std::uint64_t> ends, Bytes mask) {
  const Bytes end_bytes{reinterpret_cast<const std::uint8_t*>(ends.data()), ends.size_bytes()};
  return hash_bytes(mask, hash_bytes(end_bytes, hash_bytes(tokens, 0)));
}

Bytes token_bytes(const TokenSegment& segment) {
  return {segment.tokens,
          static_cast<std::size_t>(segment.size) * static_cast<std::size_t>(segment.width)};
}

Bytes mask_bytes(const TokenSegment& segment) {
  if (segment.mask == nullptr) return {};
  return {segment.mask, (static_cast<std::size_t>(segment.size) + 7) / 8};
}

// The sizes that the header names fit into any file of that size.
void require_shard_size(const fs::path& path, const Header& header, std::size_t size) {
  const std::uint64_t most = size;
  std::uint64_t expected = 0;
  if (header.tokens <= most && header.documents <= most) {
    expected = sizeof(Header) + padded(header.tokens * header.width) + 8 * header.documents +
               (header.masked != 0 ? (header.tokens + 7) / 8 : 0);
  }
  if (expected == size) return;
  if (expected == 0) expected = sizeof(Header) + header.tokens * header.width;
  const std::uint64_t tokens_end = sizeof(Header) + header.tokens * header.width;
  const std::string where = most < tokens_end
                                ? "; it ends at offset " + number(most) + ", in token " +
                                      number((most - sizeof(Header)) / header.width) + " of " +
                                      number(header.tokens)
                                : "";
  fail(path, "the header names " + number(header.tokens) + " tokens and " +
                 number(header.documents) + " documents, which take " + number(expected) +
                 " bytes, but the file has " + number(most) + where + "; make or fetch it again");
}

void require_rising(const fs::path& path, const TokenSegment& segment) {
  std::uint64_t last = 0;
  for (std::size_t i = 0; i < segment.ends.size(); ++i) {
    const std::uint64_t end = segment.ends[i];
    if (end <= static_cast<std::uint64_t>(segment.size) && (end > last || i == 0)) {
      last = end;
      continue;
    }
    const auto offset =
        reinterpret_cast<const std::uint8_t*>(&segment.ends[i]) - (segment.tokens - segment.offset);
    fail(path, "the end of document " + std::to_string(i) + " at offset " + std::to_string(offset) +
                   " is out of order; make it again");
  }
}

TokenSegment open_shard(const fs::path& path, std::shared_ptr<const MappedFile> file) {
  const Bytes bytes = file->bytes();
  Header header;
  if (bytes.size() < sizeof header) {
    fail(path, "the file ends at offset " + number(bytes.size()) + ", within its header of " +
                   number(sizeof header) + " bytes; make it again");
  }
  std::memcpy(&header, bytes.data(), sizeof header);
  if (header.version != kVersion) {
    fail(path, "the shard is of version " + number(header.version) + ", this program reads " +
                   number(kVersion) + "; make it again by `trainer data tokenize`");
  }
  if (header.header_hash != header_hash(header) || (header.width != 2 && header.width != 4))
    fail(path, "the header is damaged (bytes 0 to 127); make it again");
  require_shard_size(path, header, bytes.size());
  TokenSegment segment;
  segment.tokens = bytes.data() + sizeof header;
  segment.width = static_cast<int>(header.width);
  segment.size = static_cast<std::int64_t>(header.tokens);
  segment.offset = sizeof header;
  segment.has_documents = true;
  const std::uint8_t* ends = segment.tokens + padded(header.tokens * header.width);
  segment.ends = {reinterpret_cast<const std::uint64_t*>(ends), header.documents};
  if (header.masked != 0) segment.mask = ends + 8 * header.documents;
  segment.largest = static_cast<std::int64_t>(header.largest);
  segment.tokenizer = header.tokenizer;
  segment.fingerprint = header.content_hash;
  segment.file = std::move(file);
  require_rising(path, segment);
  return segment;
}

std::int32_t int32_at(Bytes bytes, std::size_t index) {
  std::int32_t value = 0;
  std::memcpy(&value, bytes.data() + index * sizeof value, sizeof value);
  return value;
}

bool is_llmc(Bytes bytes) {
  if (bytes.size() < kLlmcHeader) return false;
  const std::int32_t magic = int32_at(bytes, 0);
  return magic == kLlmcMagic || magic == kLlmcMagicLlama;
}

// Where the tokens of a raw file lie: after llm.c's header, or from the first byte.
void find_tokens(const fs::path& path, Bytes bytes, TokenSegment& segment) {
  if (is_llmc(bytes)) {
    const bool llama = int32_at(bytes, 0) == kLlmcMagicLlama;
    const std::int32_t version = int32_at(bytes, 1);
    if (version != (llama ? 7 : 1)) {
      fail(path, "llm.c's header (at offset 4) names version " + std::to_string(version) +
                     "; known are 1 (uint16) and, of Llama 3, 7 (uint32)");
    }
    segment.width = llama ? 4 : 2;
    segment.offset = kLlmcHeader;
  }
  const auto width = static_cast<std::size_t>(segment.width);
  const std::size_t size = bytes.size() - static_cast<std::size_t>(segment.offset);
  if (size % width != 0) {
    fail(path, "the file has " + number(bytes.size()) +
                   " bytes and ends within the token at offset " +
                   number(bytes.size() - size % width) + " (a token takes " + number(width) +
                   " bytes); it is incomplete or of another kind, fetch or make it again");
  }
  segment.tokens = bytes.data() + segment.offset;
  segment.size = static_cast<std::int64_t>(size / width);
  if (segment.offset == 0) return;
  const std::int64_t named = int32_at(bytes, 2);
  if (named != segment.size) {
    fail(path, "llm.c's header (at offset 8) names " + std::to_string(named) +
                   " tokens, but the file holds " + std::to_string(segment.size) +
                   "; it is incomplete, fetch or make it again");
  }
}

struct Found {
  std::int64_t largest = -1;
  std::uint64_t hash = 0;
};

template <class T>
std::int64_t largest_of(Bytes bytes) {
  T largest = 0;
  const std::uint8_t* end = bytes.data() + bytes.size();
  for (const std::uint8_t* at = bytes.data(); at < end; at += sizeof(T)) {
    T value;
    std::memcpy(&value, at, sizeof value);
    largest = std::max(largest, value);
  }
  return std::int64_t{largest};
}

Found look_through(const TokenSegment& segment) {
  constexpr std::size_t kPart = std::size_t{32} << 20;
  const Bytes all = token_bytes(segment);
  std::vector<Found> found((all.size() + kPart - 1) / kPart);
  for_each_in_parallel(found.size(), [&](std::size_t i) {
    const Bytes part = all.subspan(i * kPart, std::min(kPart, all.size() - i * kPart));
    found[i].largest =
        segment.width == 2 ? largest_of<std::uint16_t>(part) : largest_of<std::uint32_t>(part);
    found[i].hash = hash_bytes(part, 0);
  });
  Found result;
  for (const Found& each : found) {
    result.largest = std::max(result.largest, each.largest);
    const std::array<std::uint64_t, 2> chained{result.hash, each.hash};
    result.hash = hash_bytes({reinterpret_cast<const std::uint8_t*>(chained.data()), 16}, 0);
  }
  return result;
}

constexpr const char* kKind = "raw_tokens";

// `look_through`, or what it gave earlier of the same file.
Found known_or_look(const fs::path& path, const TokenSegment& segment, std::int64_t looked_at) {
  const std::string subject = fs::absolute(path).lexically_normal();
  const auto stamp = stamp_of(path);
  if (const auto kept = load_index(kKind, subject); kept && stamp) {
    try {
      Unpacker unpacker(*kept);
      const auto stamps = unpacker.numbers<Stamp>();
      const Found found{unpacker.number<std::int64_t>(), unpacker.number<std::uint64_t>()};
      if (stamps.size() == 1 && stamps.front() == *stamp) return found;
    } catch (const Unpacker::Damaged&) {
    }
  }
  const Found found = look_through(segment);
  if (stamp && settled(*stamp, looked_at)) {
    Packer packer;
    packer.numbers(std::vector<Stamp>{*stamp});
    packer.number(found.largest);
    packer.number(found.hash);
    save_index(kKind, subject, packer);
  }
  return found;
}

TokenSegment open_raw(const fs::path& path, std::shared_ptr<const MappedFile> file,
                      std::int64_t looked_at) {
  TokenSegment segment;
  find_tokens(path, file->bytes(), segment);
  const Found found = known_or_look(path, segment, looked_at);
  segment.largest = found.largest;
  segment.fingerprint = found.hash;
  segment.file = std::move(file);
  return segment;
}

}  // namespace

std::uint32_t TokenSegment::token(std::int64_t index) const {
  if (width == 4) {
    std::uint32_t value = 0;
    std::memcpy(&value, tokens + 4 * index, sizeof value);
    return value;
  }
  std::uint16_t value = 0;
  std::memcpy(&value, tokens + 2 * index, sizeof value);
  return value;
}

TokenSegment open_token_file(const fs::path& path) {
  const std::int64_t looked_at = now();
  auto file = std::make_shared<const MappedFile>(path);
  const Bytes bytes = file->bytes();
  const bool ours =
      bytes.size() >= kMagic.size() && std::memcmp(bytes.data(), kMagic.data(), kMagic.size()) == 0;
  const MappedFile& mapped = *file;
  TokenSegment segment =
      ours ? open_shard(path, std::move(file)) : open_raw(path, std::move(file), looked_at);
  if (segment.size == 0) fail(path, "there are no tokens in it");
  segment.name = printable(path);
  // Samples are read in any order, each in one go: what lies around them would be read for nothing.
  mapped.set_read_ahead(MappedFile::ReadAhead::none);
  return segment;
}

TokenSegment segment_of(std::shared_ptr<const TokenArrays> arrays, std::string name,
                        std::uint64_t tokenizer) {
  TokenSegment segment;
  segment.name = std::move(name);
  segment.tokens = arrays->tokens().data();
  segment.width = arrays->wide() ? 4 : 2;
  segment.size = arrays->size();
  segment.has_documents = true;
  segment.ends = arrays->ends();
  if (!arrays->mask().empty()) segment.mask = arrays->mask().data();
  segment.largest = arrays->largest();
  segment.tokenizer = tokenizer;
  segment.fingerprint = content_hash(arrays->tokens(), arrays->ends(), arrays->mask());
  segment.owner = std::move(arrays);
  return segment;
}

void write_token_shard(const fs::path& path, const TokenArrays& arrays, std::uint64_t tokenizer,
                       std::uint64_t origin) {
  Header header;
  header.width = arrays.wide() ? 4 : 2;
  header.tokens = static_cast<std::uint64_t>(arrays.size());
  header.documents = arrays.ends().size();
  header.largest = static_cast<std::uint64_t>(std::max(arrays.largest(), 0));
  header.tokenizer = tokenizer;
  header.origin = origin;
  header.masked = arrays.mask().empty() ? 0 : 1;
  header.content_hash = content_hash(arrays.tokens(), arrays.ends(), arrays.mask());
  header.header_hash = header_hash(header);
  const auto bytes = [](const void* data, std::size_t size) {
    return std::string_view(static_cast<const char*>(data), size);
  };
  const Bytes tokens = arrays.tokens();
  OutputFile file(path);
  file.append(bytes(&header, sizeof header));
  file.append(as_text(tokens));
  file.append(std::string(padded(tokens.size()) - tokens.size(), '\0'));
  file.append(bytes(arrays.ends().data(), 8 * arrays.ends().size()));
  file.append(as_text(arrays.mask()));
  file.finish();
}

std::uint64_t origin_of(const TokenSegment& shard) {
  Header header;
  std::memcpy(&header, shard.tokens - sizeof header, sizeof header);
  return header.origin;
}

bool is_whole(const TokenSegment& shard) {
  shard.file->set_read_ahead(MappedFile::ReadAhead::normal);
  const auto hash = content_hash(token_bytes(shard), shard.ends, mask_bytes(shard));
  shard.file->set_read_ahead(MappedFile::ReadAhead::none);
  return hash == shard.fingerprint;
}

}  // namespace trainer::data

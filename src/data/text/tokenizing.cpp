#include "data/text/tokenizing.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <exception>
#include <memory>
#include <thread>

#include "core/error.h"

namespace trainer::data {
namespace {

struct Work {
  TextBlock block;
  TokenBlock tokens;
  std::exception_ptr failure;
};

void encode_all(const TextInput& input, const Tokenizer& tokenizer, int workers,
                std::vector<Work>& batch) {
  std::atomic<std::size_t> next = 0;
  const auto run = [&] {
    for (std::size_t i = next++; i < batch.size(); i = next++) {
      try {
        batch[i].tokens = input.encode(batch[i].block, tokenizer);
      } catch (...) {
        batch[i].failure = std::current_exception();
      }
    }
  };
  std::vector<std::jthread> others;
  for (int i = 1; i < workers; ++i) others.emplace_back(run);
  run();
}

constexpr std::size_t kCodePoints = 0x110000;

// Bytes of the UTF-8 character at the front, and its code point; 0 where there is none.
std::size_t decode_character(std::string_view text, std::uint32_t& code) {
  const auto byte = [text](std::size_t i) -> std::uint32_t {
    return i < text.size() ? static_cast<std::uint8_t>(text[i]) : 0;
  };
  const std::uint32_t lead = byte(0);
  if (lead < 0x80) return code = lead, 1;
  if (lead < 0xc2 || lead > 0xf4) return 0;
  const std::size_t size = lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : 2;
  code = lead & (0x7fU >> size);
  for (std::size_t i = 1; i < size; ++i) {
    if ((byte(i) & 0xc0) != 0x80) return 0;
    code = code << 6 | (byte(i) & 0x3f);
  }
  constexpr std::array<std::uint32_t, 5> kLeast{0, 0, 0x80, 0x800, 0x10000};
  const bool surrogate = code >= 0xd800 && code < 0xe000;
  return code < kLeast[size] || code >= kCodePoints || surrogate ? 0 : size;
}

void append_utf8(std::uint32_t code, std::string& text) {
  const auto add = [&text](std::uint32_t byte) { text += static_cast<char>(byte); };
  if (code < 0x80) return add(code);
  if (code < 0x800) {
    add(0xc0 | code >> 6);
  } else {
    if (code < 0x10000) {
      add(0xe0 | code >> 12);
    } else {
      add(0xf0 | code >> 18);
      add(0x80 | (code >> 12 & 0x3f));
    }
    add(0x80 | (code >> 6 & 0x3f));
  }
  add(0x80 | (code & 0x3f));
}

// Stands in for a tokenizer and notes what it is given, so that the alphabet is that of just the
// texts that will become tokens.
class CodePoints : public Tokenizer {
 public:
  CodePoints() : seen_(kCodePoints) {}

  void encode(std::string_view text, std::vector<TokenId>& /*ids*/,
              bool /*special*/) const override {
    while (!text.empty()) {
      std::uint32_t code = 0;
      const std::size_t size = decode_character(text, code);
      if (size == 0) {
        throw Error(Exit::data,
                    "the text is not UTF-8, and so has no characters; use the bytes tokenizer");
      }
      auto& seen = seen_[code];
      if (seen.load(std::memory_order_relaxed) == 0) seen.store(1, std::memory_order_relaxed);
      text.remove_prefix(size);
    }
  }
  std::string decode(std::span<const TokenId> /*ids*/, bool /*special*/) const override {
    return {};
  }
  std::int64_t vocabulary() const override { return 1; }
  std::optional<TokenId> find(std::string_view /*token*/) const override { return std::nullopt; }
  std::optional<TokenId> begin() const override { return std::nullopt; }
  std::optional<TokenId> end() const override { return std::nullopt; }
  std::string describe() const override { return "code points"; }
  std::uint64_t fingerprint() const override { return 0; }

  std::string alphabet() const {
    std::string text;
    for (std::uint32_t code = 0; code < kCodePoints; ++code)
      if (seen_[code].load(std::memory_order_relaxed) != 0) append_utf8(code, text);
    return text;
  }

 private:
  mutable std::vector<std::atomic<std::uint8_t>> seen_;
};

}  // namespace

void tokenize_blocks(const TextInput& input, const Tokenizer& tokenizer, TextPosition position,
                     int workers, const TakeBlock& take) {
  // Enough for each thread that their ends lie close together.
  const std::size_t most = static_cast<std::size_t>(std::max(1, workers)) * 4;
  for (bool more = true; more;) {
    std::vector<Work> batch;
    while (batch.size() < most) {
      std::optional<TextBlock> block = input.block_at(position, tokenizer);
      if (!block) break;
      position = block->next;
      batch.push_back({*block, {}, nullptr});
    }
    more = batch.size() == most;
    encode_all(input, tokenizer, workers, batch);
    for (Work& work : batch) {
      if (work.failure) std::rethrow_exception(work.failure);
      if (!take(work.block, std::move(work.tokens))) return;
    }
  }
}

std::string alphabet_of(const TextInput& input, int workers) {
  const CodePoints points;
  tokenize_blocks(input, points, {}, workers,
                  [](const TextBlock& /*block*/, TokenBlock&& /*tokens*/) { return true; });
  return points.alphabet();
}

std::string alphabet_of(std::string_view text) {
  const CodePoints points;
  std::vector<TokenId> none;
  points.encode(text, none, false);
  return points.alphabet();
}

}  // namespace trainer::data

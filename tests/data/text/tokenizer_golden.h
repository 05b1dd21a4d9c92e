// What tests/oracle/tokenizer_ids.py wrote, and its generator of strings once more.
#pragma once

#include <array>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "data/support.h"
#include "data/text/tokenizer.h"
#include "data/text/unicode.h"

namespace trainer::data {

inline const std::filesystem::path kTokenizers = kGolden / "tokenizers";
constexpr std::uint64_t kStrings = 10'000;

inline const nlohmann::json& tokenizer_golden() {
  static const nlohmann::json all =
      nlohmann::json::parse(std::ifstream(kTokenizers / "golden.json"));
  return all;
}

// Knuth's 64-bit congruential generator, its upper bits.
class Congruential {
 public:
  explicit Congruential(std::uint64_t seed) : state_(seed) {}
  std::uint64_t below(std::uint64_t bound) {
    state_ = state_ * 6364136223846793005U + 1442695040888963407U;
    return (state_ >> 33) % bound;
  }

 private:
  std::uint64_t state_;
};

class StringMaker {
 public:
  StringMaker() {
    const nlohmann::json& text = tokenizer_golden().at("text");
    lists_ = text.at("lists").get<std::vector<std::vector<std::string>>>();
    runs_ = text.at("runs").get<std::vector<std::string>>();
    ranges_ = text.at("ranges").get<std::vector<std::array<std::uint32_t, 2>>>();
  }

  std::string operator()(std::uint64_t number) const {
    Congruential random(number * 0x9E3779B97F4A7C15U + 1);
    std::string text;
    for (std::uint64_t left = 1 + random.below(12); left > 0; --left) add_part(random, text);
    return text;
  }

 private:
  static void add_point(std::uint64_t point, std::string& text) {
    append_utf8(text, static_cast<char32_t>(point >= 0xD800 && point <= 0xDFFF ? 0xD7FF : point));
  }

  void add_part(Congruential& random, std::string& text) const {
    const std::uint64_t kind = random.below(8);
    if (kind < 4) {
      const auto& strings = lists_[random.below(lists_.size())];
      text += strings[random.below(strings.size())];
    } else if (kind == 4) {
      const std::string& run = runs_[random.below(runs_.size())];
      for (std::uint64_t count = 1 + random.below(60); count > 0; --count) text += run;
    } else if (kind < 7) {
      const auto [first, last] = ranges_[random.below(ranges_.size())];
      for (std::uint64_t count = 1 + random.below(6); count > 0; --count)
        add_point(first + random.below(last - first + 1), text);
    } else {
      add_point(random.below(0x110000), text);
    }
  }

  std::vector<std::vector<std::string>> lists_;
  std::vector<std::string> runs_;
  std::vector<std::array<std::uint32_t, 2>> ranges_;
};

inline std::string generated(std::uint64_t number) {
  static const StringMaker maker;
  return maker(number);
}

// Every code point of a block of 256 beside a letter, spaces, a digit and a line end.
inline std::string block_text(std::uint32_t block) {
  std::string text;
  for (char32_t point = block * 256; point < block * 256 + 256; ++point) {
    if (point >= 0xD800 && point <= 0xDFFF) continue;
    std::string character;
    append_utf8(character, point);
    text += "a" + character + " " + character + "1" + character + "\n";
  }
  return text;
}

class Crc32 {
 public:
  void add(std::string_view bytes) {
    static const std::array<std::uint32_t, 256> table = make_table();
    for (const char byte : bytes)
      value_ = table[(value_ ^ static_cast<unsigned char>(byte)) & 0xFF] ^ value_ >> 8;
  }
  void add(const std::vector<TokenId>& ids) {
    add({reinterpret_cast<const char*>(ids.data()), ids.size() * sizeof(TokenId)});
  }
  std::uint32_t value() const { return ~value_; }

 private:
  static std::array<std::uint32_t, 256> make_table() {
    std::array<std::uint32_t, 256> table{};
    for (std::uint32_t i = 0; i < 256; ++i) {
      table[i] = i;
      for (int bit = 0; bit < 8; ++bit)
        table[i] = (table[i] & 1) != 0 ? table[i] >> 1 ^ 0xEDB88320U : table[i] >> 1;
    }
    return table;
  }
  std::uint32_t value_ = 0xFFFFFFFFU;
};

inline std::vector<std::uint32_t> read_digests(const std::string& name) {
  std::ifstream file(kTokenizers / (name + ".digests"), std::ios::binary);
  const std::string bytes{std::istreambuf_iterator<char>(file), {}};
  std::vector<std::uint32_t> digests(bytes.size() / 4);
  std::memcpy(digests.data(), bytes.data(), digests.size() * 4);
  return digests;
}

inline std::vector<TokenId> ids_of(const Tokenizer& tokenizer, std::string_view text,
                                   bool special = false) {
  std::vector<TokenId> ids;
  tokenizer.encode(text, ids, special);
  return ids;
}

}  // namespace trainer::data

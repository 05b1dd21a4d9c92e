#include "data/text/token_decoder.h"

#include <algorithm>
#include <cctype>
#include <utility>

#include "data/text/normalizer.h"
#include "data/text/unicode.h"

namespace trainer::data {
namespace {

// The byte of each character up to U+0143, or -1: printable ones of Latin-1 stand for themselves,
// the other bytes for U+0100 and on in their order.
std::array<int, 0x144> byte_level_table() {
  std::array<int, 0x144> table;
  table.fill(-1);
  std::size_t next = 0x100;
  for (int byte = 0; byte < 256; ++byte) {
    const bool printable = (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte <= 0xAC) ||
                           (byte >= 0xAE && byte <= 0xFF);
    table[printable ? static_cast<std::size_t>(byte) : next++] = byte;
  }
  return table;
}

std::string joined(const std::vector<std::string>& tokens) {
  std::string all;
  for (const std::string& token : tokens) all += token;
  return all;
}

class ByteLevelDecoder : public TokenDecoder {
 public:
  void apply(std::vector<std::string>& tokens) const override {
    std::string all;
    for (const std::string& token : tokens) {
      const auto bytes = byte_level_bytes(token);
      all += bytes ? *bytes : token;
    }
    tokens = {std::move(all)};
  }
};

// A run of tokens of bytes becomes one token.
class ByteFallbackDecoder : public TokenDecoder {
 public:
  void apply(std::vector<std::string>& tokens) const override {
    std::vector<std::string> made;
    bool open = false;
    for (std::string& token : tokens) {
      if (const auto byte = fallback_byte(token)) {
        if (!open) made.emplace_back();
        made.back() += *byte;
        open = true;
      } else {
        made.push_back(std::move(token));
        open = false;
      }
    }
    tokens = std::move(made);
  }
};

class FuseDecoder : public TokenDecoder {
 public:
  void apply(std::vector<std::string>& tokens) const override { tokens = {joined(tokens)}; }
};

template <typename Sought>
class ReplaceDecoder : public TokenDecoder {
 public:
  ReplaceDecoder(Sought sought, std::string content)
      : sought_(std::move(sought)), content_(std::move(content)) {}
  void apply(std::vector<std::string>& tokens) const override {
    for (std::string& token : tokens) {
      std::string made;
      replace_all(token, sought_, content_, made);
      token = std::move(made);
    }
  }

 private:
  Sought sought_;
  std::string content_;
};

class StripDecoder : public TokenDecoder {
 public:
  StripDecoder(std::string content, std::size_t start, std::size_t stop)
      : content_(std::move(content)), start_(start), stop_(stop) {}
  void apply(std::vector<std::string>& tokens) const override {
    for (std::string& token : tokens) {
      std::string_view left = token;
      for (std::size_t i = 0; i < start_ && left.starts_with(content_); ++i)
        left.remove_prefix(content_.size());
      for (std::size_t i = 0; i < stop_ && left.ends_with(content_); ++i)
        left.remove_suffix(content_.size());
      token = std::string(left);
    }
  }

 private:
  std::string content_;
  std::size_t start_, stop_;
};

class MetaspaceDecoder : public TokenDecoder {
 public:
  MetaspaceDecoder(std::string replacement, bool drop_first)
      : replacement_(std::move(replacement)), drop_first_(drop_first) {}
  void apply(std::vector<std::string>& tokens) const override {
    for (std::size_t i = 0; i < tokens.size(); ++i) {
      std::string made;
      replace_all(tokens[i], replacement_, i == 0 && drop_first_ ? "" : " ", made);
      tokens[i] = std::move(made);
    }
  }

 private:
  std::string replacement_;
  bool drop_first_;
};

}  // namespace

std::unique_ptr<TokenDecoder> make_byte_level_decoder() {
  return std::make_unique<ByteLevelDecoder>();
}
std::unique_ptr<TokenDecoder> make_byte_fallback_decoder() {
  return std::make_unique<ByteFallbackDecoder>();
}
std::unique_ptr<TokenDecoder> make_fuse_decoder() { return std::make_unique<FuseDecoder>(); }
std::unique_ptr<TokenDecoder> make_replace_decoder(std::string sought, std::string content) {
  return std::make_unique<ReplaceDecoder<std::string>>(std::move(sought), std::move(content));
}
std::unique_ptr<TokenDecoder> make_replace_decoder(Regex sought, std::string content) {
  return std::make_unique<ReplaceDecoder<Regex>>(std::move(sought), std::move(content));
}
std::unique_ptr<TokenDecoder> make_strip_decoder(std::string content, std::size_t start,
                                                 std::size_t stop) {
  return std::make_unique<StripDecoder>(std::move(content), start, stop);
}
std::unique_ptr<TokenDecoder> make_metaspace_decoder(std::string replacement, bool drop_first) {
  return std::make_unique<MetaspaceDecoder>(std::move(replacement), drop_first);
}

std::optional<std::string> byte_level_bytes(std::string_view token) {
  static const std::array<int, 0x144> table = byte_level_table();
  if (valid_utf8(token) != token.size()) return std::nullopt;
  std::string bytes;
  for (std::size_t at = 0, length; at < token.size(); at += length) {
    length = utf8_length(token[at]);
    const char32_t point = utf8_point(token.data() + at, length);
    if (point >= table.size() || table[point] < 0) return std::nullopt;
    bytes += static_cast<char>(table[point]);
  }
  return bytes;
}

std::string byte_level_spelling(std::string_view bytes) {
  const std::array<int, 0x144> table = byte_level_table();
  std::string token;
  for (const char byte : bytes) {
    const auto at = std::find(table.begin(), table.end(), int{static_cast<unsigned char>(byte)});
    append_utf8(token, static_cast<char32_t>(at - table.begin()));
  }
  return token;
}

std::optional<char> fallback_byte(std::string_view token) {
  const auto digit = [&](std::size_t i) {
    return std::isxdigit(static_cast<unsigned char>(token[i])) != 0;
  };
  if (token.size() != 6 || !token.starts_with("<0x") || token[5] != '>' || !digit(3) || !digit(4))
    return std::nullopt;
  return static_cast<char>(std::stoi(std::string(token.substr(3, 2)), nullptr, 16));
}

}  // namespace trainer::data

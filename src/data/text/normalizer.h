// What tokenizer.json's `normalizer` does to a text before it is split.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "data/text/regex.h"

namespace trainer::data {

class Normalizer {
 public:
  virtual ~Normalizer() = default;
  // Appends what becomes of `text` (valid UTF-8, not empty). `joined`: it goes on directly after
  // bytes that are no UTF-8, so that nothing may be put before it.
  virtual void apply(std::string_view text, bool joined, std::string& out) const = 0;
};
using Normalizers = std::vector<std::unique_ptr<Normalizer>>;

enum class NormalForm { nfc, nfd, nfkc, nfkd };
std::unique_ptr<Normalizer> make_normal_form(NormalForm form);
std::unique_ptr<Normalizer> make_lowercase();
std::unique_ptr<Normalizer> make_strip(bool left, bool right);
std::unique_ptr<Normalizer> make_prepend(std::string prefix);
std::unique_ptr<Normalizer> make_replace(std::string sought, std::string content);
std::unique_ptr<Normalizer> make_replace(Regex sought, std::string content);

// Appends `text` with each `sought` (not empty) replaced.
void replace_all(std::string_view text, std::string_view sought, std::string_view content,
                 std::string& out);
void replace_all(std::string_view text, const Regex& sought, std::string_view content,
                 std::string& out);

}  // namespace trainer::data

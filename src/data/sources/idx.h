// Images and labels in IDX files (the format of MNIST): big-endian header, then bytes.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "data/dataset.h"
#include "data/sources/files.h"

namespace trainer::data {

// One IDX file's bytes and the name to use in messages.
struct IdxFile {
  std::string name;
  Bytes bytes;
};

// Grey images with labels of `class_names`. Views the files' bytes; `owner` keeps them alive.
// Throws Error(data) naming the file where its header, its size or a label is wrong.
class IdxSource : public Source {
 public:
  IdxSource(std::string kind, const IdxFile& images, const IdxFile& labels,
            std::vector<std::string> class_names, std::shared_ptr<void> owner);

  std::int64_t size() const override { return count_; }
  const std::vector<std::string>& class_names() const override { return class_names_; }
  std::int64_t classes() const override { return static_cast<std::int64_t>(class_names_.size()); }
  bool encoded() const override { return false; }
  int channels() const override { return 1; }
  Raw fetch(std::int64_t index, std::vector<std::uint8_t>& buffer) const override;
  std::int64_t label(std::int64_t index) const override;
  std::string sample_name(std::int64_t index) const override;
  std::string describe() const override;
  std::uint64_t fingerprint() const override { return fingerprint_; }

 private:
  std::string kind_;
  std::vector<std::string> class_names_;
  std::shared_ptr<void> owner_;
  std::int64_t count_ = 0;
  int height_ = 0;
  int width_ = 0;
  Bytes pixels_;
  Bytes labels_;
  std::uint64_t fingerprint_ = 0;
};

// "0" ... "9".
std::vector<std::string> digit_names();

}  // namespace trainer::data

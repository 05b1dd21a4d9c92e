// Samples kept in memory from their first use on.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "config/experiment.h"
#include "data/dataset.h"

namespace trainer::data {

// Decodes an image file whole; false where its pixels are not to be kept (its bytes are then).
// Called from many threads. What it throws, `fetch` throws.
using DecodeWhole = std::function<bool(Bytes encoded, Image& pixels)>;

// Another source, whose samples are stored as they are first asked for, as long as they fit the
// limit; the others are read from it as before. All else is that source's. With a `decode`, image
// files are stored as the pixels it gives: `fetch` of such a sample then gives pixels, the first
// time too, although `encoded()` stays true, which is of the files.
class CachedSource : public Source {
 public:
  CachedSource(std::unique_ptr<Source> source, std::int64_t limit, DecodeWhole decode);
  ~CachedSource() override;

  std::int64_t size() const override { return source_->size(); }
  const std::vector<std::string>& class_names() const override { return source_->class_names(); }
  std::int64_t classes() const override { return source_->classes(); }
  bool encoded() const override { return source_->encoded(); }
  int channels() const override { return source_->channels(); }
  Raw fetch(std::int64_t index, std::vector<std::uint8_t>& buffer) const override;
  std::int64_t label(std::int64_t index) const override { return source_->label(index); }
  float weight(std::int64_t index) const override { return source_->weight(index); }
  bool weighted() const override { return source_->weighted(); }
  std::string sample_name(std::int64_t index) const override { return source_->sample_name(index); }
  std::string describe() const override { return source_->describe(); }
  std::uint64_t fingerprint() const override { return source_->fingerprint(); }

  // What is stored now, and the most it may be.
  struct Held {
    std::int64_t samples = 0;
    std::int64_t bytes = 0;
    std::int64_t limit = 0;
  };
  Held held() const;

 private:
  struct Entry;
  // Memory for entries, handed out piece by piece and given back all at once.
  class Arena {
   public:
    explicit Arena(std::int64_t limit) : limit_(limit) {}
    // nullptr where it would pass the limit, or the system has no more.
    std::byte* allocate(std::size_t bytes);
    std::int64_t used() const { return used_; }
    std::int64_t limit() const { return limit_; }

   private:
    std::byte* from_chunk(std::size_t bytes);

    std::int64_t limit_;
    std::atomic<std::int64_t> used_ = 0;
    std::mutex mutex_;
    std::vector<std::unique_ptr<std::byte[]>> chunks_;
    std::byte* free_ = nullptr;  // in the last chunk
    std::size_t left_ = 0;
  };

  Raw fill(std::int64_t index, std::vector<std::uint8_t>& buffer) const;
  Raw read(std::int64_t index, std::vector<std::uint8_t>& buffer) const;
  const Entry* store(const Raw& raw) const;

  std::unique_ptr<Source> source_;
  DecodeWhole decode_;
  mutable Arena arena_;
  mutable std::atomic<std::int64_t> samples_ = 0;
  // Of each sample: nothing, a mark in place of an entry, or its entry.
  mutable std::vector<std::atomic<const Entry*>> entries_;
};

// As `config` says, with `decode` only where it holds decoded samples. Its size, where it is left
// to us, is half of the memory that this process may use, divided among the `caches` that are
// made on this host.
std::unique_ptr<CachedSource> cached(std::unique_ptr<Source> source, const config::RamCache& config,
                                     int caches = 1, DecodeWhole decode = {});

}  // namespace trainer::data

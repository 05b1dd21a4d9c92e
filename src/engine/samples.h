// data.train or data.val, opened, whatever its samples are: images or text.
#pragma once

#include <cstdint>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "config/experiment.h"
#include "data/feed.h"
#include "data/step_batch.h"
#include "data/text/text_corpus.h"
#include "data/text/windows.h"
#include "engine/opened_data.h"
#include "models/model.h"

namespace trainer::engine {

struct StreamOptions {
  std::int64_t first_step = 0, last_step = 0;  // one past the last
  // Each sample once: none stands in for another, and a batch may come out empty.
  bool evaluation = false;
  bool leave_jpeg = false;  // see data::LoaderOptions
};

class Samples {
 public:
  virtual ~Samples() = default;
  virtual std::int64_t size() const = 0;
  // Of one sample; 0 where it has none.
  virtual std::int64_t tokens() const { return 0; }
  virtual std::string describe() const = 0;
  // What a resumed run must agree with, without the source's path in front.
  virtual nlohmann::json identity() const = 0;
  // Brings the steps of `sampler`; both outlive it.
  virtual std::unique_ptr<data::BatchFeed> stream(const data::Sampler& sampler,
                                                  const config::Loader& loader,
                                                  const data::FeedOptions& feed,
                                                  const StreamOptions& options) const = 0;
};

class ImageSamples : public Samples {
 public:
  explicit ImageSamples(OpenedData opened) : opened_(std::move(opened)) {}
  const OpenedData& opened() const { return opened_; }
  // What the model gets.
  models::InputShape input_shape(const data::Sampler& sampler, const config::Loader& loader) const;

  std::int64_t size() const override { return opened_.source->size(); }
  std::string describe() const override { return opened_.source->describe(); }
  nlohmann::json identity() const override;
  std::unique_ptr<data::BatchFeed> stream(const data::Sampler& sampler,
                                          const config::Loader& loader,
                                          const data::FeedOptions& feed,
                                          const StreamOptions& options) const override;

 private:
  OpenedData opened_;
};

class TextSamples : public Samples {
 public:
  // `alphabet` is that of the training data, for tokenizer: characters. Throws Error(data, config).
  TextSamples(const config::TextSource& source, const std::optional<std::string>& alphabet);
  // May be without a tokenizer: token files that do not name theirs.
  const data::OpenedTokenizer& tokenizer() const { return tokenizer_; }
  // Throws Error(data) where an id is not below it.
  void require_vocabulary(std::int64_t vocabulary) const;

  std::int64_t size() const override { return windows_.size(); }
  std::int64_t tokens() const override { return windows_.length(); }
  std::string describe() const override;
  nlohmann::json identity() const override;
  std::unique_ptr<data::BatchFeed> stream(const data::Sampler& sampler,
                                          const config::Loader& loader,
                                          const data::FeedOptions& feed,
                                          const StreamOptions& options) const override;

 private:
  data::OpenedTokenizer tokenizer_;
  data::Windows windows_;
};

// The text source of `source`; nullopt for images.
std::optional<config::TextSource> text_source(const config::Source& source);

}  // namespace trainer::engine

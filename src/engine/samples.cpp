#include "engine/samples.h"

#include <algorithm>
#include <type_traits>
#include <utility>
#include <variant>

#include "data/token_feed.h"

namespace trainer::engine {
namespace {

// A loader with the feed that reads from it.
class ImageStream : public data::BatchFeed {
 public:
  ImageStream(const OpenedData& opened, const data::Sampler& sampler, data::LoaderOptions loader,
              bool erases, data::FeedOptions feed)
      : loader_(*opened.source, *opened.pipeline, sampler, std::move(loader)),
        feed_(loader_, opened.pipeline->normalisation(), erases, std::move(feed)) {}

  const data::StepBatch* next() override { return feed_.next(); }
  void seek(std::int64_t step) override { feed_.seek(step); }
  data::FeedTimes take_times() override { return feed_.take_times(); }

 private:
  data::Loader loader_;
  data::Feed feed_;
};

// Copying tokens is little work.
constexpr int kMostTokenWorkers = 4;

data::Windows open_windows(const config::TextSource& source,
                           const data::OpenedTokenizer& tokenizer) {
  return {data::open_corpus(source, tokenizer.tokenizer.get()), data::common(source)};
}

}  // namespace

models::InputShape ImageSamples::input_shape(const data::Sampler& sampler,
                                             const config::Loader& loader) const {
  // A loader knows the input's size; this one delivers nothing and has plain memory, of which it
  // touches none.
  data::LoaderOptions options;
  options.samples = opened_.samples;
  options.on_bad_sample = loader.on_bad_sample;
  const data::Loader probe(*opened_.source, *opened_.pipeline, sampler, options);
  return {probe.channels(), probe.height(), probe.width()};
}

nlohmann::json ImageSamples::identity() const {
  return {{"samples", opened_.source->size()},
          {"contents", std::to_string(opened_.source->fingerprint())},
          {"classes", opened_.source->class_names()}};
}

std::unique_ptr<data::BatchFeed> ImageSamples::stream(const data::Sampler& sampler,
                                                      const config::Loader& loader,
                                                      const data::FeedOptions& feed,
                                                      const StreamOptions& options) const {
  data::LoaderOptions own = opened_.loader_options(loader, feed.device.is_cuda());
  own.first_step = options.first_step;
  own.last_step = options.last_step;
  own.leave_jpeg = options.leave_jpeg;
  if (options.evaluation) {
    own.may_be_empty = true;
    // A sample that stands in for another would be counted twice.
    if (own.on_bad_sample == config::BadSample::replace)
      own.on_bad_sample = config::BadSample::skip;
  }
  const bool erases = !options.evaluation && opened_.pipeline->erases();
  return std::make_unique<ImageStream>(opened_, sampler, std::move(own), erases, feed);
}

TextSamples::TextSamples(const config::TextSource& source,
                         const std::optional<std::string>& alphabet)
    : tokenizer_(data::open_tokenizer(source, alphabet)),
      windows_(open_windows(source, tokenizer_)) {}

void TextSamples::require_vocabulary(std::int64_t vocabulary) const {
  windows_.corpus().require_vocabulary(vocabulary);
}

std::string TextSamples::describe() const {
  const std::string tokenizer =
      tokenizer_.tokenizer ? "; tokenizer: " + tokenizer_.tokenizer->describe() : "";
  return windows_.corpus().describe() + "; " + windows_.describe() + tokenizer;
}

nlohmann::json TextSamples::identity() const {
  return {{"samples", windows_.size()},
          {"contents", std::to_string(windows_.fingerprint())},
          {"length", windows_.length()}};
}

std::unique_ptr<data::BatchFeed> TextSamples::stream(const data::Sampler& sampler,
                                                     const config::Loader& loader,
                                                     const data::FeedOptions& feed,
                                                     const StreamOptions& options) const {
  data::TokenFeedOptions own;
  own.device = feed.device;
  own.workers = std::min(worker_count(loader.workers, feed.device.is_cuda()), kMostTokenWorkers);
  own.prefetch = static_cast<int>(loader.prefetch);
  own.first_step = options.first_step;
  own.last_step = options.last_step;
  return std::make_unique<data::TokenFeed>(windows_, sampler, own);
}

std::optional<config::TextSource> text_source(const config::Source& source) {
  return std::visit(
      [](const auto& kind) -> std::optional<config::TextSource> {
        if constexpr (std::is_base_of_v<config::TokenSource, std::decay_t<decltype(kind)>>)
          return config::TextSource(kind);
        else
          return std::nullopt;
      },
      source);
}

}  // namespace trainer::engine

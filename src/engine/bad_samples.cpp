#include "engine/bad_samples.h"

#include <array>
#include <cstdio>
#include <utility>

#include "core/error.h"
#include "core/log.h"

namespace trainer::engine {
namespace {

// Each is in the file; the log shows the first ones.
constexpr std::int64_t kMostLogged = 10;

std::string percent(double share) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%.3g %%", 100.0 * share);
  return text.data();
}

}  // namespace

BadSamples::BadSamples(std::string source, std::int64_t samples, double max_share)
    : source_(std::move(source)), samples_(samples), max_share_(max_share) {}

void BadSamples::remember(const nlohmann::json& line) {
  const auto source = line.find("source");
  const auto index = line.find("index");
  if (source == line.end() || *source != source_) return;
  if (index != line.end() && index->is_number_integer())
    indices_.insert(index->get<std::int64_t>());
}

void BadSamples::take(std::int64_t step, const std::vector<data::BadSample>& bad) {
  for (const data::BadSample& sample : bad) {
    const bool is_new = indices_.insert(sample.index).second;
    if (file_ != nullptr) {
      nlohmann::ordered_json line{{"step", step},
                                  {"source", source_},
                                  {"index", sample.index},
                                  {"file", sample.name},
                                  {"reason", sample.reason}};
      if (sample.replaced_by) line["replaced_by"] = *sample.replaced_by;
      // A file's name may be no UTF-8: what is not is replaced.
      file_->append(line.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
    }
    if (!is_new || different() > kMostLogged) continue;
    log::warning("data." + source_ + ": " + (sample.replaced_by ? "replaced " : "left out ") +
                 sample.reason + (different() == kMostLogged ? " (the last one shown here)" : ""));
  }
  const double share = static_cast<double>(different()) / static_cast<double>(samples_);
  if (bad.empty() || share <= max_share_) return;
  throw Error(Exit::data,
              "data." + source_ + ": " + std::to_string(different()) + " of " +
                  std::to_string(samples_) + " samples (" + percent(share) +
                  ") could not be used, more than data.loader.max_bad_share (" +
                  percent(max_share_) +
                  ") allows; bad_samples.jsonl lists them. The last: " + bad.back().reason);
}

}  // namespace trainer::engine

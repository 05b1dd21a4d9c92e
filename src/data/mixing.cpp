#include "data/mixing.h"

#include <algorithm>
#include <cmath>

#include "core/random.h"

namespace trainer::data {

Mixing draw_mixing(const config::Mix& config, std::uint64_t seed, std::int64_t step, int height,
                   int width) {
  Stream random(seed, StreamUse::mixing, static_cast<std::uint64_t>(step), 0);
  const bool mixes = random.uniform() < config.probability;
  const bool heads = random.uniform() < 0.5;
  if (!mixes || (config.mixup <= 0 && config.cutmix <= 0)) return {};
  Mixing mixing;
  const bool cuts = config.cutmix > 0 && (config.mixup <= 0 || heads);
  mixing.kind = cuts ? Mixing::Kind::cutmix : Mixing::Kind::mixup;
  mixing.lambda = random.beta(cuts ? config.cutmix : config.mixup);
  if (!cuts) return mixing;
  const int middle_row = std::min(static_cast<int>(random.uniform() * height), height - 1);
  const int middle_column = std::min(static_cast<int>(random.uniform() * width), width - 1);
  const double half = 0.5 * std::sqrt(1.0 - mixing.lambda);
  const int half_rows = static_cast<int>(half * height);
  const int half_columns = static_cast<int>(half * width);
  mixing.box.top = std::max(middle_row - half_rows, 0);
  mixing.box.left = std::max(middle_column - half_columns, 0);
  mixing.box.height = std::min(middle_row + half_rows, height) - mixing.box.top;
  mixing.box.width = std::min(middle_column + half_columns, width) - mixing.box.left;
  const double area = static_cast<double>(mixing.box.height) * mixing.box.width;
  mixing.lambda = 1.0 - area / (static_cast<double>(height) * width);
  return mixing;
}

}  // namespace trainer::data

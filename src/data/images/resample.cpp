#include "data/images/resample.h"

#include <algorithm>

#include "data/images/filter.h"
#include "data/images/resample_simd.h"

namespace trainer::data {
namespace {

using filter::Axis;
using filter::centre_of;
using filter::Interval;
using filter::position_of;
using filter::under_filter;

bool is_bicubic(const Resampling& how) {
  return how.interpolation == config::Interpolation::bicubic;
}

Axis across(const Resampling& how) {
  return filter::make_axis(how.box.left, how.box.width, how.width,
                           {how.window.left, how.window.width}, is_bicubic(how));
}

Axis down(const Resampling& how) {
  return filter::make_axis(how.box.top, how.box.height, how.height,
                           {how.window.top, how.window.height}, is_bicubic(how));
}

// The input positions that the window depends on: those under the filter never move back as the
// output position grows.
Interval reached(const Axis& axis) {
  if (!axis.changes) return axis.window;
  const int last_position = axis.window.first + axis.window.count - 1;
  const int first = under_filter(axis, centre_of(axis, axis.window.first)).first;
  const Interval last = under_filter(axis, centre_of(axis, last_position));
  return {first, last.first + last.count - first};
}

void weigh(const Axis& axis, double centre, Interval inputs, double* exact, std::int32_t* weights) {
  double sum = 0.0;
  for (int k = 0; k < inputs.count; ++k) {
    exact[k] = filter::weight_of(axis, centre, k + inputs.first);
    sum += exact[k];
  }
  for (int k = 0; k < inputs.count; ++k) weights[k] = filter::fixed_point(exact[k], sum);
}

void split_weights(const std::vector<std::int32_t>& weights, std::vector<WeightPair>& pairs) {
  constexpr std::int32_t low_mask = (1 << kLowBits) - 1;
  const auto pack = [](std::int32_t first, std::int32_t second) {
    return static_cast<std::int32_t>(static_cast<std::uint32_t>(second) << 16 |
                                     (static_cast<std::uint32_t>(first) & 0xFFFFU));
  };
  pairs.resize(weights.size() / 2);
  for (std::size_t i = 0; i < pairs.size(); ++i) {
    const std::int32_t first = weights[2 * i];
    const std::int32_t second = weights[2 * i + 1];
    pairs[i] = {pack(first >> kLowBits, second >> kLowBits),
                pack(first & low_mask, second & low_mask)};
  }
}

// Sets `first`, as positions after `begin`, `count` and `width`.
void find_taps(const Axis& axis, int begin, bool mirror, Taps& taps) {
  const auto size = static_cast<std::size_t>(axis.window.count);
  taps.first.resize(size);
  taps.count.resize(size);
  taps.width = 2;
  for (std::size_t i = 0; i < size; ++i) {
    const Interval inputs =
        under_filter(axis, centre_of(axis, position_of(axis, static_cast<int>(i), mirror)));
    taps.first[i] = inputs.first - begin;
    taps.count[i] = inputs.count;
    taps.width = std::max(taps.width, (inputs.count + 1) / 2 * 2);
  }
}

void weigh_taps(const Axis& axis, int begin, bool mirror, Taps& taps, std::vector<double>& exact) {
  const auto width = static_cast<std::size_t>(taps.width);
  exact.resize(width);
  taps.weights.assign(taps.first.size() * width, 0);
  for (std::size_t i = 0; i < taps.first.size(); ++i) {
    const double centre = centre_of(axis, position_of(axis, static_cast<int>(i), mirror));
    const Interval inputs = {taps.first[i] + begin, taps.count[i]};
    weigh(axis, centre, inputs, exact.data(), taps.weights.data() + i * width);
  }
}

// The taps of the window, as positions after `begin`; in reverse order where `mirror` is set.
void make_taps(const Axis& axis, int begin, bool mirror, Taps& taps, std::vector<double>& exact) {
  find_taps(axis, begin, mirror, taps);
  weigh_taps(axis, begin, mirror, taps, exact);
  split_weights(taps.weights, taps.pairs);
}

// The part of `from` that `rectangle` of the picture is.
ImageView part_of(const ImageView& from, const Rectangle& rectangle) {
  ImageView part = from;
  part.pixels += static_cast<std::size_t>(rectangle.top - from.top) * from.stride +
                 static_cast<std::size_t>((rectangle.left - from.left) * from.channels);
  part.top = rectangle.top;
  part.left = rectangle.left;
  part.height = rectangle.height;
  part.width = rectangle.width;
  return part;
}

void copy_rows(const ImageView& from, std::uint8_t* to) {
  const std::size_t row_bytes = static_cast<std::size_t>(from.width * from.channels);
  for (int y = 0; y < from.height; ++y, to += row_bytes)
    std::copy_n(from.pixels + static_cast<std::size_t>(y) * from.stride, row_bytes, to);
}

void mirror_rows(const ImageView& from, std::uint8_t* to) {
  for (int y = 0; y < from.height; ++y) {
    const std::uint8_t* row = from.pixels + static_cast<std::size_t>(y) * from.stride;
    for (int x = from.width - 1; x >= 0; --x)
      for (int channel = 0; channel < from.channels; ++channel)
        *to++ = row[x * from.channels + channel];
  }
}

// One thread's memory.
struct Workspace {
  Taps taps;
  std::vector<double> exact;
  std::vector<std::uint8_t> between;  // the result of the first of two passes
};

// A resampling of some picture.
struct Plan {
  explicit Plan(const Resampling& resampling)
      : how(resampling), x(across(how)), y(down(how)), inputs(needed(how)) {}

  bool passes_across() const { return x.changes || how.mirror; }
  Resampling how;
  Axis x;
  Axis y;
  Rectangle inputs;
};

ImageView packed(const std::uint8_t* pixels, int height, int width, int channels) {
  const std::size_t stride = static_cast<std::size_t>(width) * static_cast<std::size_t>(channels);
  return {pixels, 0, 0, height, width, channels, stride};
}

std::uint8_t* grown(std::vector<std::uint8_t>& memory, int height, int width, int channels) {
  const auto size = static_cast<std::size_t>(height) * static_cast<std::size_t>(width) *
                    static_cast<std::size_t>(channels);
  if (memory.size() < size) memory.resize(size);
  return memory.data();
}

void resample_rows(const Plan& plan, const ImageView& from, Pass pass, Workspace& workspace,
                   std::uint8_t* to) {
  if (!plan.x.changes) return mirror_rows(from, to);
  make_taps(plan.x, plan.inputs.left - plan.x.origin, plan.how.mirror, workspace.taps,
            workspace.exact);
  pass(from, workspace.taps, to);
}

void resample_columns(const Plan& plan, const ImageView& from, Pass pass, Workspace& workspace,
                      std::uint8_t* to) {
  make_taps(plan.y, plan.inputs.top - plan.y.origin, false, workspace.taps, workspace.exact);
  pass(from, workspace.taps, to);
}

// Both passes, the first one to `workspace`.
void resample_both(const Plan& plan, const ImageView& from, const Passes& pass,
                   Workspace& workspace, std::uint8_t* to) {
  const bool columns_first = filter::columns_first(plan.x, plan.y);
  const int height = columns_first ? plan.how.window.height : from.height;
  const int width = columns_first ? from.width : plan.how.window.width;
  std::uint8_t* first = grown(workspace.between, height, width, from.channels);
  const ImageView between = packed(first, height, width, from.channels);
  if (columns_first) {
    resample_columns(plan, from, pass.columns, workspace, first);
    resample_rows(plan, between, pass.rows, workspace, to);
  } else {
    resample_rows(plan, from, pass.rows, workspace, first);
    resample_columns(plan, between, pass.columns, workspace, to);
  }
}

}  // namespace

ImageView view_of(const Image& image, int top, int left) {
  ImageView view = packed(image.pixels.data(), image.height, image.width, image.channels);
  view.top = top;
  view.left = left;
  return view;
}

Rectangle needed(const Resampling& how) {
  if (how.window.height == 0 || how.window.width == 0) return {};
  const Axis x = across(how);
  const Axis y = down(how);
  const Interval columns = reached(x);
  const Interval rows = reached(y);
  return {y.origin + rows.first, x.origin + columns.first, rows.count, columns.count};
}

void resample(const ImageView& from, const Resampling& how, std::uint8_t* to,
              Instructions instructions) {
  if (how.window.height == 0 || how.window.width == 0) return;
  thread_local Workspace workspace;
  const Plan plan(how);
  const Passes pass = passes(instructions);
  const ImageView inputs = part_of(from, plan.inputs);
  if (plan.passes_across() && plan.y.changes)
    resample_both(plan, inputs, pass, workspace, to);
  else if (plan.passes_across())
    resample_rows(plan, inputs, pass.rows, workspace, to);
  else if (plan.y.changes)
    resample_columns(plan, inputs, pass.columns, workspace, to);
  else
    copy_rows(inputs, to);
}

void resample(const ImageView& from, const Resampling& how, std::uint8_t* to) {
  static const Instructions fastest =
      available(Instructions::avx2) ? Instructions::avx2 : Instructions::portable;
  resample(from, how, to, fastest);
}

}  // namespace trainer::data

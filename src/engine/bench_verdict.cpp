#include "engine/bench_verdict.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>

namespace trainer::engine {
namespace {

// Differences below this are noise.
constexpr double kClearly = 1.1;

std::string times(double factor) {
  if (factor >= 100) return with_separators(factor) + " times";
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%.1f times", factor);
  return text.data();
}

std::string rate(double images_per_second) {
  return with_separators(images_per_second) + " images/s";
}

enum class Part { unknown, read, decode, gpu_decode, transform, copy };

// The slowest part of the input pipeline.
Part slowest(const BenchRates& rates, const BenchSetting& setting) {
  const bool host_is_faster =
      rates.host && rates.delivered && *rates.host > kClearly * *rates.delivered;
  if (setting.gpu_decode && (host_is_faster || !rates.host)) return Part::gpu_decode;
  if (host_is_faster && rates.copy) return Part::copy;
  if (setting.gpu_decode) return Part::read;
  Part part = Part::unknown;
  double lowest = 0;
  const auto consider = [&](Part which, const std::optional<double>& value) {
    if (!value || (part != Part::unknown && *value >= lowest)) return;
    part = which;
    lowest = *value;
  };
  consider(Part::read, rates.read);
  consider(Part::decode, rates.decode);
  consider(Part::transform, rates.transform);
  return part;
}

const char* name_of(Part part) {
  switch (part) {
    case Part::read:
      return "reading";
    case Part::decode:
      return "decoding";
    case Part::gpu_decode:
      return "decoding on the GPU";
    case Part::transform:
      return "transforming";
    case Part::copy:
      return "copying to the GPU";
    case Part::unknown:
      break;
  }
  return "its input";
}

std::string more_workers(const BenchSetting& setting) {
  return "try data.loader.workers: " + std::to_string(setting.cpus) + " instead of " +
         std::to_string(setting.workers);
}

std::string advice(Part part, double supply, const BenchSetting& setting) {
  if (part == Part::decode && setting.with_gpu_decode.value_or(0) > kClearly * supply)
    return "try data.loader.decode: gpu, which delivers " + rate(*setting.with_gpu_decode);
  const bool on_workers = part != Part::copy && part != Part::gpu_decode;
  if (on_workers && setting.workers < setting.cpus) return more_workers(setting);
  switch (part) {
    case Part::read:
      return setting.cached || !setting.encoded
                 ? "put the data on a faster disk"
                 : "try data.loader.cache: ram where the files fit into memory, or tar shards "
                   "(trainer data pack)";
    case Part::decode:
      return "store the images smaller, or try data.loader.cache: {ram: {holds: decoded}} where "
             "their pixels fit into memory";
    case Part::gpu_decode:
      return "try data.loader.decode: cpu with more CPUs, or store the images smaller";
    case Part::transform:
      return "try a smaller resize, or fewer and cheaper transforms";
    case Part::copy:
      return "try a smaller crop; images are copied as 8-bit pixels already";
    case Part::unknown:
      break;
  }
  return "measure all stages to see which part of it";
}

std::string bound_by_step(double supply, double demand, const BenchSetting& setting) {
  const std::string what = setting.cuda ? "the GPU's step" : "the training step on the CPU";
  std::string text = "bound by " + what + ": it takes " + rate(demand) +
                     " and the loader could give " + rate(supply) + ", " + times(supply / demand) +
                     " as many. ";
  if (!setting.cuda) return text + "A GPU, a smaller model or smaller images would make it faster.";
  return text + (setting.fp32 ? "Try precision.mode: bf16; a faster loader would change nothing."
                              : "A faster loader would change nothing.");
}

std::string bound_by_input(double supply, double demand, const BenchRates& rates,
                           const BenchSetting& setting) {
  const Part part = slowest(rates, setting);
  return std::string("bound by ") + name_of(part) + ": the loader makes " + rate(supply) +
         " and the step could take " + rate(demand) + ", " + times(demand / supply) + " as many; " +
         advice(part, supply, setting) + ".";
}

// Where both together are clearly slower than the slower one.
std::string compared_with_all(double supply, double demand, const BenchRates& rates) {
  const double expected = std::min(supply, demand);
  if (!rates.all || *rates.all * kClearly > expected) return "";
  return " Together they reach only " + rate(*rates.all) +
         ": the loader's threads and the step compete for the same CPUs.";
}

}  // namespace

std::string with_separators(double value) {
  std::string digits = std::to_string(std::llround(value));
  for (auto at = static_cast<std::ptrdiff_t>(digits.size()) - 3; at > 0; at -= 3)
    digits.insert(static_cast<std::size_t>(at), ",");
  return digits;
}

std::string bench_verdict(const BenchRates& rates, const BenchSetting& setting) {
  const std::optional<double> supply = rates.delivered ? rates.delivered : rates.host;
  if (!supply || !rates.step) return "no verdict: it needs the stages step and host or delivered";
  const std::string bound = *rates.step <= *supply
                                ? bound_by_step(*supply, *rates.step, setting)
                                : bound_by_input(*supply, *rates.step, rates, setting);
  return bound + compared_with_all(*supply, *rates.step, rates);
}

}  // namespace trainer::engine

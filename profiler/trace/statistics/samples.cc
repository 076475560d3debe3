#include "profiler/trace/statistics/samples.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <stdexcept>
#include <utility>

#include "profiler/base/index.h"

namespace mptune {
namespace {

std::vector<double> values_of(const Samples& samples) {
  std::vector<double> values;
  values.reserve(samples.size());
  for (const Sample& sample : samples.values) values.push_back(sample.value);
  return values;
}

void require_not_empty(const std::vector<double>& values) {
  if (values.empty()) throw std::invalid_argument("statistics need at least one sample");
}

double quantile(const std::vector<double>& sorted, double share) {
  const double place = share * static_cast<double>(sorted.size() - 1);
  const auto below = static_cast<std::size_t>(place);
  const std::size_t above = std::min(below + 1, sorted.size() - 1);
  return std::lerp(sorted[below], sorted[above], place - static_cast<double>(below));
}

/// Returns, for each k, the chance that [k-th smallest, k-th largest] of `count` values holds the median, 1 - 2 P(Binomial(count, 1/2) <
/// k).
std::vector<double> coverages(std::size_t count) {
  const auto size = static_cast<double>(count);
  std::vector<double> covered{1};
  for (std::size_t k = 1; 2 * k <= count; ++k) {
    const auto taken = static_cast<double>(k - 1);
    covered.push_back(covered.back() -
                      2 * std::exp(std::lgamma(size + 1) - std::lgamma(taken + 1) - std::lgamma(size - taken + 1) - size * std::log(2.0)));
  }
  return covered;
}

}  // namespace

Samples exactly(double value) {
  return samples_of({value});
}

Samples samples_of(const std::vector<double>& values) {
  Samples samples;
  samples.values.reserve(values.size());
  for (const double value : values) samples.values.push_back({.value = value, .round = static_cast<int>(samples.size())});
  return samples;
}

double median(const Samples& samples) {
  return median(values_of(samples));
}

double median(std::vector<double> values) {
  require_not_empty(values);
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  if (values.size() % 2 == 1) return *middle;
  return std::midpoint(*std::max_element(values.begin(), middle), *middle);
}

double spread(const Samples& samples) {
  if (samples.size() < 2) return 0;
  std::vector<double> values = values_of(samples);
  std::sort(values.begin(), values.end());
  const double range = quantile(values, 0.75) - quantile(values, 0.25);
  return range == 0 ? 0 : range / std::abs(quantile(values, 0.5));
}

std::optional<Interval> interval95(const Samples& samples) {
  return interval95(values_of(samples));
}

std::optional<Interval> interval95(std::vector<double> values) {
  return median_interval(std::move(values), 0.95);
}

std::optional<Interval> median_interval(std::vector<double> values, double coverage) {
  const std::size_t count = values.size();
  if (count < kLeastForInterval) return std::nullopt;
  std::sort(values.begin(), values.end());
  const std::vector<double> covered = coverages(count);
  std::size_t k = 1;
  while (k + 1 < covered.size() && covered[k + 1] >= coverage) ++k;
  if (k + 1 >= covered.size() || covered[k] < coverage) return Interval{values.front(), values.back()};
  const double between = (covered[k] - coverage) / (covered[k] - covered[k + 1]);
  const auto n = static_cast<double>(count), place = static_cast<double>(k);
  const double inwards = (n - place) * between / (place + (n - 2 * place) * between);
  return Interval{std::lerp(values[k - 1], values[k], inwards), std::lerp(values[count - k], values[count - k - 1], inwards)};
}

Interval range_of(const std::vector<double>& values) {
  require_not_empty(values);
  const auto [least, largest] = std::minmax_element(values.begin(), values.end());
  return {*least, *largest};
}

Interval range_of(const Samples& samples) {
  return range_of(values_of(samples));
}

std::optional<TwoModes> two_modes(const Samples& samples) {
  constexpr std::size_t kLeast = 5;
  constexpr double kLeastShare = 0.2, kLeastJump = 0.05;
  std::vector<double> sorted = values_of(samples);
  std::sort(sorted.begin(), sorted.end());
  const std::size_t count = sorted.size();
  const std::size_t least = std::max(kLeast, static_cast<std::size_t>(std::ceil(kLeastShare * static_cast<double>(count))));
  if (count < 2 * least) return std::nullopt;
  std::size_t split = least;  // first of the higher group: after the widest space
  for (std::size_t i = least; i <= count - least; ++i)
    if (sorted[i] - sorted[i - 1] > sorted[split] - sorted[split - 1]) split = i;
  const std::vector<double> lower(sorted.begin(), sorted.begin() + static_cast<std::ptrdiff_t>(split));
  const std::vector<double> higher(sorted.begin() + static_cast<std::ptrdiff_t>(split), sorted.end());
  const auto width = [](const std::vector<double>& group) { return quantile(group, 0.75) - quantile(group, 0.25); };
  const TwoModes modes{.low = quantile(lower, 0.5),
                       .high = quantile(higher, 0.5),
                       .share_high = static_cast<double>(higher.size()) / static_cast<double>(count)};
  if (modes.high < (1 + kLeastJump) * modes.low || higher.front() - lower.back() <= width(lower) + width(higher)) return std::nullopt;
  return modes;
}

}  // namespace mptune

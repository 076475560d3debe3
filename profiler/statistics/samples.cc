#include "profiler/statistics/samples.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <stdexcept>

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

// Largest k >= 1 with 2 P(Binomial(n, 1/2) < k) <= 0.05: [k-th smallest, k-th largest] then covers the median in 95 % of cases.
// 0 if not even minimum and maximum reach 95 %.
std::size_t order_statistic95(std::size_t n) {
  const auto size = static_cast<double>(n);
  double below = 0;
  for (std::size_t k = 0; k < n; ++k) {
    const auto taken = static_cast<double>(k);
    below += std::exp(std::lgamma(size + 1) - std::lgamma(taken + 1) - std::lgamma(size - taken + 1) - size * std::log(2.0));
    if (2 * below > 0.05) return k;
  }
  return 0;
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

Interval interval95(const Samples& samples) {
  return interval95(values_of(samples));
}

Interval interval95(std::vector<double> values) {
  require_not_empty(values);
  std::sort(values.begin(), values.end());
  const std::size_t k = std::max<std::size_t>(1, order_statistic95(values.size()));
  return {values[k - 1], values[values.size() - k]};
}

}  // namespace mptune

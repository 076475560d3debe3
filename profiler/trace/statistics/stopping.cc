#include "profiler/trace/statistics/stopping.h"

#include <algorithm>
#include <cmath>
#include <vector>

namespace mptune::profiler {
namespace {

constexpr std::size_t kWindow = 3;

}  // namespace

int warm_up_length(std::span<const double> values) {
  const std::size_t half = values.size() / 2;
  if (values.size() < 4) return 0;
  const auto later_span = values.subspan(half);
  const Samples later = samples_of({later_span.begin(), later_span.end()});
  const double centre = median(later);
  // The minimum of 1e-9 keeps rounding errors of equal values from looking like warm-up.
  const double highest = centre + std::max(spread(later), 1e-9) * std::abs(centre);
  for (std::size_t w = 0; w < half; ++w) {
    const auto window = values.subspan(w, std::min(kWindow, half - w));
    if (values[w] <= highest && median(std::vector<double>(window.begin(), window.end())) <= highest) return static_cast<int>(w);
  }
  return static_cast<int>(half);
}

bool should_stop(const Samples& samples, const StoppingRule& rule) {
  const int count = static_cast<int>(samples.size());
  if (count >= rule.most) return true;
  if (count < rule.least || samples.empty()) return false;
  const Interval width = interval95(samples).value_or(range_of(samples));
  return width.high - width.low <= rule.relative_width * std::abs(median(samples));
}

}  // namespace mptune::profiler

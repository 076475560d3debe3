#include "planner/cost/time_curve.h"

#include <algorithm>
#include <cstdlib>
#include <optional>
#include <span>

#include "planner/cost/curve_points.h"

namespace mptune {
namespace {

double median_or(const Samples& samples, double otherwise) {
  return samples.empty() ? otherwise : std::max(0.0, median(samples));
}

bool has_halves(const LayerCost& cost) {
  return !cost.backward_input.empty() && !cost.backward_weight.empty();
}

// The whole backward as its input gradients and its weight gradients.
struct Halves {
  double input = 0;
  double weight = 0;
};

// Returns the shares of both halves as measured at the nearest size.
std::optional<Halves> measured_halves(const std::vector<const LayerCost*>& costs, int samples) {
  const LayerCost* nearest = nullptr;
  for (const LayerCost* cost : costs) {
    if (!has_halves(*cost) || median_or(cost->backward, 0) <= 0) continue;
    if (nearest == nullptr || std::abs(cost->samples - samples) < std::abs(nearest->samples - samples)) nearest = cost;
  }
  if (nearest == nullptr) return std::nullopt;
  const double whole = median(nearest->backward);
  return Halves{median_or(nearest->backward_input, 0) / whole, median_or(nearest->backward_weight, 0) / whole};
}

// A larger micro-batch may well be cheaper: libraries choose other kernels for it.
LayerTimes measured_times(const LayerCost& cost, const Halves& share) {
  LayerTimes times;
  times.forward_s = median_or(cost.forward, 0);
  times.backward_s = median_or(cost.backward, 0);
  times.forward_busy_s = std::max(times.forward_s, median_or(cost.forward_busy, 0));
  times.backward_busy_s = std::max(times.backward_s, median_or(cost.backward_busy, 0));
  times.backward_weight_s = has_halves(cost) ? median_or(cost.backward_weight, 0) : times.backward_s * share.weight;
  times.backward_input_s = has_halves(cost) ? median_or(cost.backward_input, 0) : times.backward_s * share.input;
  return times;
}

double time_between(double low, double high, double share, double proportional) {
  return planner::in_whole_ns(planner::interpolated(low, high, share, proportional));
}

}  // namespace

TimeCurve::TimeCurve(const LayerCosts& costs, bool has_parameters) {
  const std::vector<const LayerCost*> by_size = planner::costs_by_size(costs);
  for (const LayerCost* cost : planner::usable_costs(by_size)) {
    const std::optional<Halves> known = measured_halves(by_size, cost->samples);
    assumes_halves_ = assumes_halves_ || (!known && has_parameters);
    const Halves share = known.value_or(has_parameters ? Halves{0.5, 0.5} : Halves{1, 0});
    points_.push_back({static_cast<double>(cost->samples), measured_times(*cost, share)});
  }
}

LayerTimes TimeCurve::at(int samples) const {
  static constexpr Point kNothing{};
  const auto on = planner::segment_at(std::span<const Point>(points_), samples);
  const LayerTimes& high = on.high->times;
  const LayerTimes& low = on.low == nullptr ? kNothing.times : on.low->times;
  const double part = on.low == nullptr ? 0 : samples / on.low->samples;
  LayerTimes times = {time_between(low.forward_s, high.forward_s, on.share, low.forward_s * part),
                      time_between(low.backward_s, high.backward_s, on.share, low.backward_s * part),
                      time_between(low.forward_busy_s, high.forward_busy_s, on.share, low.forward_busy_s * part),
                      time_between(low.backward_busy_s, high.backward_busy_s, on.share, low.backward_busy_s * part),
                      time_between(low.backward_input_s, high.backward_input_s, on.share, low.backward_input_s * part),
                      planner::interpolated(low.backward_weight_s, high.backward_weight_s, on.share, low.backward_weight_s * part)};
  // The halves have to add up to the whole, so their sum is rounded, not the second half.
  const double input = planner::interpolated(low.backward_input_s, high.backward_input_s, on.share, low.backward_input_s * part);
  times.backward_weight_s = planner::in_whole_ns(planner::in_whole_ns(input + times.backward_weight_s) - times.backward_input_s);
  // Extrapolated lines of different slopes may cross.
  times.forward_busy_s = std::max(times.forward_busy_s, times.forward_s);
  times.backward_busy_s = std::max(times.backward_busy_s, times.backward_s);
  return times;
}

bool TimeCurve::extrapolates(int samples) const {
  return samples < points_.front().samples || samples > points_.back().samples;
}

}  // namespace mptune

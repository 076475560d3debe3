#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "profiler/trace/values/profile.h"

namespace mptune::planner {

/// Returns pointers to a layer's costs, by ascending micro-batch size. The costs must outlive them.
[[nodiscard]] std::vector<const LayerCost*> costs_by_size(const LayerCosts& costs);

/// True if the cost can be a point of a curve: it has a size, and times of a forward and of a backward.
[[nodiscard]] bool is_usable(const LayerCost& cost);

/// Returns the usable costs, the first one of each size. Requires: costs by ascending size.
[[nodiscard]] std::vector<const LayerCost*> usable_costs(const std::vector<const LayerCost*>& by_size);

/// Where a micro-batch size lies on a curve: on the line through two of its points.
template <class Point>
struct Segment {
  const Point* low = nullptr;  ///< nullptr: the curve has one point, and the line goes through it and zero
  const Point* high = nullptr;
  double share = 0;  ///< 0 at low, 1 at high; outside 0 .. 1 if extrapolated
};

/// Returns the segment between the points next to `samples`; beyond the curve, its first or last one. Requires: at least one point, and
/// points by ascending size.
template <class Point>
[[nodiscard]] Segment<Point> segment_at(std::span<const Point> points, int samples) {
  const Point* first = points.data();
  const Point* last = points.data() + points.size() - 1;
  if (first == last) return {nullptr, first, samples / first->samples};
  const Point* high = first + 1;
  while (high < last && high->samples < samples) ++high;
  const Point* low = high - 1;
  return {low, high, (samples - low->samples) / (high->samples - low->samples)};
}

/// Returns the value at this share of the way from low to high. Below the smallest measured size the value is at least `proportional`, in
/// proportion to the samples; above the largest size it is at least `high`.
[[nodiscard]] double interpolated(double low, double high, double share, double proportional);

/// Rounds seconds to whole nanoseconds.
[[nodiscard]] double in_whole_ns(double seconds);
/// Rounds bytes up.
[[nodiscard]] std::int64_t whole_bytes(double bytes);

}  // namespace mptune::planner

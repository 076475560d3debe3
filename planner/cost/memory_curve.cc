#include "planner/cost/memory_curve.h"

#include <algorithm>
#include <cstdint>
#include <span>

#include "planner/cost/curve_points.h"

namespace mptune {

MemoryCurve::MemoryCurve(const LayerCosts& costs)
    : peaks_measured_(std::ranges::all_of(costs.by_samples, [](const LayerCost& cost) { return cost.peaks.has_value(); })),
      keeps_output_(std::ranges::any_of(costs.by_samples, &LayerCost::keeps_output)) {
  for (const LayerCost* cost : planner::usable_costs(planner::costs_by_size(costs))) {
    const MemoryPoint last = points_.empty() ? MemoryPoint{} : points_.back();
    MemoryPoint point;
    point.samples = cost->samples;
    add_split(*cost, point);
    point.saved_activation_bytes = std::max(last.saved_activation_bytes, static_cast<double>(cost->saved_activation_bytes));
    point.workspace_bytes = std::max(last.workspace_bytes, static_cast<double>(cost->workspace_bytes));
    if (cost->peaks) {
      point.bare_forward_bytes = std::max(last.bare_forward_bytes, static_cast<double>(cost->peaks->bare_forward_bytes));
      point.first_backward_bytes = std::max(last.first_backward_bytes, static_cast<double>(cost->peaks->first_backward_bytes));
    }
    points_.push_back(point);
  }
}

void MemoryCurve::add_split(const LayerCost& cost, MemoryPoint& point) const {
  const bool first = points_.empty();
  const MemoryPoint last = first ? MemoryPoint{} : points_.back();
  if (cost.split) {
    const auto at_least = [&](std::int64_t bytes, double MemoryPoint::*of) { point.*of = std::max(last.*of, static_cast<double>(bytes)); };
    at_least(cost.split->held_bytes, &MemoryPoint::held_bytes);
    at_least(cost.split->held_input_bytes, &MemoryPoint::held_input_bytes);
    at_least(cost.split->held_gradient_bytes, &MemoryPoint::held_gradient_bytes);
    at_least(cost.split->input_workspace_bytes, &MemoryPoint::input_workspace_bytes);
    at_least(cost.split->weight_workspace_bytes, &MemoryPoint::weight_workspace_bytes);
    point.fused_share = cost.split->fused_share;
    point.fused_bytes = static_cast<double>(cost.split->fused_bytes);
  } else {
    // This size had no memory for the measurement: its bytes are taken in proportion to the samples.
    for (double MemoryPoint::*bytes : {&MemoryPoint::held_bytes, &MemoryPoint::held_input_bytes, &MemoryPoint::held_gradient_bytes,
                                       &MemoryPoint::input_workspace_bytes, &MemoryPoint::weight_workspace_bytes})
      point.*bytes = first ? 0 : last.*bytes * point.samples / last.samples;
    point.fused_share = std::min(last.fused_share, 0.0);
    point.fused_bytes = first ? 0 : last.fused_bytes * point.samples / last.samples;
    if (first || last.held_bytes < 0) point.held_bytes = -1;
  }
}

double MemoryCurve::at(int samples, double MemoryPoint::*bytes) const {
  const auto on = planner::segment_at(std::span<const MemoryPoint>(points_), samples);
  const double low = on.low == nullptr ? 0 : on.low->*bytes;
  return planner::interpolated(low, on.high->*bytes, on.share, on.low == nullptr ? 0 : low * samples / on.low->samples);
}

SplitMemory MemoryCurve::split_at(int samples) const {
  const auto whole = [&](double MemoryPoint::*bytes) { return planner::whole_bytes(at(samples, bytes)); };
  SplitMemory memory{whole(&MemoryPoint::held_bytes), whole(&MemoryPoint::held_input_bytes), whole(&MemoryPoint::held_gradient_bytes),
                     whole(&MemoryPoint::input_workspace_bytes), whole(&MemoryPoint::weight_workspace_bytes)};
  add_fused(samples, memory);
  return memory;
}

// With more samples fewer convolutions fuse. So a size fuses at least what the next larger measured size does, and at most what the next
// smaller one does, whose bytes grow with the samples.
void MemoryCurve::add_fused(int samples, SplitMemory& memory) const {
  const MemoryPoint* below = nullptr;
  const MemoryPoint* above = nullptr;
  for (const MemoryPoint& point : points_) {
    if (point.fused_share < 0) return;
    if (point.samples <= samples) below = &point;
    if (point.samples >= samples && above == nullptr) above = &point;
  }
  memory.fused_share = above == nullptr ? 0 : above->fused_share;
  memory.fused_bytes = below == nullptr ? memory.held_bytes : planner::whole_bytes(below->fused_bytes * samples / below->samples);
}

bool MemoryCurve::split_measured() const {
  return std::ranges::all_of(points_, [](const MemoryPoint& point) { return point.held_bytes >= 0; });
}

std::vector<int> MemoryCurve::sizes() const {
  std::vector<int> sizes;
  for (const MemoryPoint& point : points_) sizes.push_back(static_cast<int>(point.samples));
  return sizes;
}

}  // namespace mptune

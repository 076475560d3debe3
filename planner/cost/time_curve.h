#pragma once

#include <vector>

#include "profiler/trace/values/profile.h"

namespace mptune {

/// Costs of one layer at one micro-batch size on one device, interpolated. Each is a whole number of nanoseconds, so the costs of a stage,
/// which are sums over its layers, do not depend on the order in which they are added.
struct LayerTimes {
  double forward_s = 0;
  double backward_s = 0;         ///< gradients of inputs and weights in one
  double forward_busy_s = 0;     ///< with the other devices busy; equal to forward_s where that was not measured
  double backward_busy_s = 0;    ///< with the other devices busy; equal to backward_s where that was not measured
  double backward_input_s = 0;   ///< gradients of inputs alone; busy devices slow both parts as they slow the whole
  double backward_weight_s = 0;  ///< gradients of weights alone, after the gradients of inputs
};

/// The times of one layer on one class of devices, by micro-batch size.
/// Where only the whole backward was measured, input and weight gradients take the shares of it that they have at the nearest size where
/// they were measured. Where they were never measured for a layer with parameters, each takes half; in a layer without parameters the input
/// gradient takes all.
class TimeCurve {
 public:
  /// Copies the medians of the costs. Requires: a cost with a size, a forward and a backward.
  TimeCurve(const LayerCosts& costs, bool has_parameters);

  /// Returns the times at this size: interpolated linearly between measured sizes; beyond them the nearest segment is continued.
  [[nodiscard]] LayerTimes at(int samples) const;
  /// True if this size is smaller than all measured ones, or larger.
  [[nodiscard]] bool extrapolates(int samples) const;
  /// True if each part of a split backward is taken as half of the whole one.
  [[nodiscard]] bool assumes_halves() const { return assumes_halves_; }

 private:
  struct Point {
    double samples = 0;
    LayerTimes times;
  };

  std::vector<Point> points_;  ///< ascending in samples, at least one
  bool assumes_halves_ = false;
};

}  // namespace mptune

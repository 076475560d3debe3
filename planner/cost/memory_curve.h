#pragma once

#include <vector>

#include "profiler/trace/values/profile.h"

namespace mptune {

/// What one layer needs at one measured micro-batch size, in bytes; at least what it needs at the next smaller size.
struct MemoryPoint {
  double samples = 0;
  double saved_activation_bytes = 0;
  double workspace_bytes = 0;
  double held_bytes = 0;  ///< memory of a split backward, like the next four; negative: not measured
  double held_input_bytes = 0;
  double held_gradient_bytes = 0;
  double input_workspace_bytes = 0;
  double weight_workspace_bytes = 0;
  double fused_share = -1;  ///< negative: unknown
  double fused_bytes = 0;
  double bare_forward_bytes = -1;  ///< negative: not measured; this holds for the next one, too
  double first_backward_bytes = -1;
};

/// The memory of one layer on one class of devices, by micro-batch size.
class MemoryCurve {
 public:
  /// Copies what it needs of the costs. Requires: a cost with a size, a forward and a backward.
  explicit MemoryCurve(const LayerCosts& costs);

  /// Returns these bytes at this size: interpolated linearly between measured sizes; beyond them the nearest segment is continued.
  [[nodiscard]] double at(int samples, double MemoryPoint::*bytes) const;
  /// Returns what a split backward holds. Requires: split_measured().
  [[nodiscard]] SplitMemory split_at(int samples) const;
  /// True if what a split backward holds was measured.
  [[nodiscard]] bool split_measured() const;
  /// True if `bare_forward_bytes` and `first_backward_bytes` were measured at all sizes.
  [[nodiscard]] bool peaks_measured() const { return peaks_measured_; }
  /// True if the layer's own backward needs its output, as far as was measured.
  [[nodiscard]] bool keeps_output() const { return keeps_output_; }
  /// Returns the measured sizes, ascending.
  [[nodiscard]] std::vector<int> sizes() const;

 private:
  void add_split(const LayerCost& cost, MemoryPoint& point) const;
  void add_fused(int samples, SplitMemory& memory) const;

  std::vector<MemoryPoint> points_;  ///< ascending in samples, at least one
  bool peaks_measured_;
  bool keeps_output_;
};

}  // namespace mptune

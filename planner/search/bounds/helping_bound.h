#pragma once

#include <cstdint>
#include <vector>

#include "planner/cost/cost_model.h"

namespace mptune::planner {

/// A lower bound of the step of plans whose idle devices help, for given cuts, whatever their rows. It is the larger of two. One is all
/// work over all devices, each idle until a micro-batch is through the layers before its first stage (no weight gradient is ready before).
/// The other is, on each device, that idle time, then its own forwards and input gradients, which nobody helps with, then the way of an
/// input gradient back through the earlier layers. Recomputation only adds to the step. Copies and the end of the step (sums, optimizer)
/// are left out.
class HelpingBound {
 public:
  /// `stages` has the devices of each stage, indices into the profile's. `cost` must outlive this object.
  HelpingBound(const CostModel& cost, std::vector<std::vector<int>> stages, const std::vector<int>& sizes);

  /// Requires: one cut less than stages, ascending.
  [[nodiscard]] std::int64_t of(const std::vector<int>& cuts) const;

 private:
  std::vector<std::vector<int>> stages_;
  std::size_t microbatches_;
  double action_ns_ = 0;
  double step_ns_ = 0;
  // Sums over the layers before an index, on the fastest device.
  std::vector<double> all_{0.0};   // all work of all micro-batches
  std::vector<double> own_{0.0};   // forwards and input gradients of all micro-batches
  std::vector<double> out_{0.0};   // forward of one micro-batch
  std::vector<double> back_{0.0};  // input gradients of one micro-batch
};

}  // namespace mptune::planner

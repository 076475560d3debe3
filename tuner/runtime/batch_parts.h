#pragma once

#include <cstdint>
#include <vector>

#include "planner/plan.h"
#include "profiler/base/index.h"

namespace mptune::tuner {

/// How the samples of one batch are divided over a plan's micro-batches: as the plan says, or where there are fewer samples, evenly over as
/// few micro-batches as hold them in the plan's largest size. The others, the last ones, are left out of the step.
class BatchParts {
 public:
  BatchParts() = default;
  /// Requires: 1 <= samples <= the plan's batch.
  BatchParts(const Plan& plan, int samples);

  [[nodiscard]] const std::vector<int>& sizes() const { return sizes_; }
  [[nodiscard]] int size(int microbatch) const { return sizes_[as_index(microbatch)]; }
  [[nodiscard]] bool empty(int microbatch) const { return size(microbatch) == 0; }
  [[nodiscard]] std::int64_t samples() const { return samples_; }
  /// Index of a micro-batch's first sample in the batch.
  [[nodiscard]] std::int64_t first(int microbatch) const { return firsts_[as_index(microbatch)]; }

 private:
  std::vector<int> sizes_;
  std::vector<std::int64_t> firsts_;
  std::int64_t samples_ = 0;
};

}  // namespace mptune::tuner

#pragma once

#include <cstdint>
#include <vector>

#include "planner/plan/plan.h"
#include "profiler/base/index.h"

namespace mptune::tuner {

/// Divides the samples of one batch over a plan's micro-batches. A full batch is divided as the plan says. A smaller one is divided evenly
/// over as few micro-batches as can hold it at the plan's largest size; the last micro-batches then stay empty and are left out of the
/// step.
class BatchParts {
 public:
  BatchParts() = default;
  /// Requires: 1 <= samples <= the plan's batch.
  BatchParts(const Plan& plan, int samples);

  [[nodiscard]] const std::vector<int>& sizes() const { return sizes_; }
  [[nodiscard]] int size(int microbatch) const { return sizes_[as_index(microbatch)]; }
  [[nodiscard]] bool empty(int microbatch) const { return size(microbatch) == 0; }
  [[nodiscard]] std::int64_t samples() const { return samples_; }
  /// Returns the index of a micro-batch's first sample in the batch.
  [[nodiscard]] std::int64_t first(int microbatch) const { return firsts_[as_index(microbatch)]; }

 private:
  std::vector<int> sizes_;
  std::vector<std::int64_t> firsts_;
  std::int64_t samples_ = 0;
};

}  // namespace mptune::tuner

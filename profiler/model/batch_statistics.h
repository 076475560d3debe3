#pragma once

#include <optional>
#include <vector>

#include <torch/types.h>

#include "mptune/profiler/model/layer.h"

namespace mptune {

/// Mean and unbiased variance of the union of the samples behind `parts`, in double. Requires: a part with count > 0.
[[nodiscard]] BatchStatistics combine(const std::vector<BatchStatistics>& parts);

/// What one batch norm keeps between batches.
struct RunningStatistics {
  at::Tensor mean;
  at::Tensor variance;
  at::Tensor tracked;              ///< number of batches so far; may be undefined
  std::optional<double> momentum;  ///< nothing: the mean over all batches, which needs `tracked`
};
/// Moves the running statistics as one forward over the whole batch would have; `parts` are its micro-batches in ascending order.
void commit_batch(const RunningStatistics& running, const std::vector<BatchStatistics>& parts);

}  // namespace mptune

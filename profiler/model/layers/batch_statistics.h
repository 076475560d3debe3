#pragma once

#include <optional>
#include <vector>

#include <torch/types.h>

#include "profiler/model/layers/layer.h"

namespace mptune::profiler {

/// Combines the statistics of `parts` to the mean and unbiased variance of all their samples, in double. Requires: a part with count > 0.
[[nodiscard]] BatchStatistics combine(const std::vector<BatchStatistics>& parts);

/// Running statistics of one batch norm.
struct RunningStatistics {
  at::Tensor mean;
  at::Tensor variance;
  at::Tensor tracked;              ///< number of batches so far; may be undefined
  std::optional<double> momentum;  ///< nullopt: the mean over all batches, which needs `tracked`
};
/// Updates running statistics as one forward over the whole batch would. `parts`: statistics of its micro-batches, in ascending order.
void commit_batch(const RunningStatistics& running, const std::vector<BatchStatistics>& parts);

}  // namespace mptune::profiler

#include "profiler/model/layers/batch_statistics.h"

#include <ATen/ATen.h>

#include <algorithm>

namespace mptune::profiler {

BatchStatistics combine(const std::vector<BatchStatistics>& parts) {
  std::vector<at::Tensor> means;
  std::vector<at::Tensor> variances;
  std::vector<double> counts;
  std::int64_t total = 0;
  for (const auto& part : parts) {
    if (part.count > 0) {
      // Replicas may be on several devices.
      const auto device = means.empty() ? part.mean.device() : means.front().device();
      means.push_back(part.mean.to(device));
      variances.push_back(part.variance.to(device));
      counts.push_back(static_cast<double>(part.count));
      total += part.count;
    }
  }
  const auto mean = at::stack(means).to(at::kCPU, at::kDouble);
  const auto variance = at::stack(variances).to(at::kCPU, at::kDouble);
  const auto count = at::tensor(counts, at::kDouble).unsqueeze(1);
  const auto whole_mean = (mean * count).sum(0) / static_cast<double>(total);
  const auto squares = (variance * (count - 1)).sum(0) + ((mean - whole_mean).square_() * count).sum(0);
  return {whole_mean, squares / static_cast<double>(std::max<std::int64_t>(1, total - 1)), total};
}

void commit_batch(const RunningStatistics& running, const std::vector<BatchStatistics>& statistics) {
  const auto used = std::count_if(statistics.begin(), statistics.end(), [](const BatchStatistics& one) { return one.count > 0; });
  if (used == 0) return;
  const at::NoGradGuard no_gradients;
  double factor = running.momentum.value_or(0.0);
  if (running.tracked.defined()) {
    running.tracked.add_(1);
    if (!running.momentum.has_value()) factor = 1.0 / running.tracked.item<double>();
  }
  const auto whole = combine(statistics);
  running.mean.mul_(1 - factor).add_(whole.mean.to(running.mean.options()), factor);
  running.variance.mul_(1 - factor).add_(whole.variance.to(running.variance.options()), factor);
}

}  // namespace mptune::profiler

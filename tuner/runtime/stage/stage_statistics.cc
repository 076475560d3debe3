// Statistics of a stage's batch norms: collected in forwards, committed once per step.
#include <ATen/ATen.h>

#include "profiler/base/error.h"
#include "profiler/base/index.h"
#include "tuner/runtime/stage/stage_replica.h"

namespace mptune::tuner {

void StageReplica::collect_statistics(int layer, int microbatch) {
  Layer& source = *layers_[as_index(layer)].layer;
  if (source.has_batch_statistics()) statistics_[as_index(layer)][microbatch] = source.take_statistics();
}

void StageReplica::commit_statistics(const std::vector<StageReplica*>& replicas, int share, int shares) {
  for (auto layer = as_index(share); layer < layers_.size(); layer += as_index(shares)) {
    if (!layers_[layer].layer->has_batch_statistics()) continue;
    std::map<int, std::vector<BatchStatistics>> by_microbatch;
    for (StageReplica* replica : replicas) by_microbatch.merge(replica->statistics_[layer]);
    std::vector<std::vector<BatchStatistics>> by_norm;
    for (auto& [microbatch, norms] : by_microbatch) {
      by_norm.resize(norms.size());
      for (std::size_t norm = 0; norm < norms.size(); ++norm) by_norm[norm].push_back(std::move(norms[norm]));
    }
    layers_[layer].layer->commit_statistics(by_norm);
    for (StageReplica* replica : replicas) replica->statistics_[layer].clear();
  }
}

// The first tensor says what the others are: layer, micro-batch, number of norms and each norm's count, repeated for all layers and
// micro-batches. Each norm's mean and variance follow.
Tensors StageReplica::take_statistics() {
  std::vector<std::int64_t> index;
  Tensors taken{at::Tensor()};
  for (std::size_t layer = 0; layer < statistics_.size(); ++layer)
    for (auto& [microbatch, norms] : std::exchange(statistics_[layer], {})) {
      index.insert(index.end(), {static_cast<std::int64_t>(layer), microbatch, std::ssize(norms)});
      for (const BatchStatistics& norm : norms) {
        index.push_back(norm.count);
        taken.push_back(norm.mean);
        taken.push_back(norm.variance);
      }
    }
  taken.front() = at::tensor(at::ArrayRef<std::int64_t>(index), at::kLong);
  return taken;
}

void StageReplica::add_statistics(const Tensors& taken) {
  const at::Tensor& index = taken.at(0);
  std::int64_t at = 0;
  std::size_t tensor = 1;
  const auto next = [&] { return index[at++].item<std::int64_t>(); };
  while (at < index.numel()) {
    const std::int64_t layer = next();
    const auto microbatch = static_cast<int>(next());
    std::vector<BatchStatistics>& norms = statistics_.at(as_index(layer))[microbatch];
    for (std::int64_t left = next(); left > 0; --left) {
      const std::int64_t count = next();
      norms.push_back({taken.at(tensor), taken.at(tensor + 1), count});
      tensor += 2;
    }
  }
}

}  // namespace mptune::tuner

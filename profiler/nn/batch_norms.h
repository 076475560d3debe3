#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <torch/types.h>

#include "mptune/profiler/model/batch_statistics.h"
#include "mptune/profiler/model/layer.h"

namespace torch::nn {
class Module;
}

namespace mptune {

/// The batch norms inside one module whose running statistics are committed once per batch instead of at every forward.
///
/// While a forward runs under `record`, every norm writes into fresh tensors with momentum 1, so that they end up holding this
/// micro-batch's own mean and unbiased variance; the module's buffers keep the committed values all the time.
/// A norm's values per channel are not in its result. They are seen once per input shape by observing the calls of batch_norm
/// (a thread-local callback of LibTorch), then remembered: the steady state pays nothing.
class BatchNorms {
 public:
  /// Finds torch::nn::BatchNorm1d, 2d, 3d and what derives from them, depth first. `root` must outlive this object.
  explicit BatchNorms(torch::nn::Module& root);

  /// True if there is a norm that normalises by its batch, with or without running statistics.
  [[nodiscard]] bool any() const { return any_; }

  /// Runs `forward` and keeps its statistics. Throws Error if one norm was called twice: the second call would hide the first.
  [[nodiscard]] Tensors record(const Tensors& inputs, const std::function<Tensors(const Tensors&)>& forward);
  /// Runs `forward` without any statistics.
  [[nodiscard]] Tensors skip(const Tensors& inputs, const std::function<Tensors(const Tensors&)>& forward);

  [[nodiscard]] std::vector<BatchStatistics> take() { return std::exchange(taken_, {}); }
  void commit(const std::vector<std::vector<BatchStatistics>>& by_norm);

 private:
  struct Norm {
    std::string name;
    torch::nn::Module* module = nullptr;
    at::Tensor* mean = nullptr;
    at::Tensor* variance = nullptr;
    at::Tensor* tracked = nullptr;
    std::optional<double>* momentum = nullptr;
  };
  struct Counts {
    std::vector<std::int64_t> input_sizes;
    std::vector<std::int64_t> by_norm;
  };
  class Swap;

  template <class Impl>
  void add(const std::string& name, torch::nn::Module& module);
  const Counts* known_counts(const std::vector<std::int64_t>& sizes) const;
  Tensors observe(const Tensors& inputs, const std::function<Tensors(const Tensors&)>& forward, Counts& counts);

  bool any_ = false;
  std::vector<Norm> norms_;
  std::vector<Counts> counts_;
  std::vector<BatchStatistics> taken_;
};

}  // namespace mptune

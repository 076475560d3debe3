#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <torch/types.h>

#include "profiler/model/layers/batch_statistics.h"
#include "profiler/model/layers/layer.h"

namespace torch::nn {
class Module;
}

namespace mptune::profiler {

/// Batch norms inside a module. Their running statistics are committed once per batch instead of at every forward.
///
/// During record(), every norm writes into fresh tensors with momentum 1, which then hold the mean and unbiased variance of this
/// micro-batch. The module's buffers always hold the committed values.
/// The number of values per channel is observed once per input shape, by a thread-local callback of LibTorch for batch_norm, and cached.
class BatchNorms {
 public:
  /// Finds torch::nn::BatchNorm1d, 2d, 3d and classes derived from them, depth first. `root` must outlive this object.
  explicit BatchNorms(torch::nn::Module& root);

  /// True if a norm normalises by batch statistics, with or without running statistics.
  [[nodiscard]] bool any() const { return any_; }

  /// Runs `forward` and stores its statistics for take(). Throws Error if one norm was called twice: the second call overwrites the first.
  [[nodiscard]] Tensors record(const Tensors& inputs, const std::function<Tensors(const Tensors&)>& forward);
  /// Runs `forward` without storing statistics.
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

}  // namespace mptune::profiler

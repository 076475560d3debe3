#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include <torch/csrc/jit/api/module.h>

#include "mptune/profiler/model/batch_statistics.h"

namespace mptune {

/// The batch norms inside one TorchScript module whose running statistics are committed once per batch: what BatchNorms is to torch::nn.
///
/// A scripted norm's momentum is a constant of its code, so the operator itself is given other arguments: while a forward runs here, in
/// this thread, aten::batch_norm writes this micro-batch's mean and variance into fresh tensors (momentum 1) instead of the running ones.
/// All other calls in the process go to LibTorch's own kernel, unchanged. Counters of batches are copies for the length of a forward.
class ScriptNorms {
 public:
  /// Finds modules with running_mean and running_var, depth first.
  explicit ScriptNorms(const torch::jit::Module& root);

  /// True if the module's forward normalises by its batch, with or without running statistics.
  [[nodiscard]] bool any() const { return any_; }
  /// Runs `forward` and keeps its statistics, or none where it was run before. Throws Error if one norm was called twice.
  [[nodiscard]] Tensors run(const Tensors& inputs, const std::function<Tensors(const Tensors&)>& forward, bool recomputing);
  [[nodiscard]] std::vector<BatchStatistics> take() { return std::exchange(taken_, {}); }
  void commit(const std::vector<std::vector<BatchStatistics>>& by_norm);

 private:
  struct Norm {
    std::string name;
    torch::jit::Module module;
    RunningStatistics running;
  };
  class CountersApart;

  bool any_ = false;
  std::vector<Norm> norms_;
  std::vector<BatchStatistics> taken_;
};

}  // namespace mptune

#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include <torch/csrc/jit/api/module.h>

#include "profiler/model/layers/batch_statistics.h"

namespace mptune::profiler {

/// Batch norms inside a TorchScript module, with running statistics that are committed once per batch, like BatchNorms for torch::nn.
///
/// A scripted norm's momentum is a constant in its code, so the operator is overridden: during run(), aten::batch_norm in this thread
/// writes the micro-batch's mean and variance into fresh tensors (momentum 1). All other calls in the process use LibTorch's own kernel.
/// During run(), batch counters are copies.
class ScriptNorms {
 public:
  /// Finds modules with running_mean and running_var, depth first.
  explicit ScriptNorms(const torch::jit::Module& root);

  /// True if the module's forward normalises by batch statistics, with or without running statistics.
  [[nodiscard]] bool any() const { return any_; }
  /// Runs `forward` and stores its statistics for take(), unless it recomputes or evaluates. Evaluations normalise by the running
  /// statistics, also where a traced module says otherwise. Throws Error if one norm was called twice.
  [[nodiscard]] Tensors run(const Tensors& inputs, const std::function<Tensors(const Tensors&)>& forward, const RunContext& context);
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

}  // namespace mptune::profiler

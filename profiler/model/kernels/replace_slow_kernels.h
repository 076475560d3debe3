#pragma once

#include <cstdint>

namespace mptune::profiler {

/// While a scope is on, convolutions of its thread that LibTorch would compute by a slow kernel are computed by oneDNN, forward and
/// backward. Sums are rounded differently. Outside of a scope LibTorch chooses; scopes nest, and the innermost counts.
/// - What is slow: on one intra-op thread LibTorch 2.11 leaves oneDNN for float32 convolutions on CPU whose last two kernel dimensions are
///   1, with stride and dilation 1 and fewer than 16 samples. LibTorch itself is asked for the kernel, so other versions are followed.
/// - What is left alone: convolutions that oneDNN would not take either, for example one sample of at most 20480 elements with one group.
/// - A backward needs no scope: its nodes keep the kernel of their forward.
/// Covers every caller of LibTorch's operators: torch::nn, TorchScript, exported programs, plug-ins.
class ReplaceSlowKernels {
 public:
  /// The first scope of the process that is on overrides the convolution operators (process-wide, thread-safe).
  explicit ReplaceSlowKernels(bool on);
  ~ReplaceSlowKernels();
  ReplaceSlowKernels(const ReplaceSlowKernels&) = delete;
  ReplaceSlowKernels& operator=(const ReplaceSlowKernels&) = delete;

  /// Returns the number of convolutions replaced in this thread since the scope began.
  [[nodiscard]] std::int64_t replaced() const;

 private:
  bool outer_;
  std::int64_t before_;
};

}  // namespace mptune::profiler

#pragma once

#include <string>
#include <utility>

#include <torch/types.h>

#include "tuner/trial/check_result.h"

namespace mptune::tuner {

/// Returns the largest difference of two tensors divided by the largest value of `theirs`, or by `least_scale` where that is more. Returns
/// 0 for equal bits (two NaN are equal), and infinity where shapes or types differ or only one of two numbers is finite. An undefined
/// tensor counts as all zeros.
[[nodiscard]] double relative_difference(const at::Tensor& ours, const at::Tensor& theirs, double least_scale = 0);

/// Sets this thread's number of intra-op threads while it lives. Another number would change the order of sums.
class ThreadCount {
 public:
  explicit ThreadCount(int threads);
  ~ThreadCount();
  ThreadCount(const ThreadCount&) = delete;
  ThreadCount& operator=(const ThreadCount&) = delete;

 private:
  int before_;
};

/// Collects the comparisons of one part of a check. The first added tensor that differs becomes the part's difference.
class ComparedTensors {
 public:
  /// `part` says what is compared and what is allowed.
  explicit ComparedTensors(CheckPart part) : part_(std::move(part)) {}

  /// Compares one tensor. `where` names it; its `relative` is ignored. `least_scale`: see relative_difference().
  void add(const CheckDifference& where, const at::Tensor& ours, const at::Tensor& theirs, double least_scale = 0);

  [[nodiscard]] bool differs() const { return part_.difference.has_value(); }
  [[nodiscard]] CheckPart& part() { return part_; }

 private:
  CheckPart part_;
};

}  // namespace mptune::tuner

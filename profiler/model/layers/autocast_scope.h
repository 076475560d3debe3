#pragma once

#include <torch/types.h>

#include "profiler/base/precision.h"

namespace mptune::profiler {

/// Turns on autocast for the calling thread on CPUs and GPUs while it lives, as torch.autocast(dtype=...) in Python; does nothing for
/// float32. Within it, weights are converted anew for every use, so that gradients of a weight with several uses are added in float32.
class AutocastScope {
 public:
  explicit AutocastScope(Precision precision);
  ~AutocastScope();
  AutocastScope(const AutocastScope&) = delete;
  AutocastScope& operator=(const AutocastScope&) = delete;

 private:
  struct Before {
    bool enabled = false;
    at::ScalarType type = at::kFloat;
  };
  bool active_;
  bool cached_ = false;
  Before cpu_, cuda_;
};

/// Returns the type that products are computed in.
[[nodiscard]] at::ScalarType computed_type(Precision precision);

}  // namespace mptune::profiler

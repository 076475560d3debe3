#include "profiler/model/layers/autocast_scope.h"

#include <ATen/autocast_mode.h>

namespace mptune::profiler {

AutocastScope::AutocastScope(Precision precision) : active_(precision != Precision::float32) {
  if (!active_) return;
  const auto enter = [&](at::DeviceType device, Before& before) {
    before = {at::autocast::is_autocast_enabled(device), at::autocast::get_autocast_dtype(device)};
    at::autocast::set_autocast_dtype(device, computed_type(precision));
    at::autocast::set_autocast_enabled(device, true);
  };
  enter(at::kCPU, cpu_);
  enter(at::kCUDA, cuda_);
  // The cache is shared by all threads, and its entries are in the autograd graph of the thread that made them.
  cached_ = at::autocast::is_autocast_cache_enabled();
  at::autocast::set_autocast_cache_enabled(false);
}

AutocastScope::~AutocastScope() {
  if (!active_) return;
  const auto leave = [](at::DeviceType device, const Before& before) {
    at::autocast::set_autocast_enabled(device, before.enabled);
    at::autocast::set_autocast_dtype(device, before.type);
  };
  leave(at::kCPU, cpu_);
  leave(at::kCUDA, cuda_);
  at::autocast::set_autocast_cache_enabled(cached_);
}

at::ScalarType computed_type(Precision precision) {
  switch (precision) {
    case Precision::float32:
      return at::kFloat;
    case Precision::bf16:
      return at::kBFloat16;
    case Precision::fp16:
      return at::kHalf;
  }
  return at::kFloat;
}

}  // namespace mptune::profiler

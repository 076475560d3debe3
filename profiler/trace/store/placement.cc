#include "profiler/trace/store/placement.h"

#include <algorithm>

#include "profiler/base/index.h"

namespace mptune::profiler {

Placement::Placement(const Trace& trace) : trace_(trace), contexts_(trace.devices.size(), -1) {
  // In Nsight's exports 7 is the default stream of the first context.
  constexpr std::int64_t kDefaultStream = 7;
  std::int64_t free_context = 1;
  first_stream_ = kDefaultStream;
  for (const Kernel& kernel : trace.kernels) {
    free_context = std::max(free_context, std::int64_t{kernel.context} + 1);
    first_stream_ = std::max(first_stream_, std::int64_t{kernel.stream} + 1);
  }
  for (const Event& event : trace.events) {
    const Kernel* kernel = kernel_of(trace, event);
    if (kernel == nullptr) continue;
    std::int64_t& context = contexts_[as_index(event.device)];
    if (context < 0) context = kernel->context;
  }
  for (std::size_t d = 0; d < contexts_.size(); ++d)
    if (contexts_[d] < 0) contexts_[d] = free_context + static_cast<std::int64_t>(d);
}

std::int64_t Placement::context(int device) const {
  return device < 0 ? 0 : contexts_[as_index(device)];
}

// Lanes are below 256, so no two lanes share a stream.
Place Placement::unrecorded(int device, int lane) const {
  return {device, context(device), first_stream_ + 256 * static_cast<std::int64_t>(device) + lane};
}

Place Placement::operator()(const Event& event) const {
  const Kernel* kernel = kernel_of(trace_, event);
  return kernel == nullptr ? unrecorded(event.device, event.lane) : Place{event.device, kernel->context, kernel->stream};
}

std::set<Place> Placement::all() const {
  std::set<Place> places;
  for (int d = 0; d < static_cast<int>(trace_.devices.size()); ++d) places.insert(unrecorded(d, kComputeLane));
  for (const Event& event : trace_.events) places.insert((*this)(event));
  return places;
}

const Kernel* kernel_of(const Trace& trace, const Event& event) {
  return is_compute(event.kind) && event.detail >= 0 ? &trace.kernels[as_index(event.detail)] : nullptr;
}

bool has_kernel_row(EventKind kind) {
  return is_compute(kind) && kind != EventKind::memset;
}

}  // namespace mptune::profiler

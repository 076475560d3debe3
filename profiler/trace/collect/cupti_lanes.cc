#include "profiler/trace/collect/cupti_lanes.h"

#include <algorithm>
#include <utility>

#include "profiler/base/device_spec.h"
#include "profiler/base/index.h"
#include "profiler/trace/values/kernel_names.h"

namespace mptune::profiler {

CuptiLanes::CuptiLanes(const CuptiRecords& records, const std::vector<TraceDevice>& devices, Trace& trace)
    : records_(records), trace_(trace), state_(devices.size()) {
  trace.devices = devices;
  for (std::size_t i = 0; i < devices.size(); ++i) devices_by_name_[devices[i].name] = static_cast<int>(i);
  assign_busiest_streams();
}

int CuptiLanes::device(std::uint32_t device) {
  const std::string name = gpu_name(device);
  const auto [found, added] = devices_by_name_.try_emplace(name, static_cast<int>(trace_.devices.size()));
  if (!added) return found->second;
  TraceDevice traced{.name = name, .description = "CUDA device"};
  for (const CuptiDevice& known : records_.devices) {
    if (known.device != device) continue;
    if (!known.name.empty()) traced.description = known.name;
    traced.cores = known.multiprocessors;
    traced.memory_bytes = known.memory_bytes;
  }
  trace_.devices.push_back(std::move(traced));
  state_.emplace_back();
  return found->second;
}

// CUPTI does not tell which stream is the compute stream. It is taken to be the one whose kernels take longest, not counting NCCL's
// kernels, whose time includes waiting.
void CuptiLanes::assign_busiest_streams() {
  std::map<Stream, std::int64_t> time_of;
  for (const CuptiKernel& kernel : records_.kernels)
    if (!is_mangled_nccl_kernel(kernel.name == nullptr ? "" : kernel.name))
      time_of[{kernel.work.device, kernel.work.context, kernel.work.stream}] += kernel.work.end - kernel.work.start;
  std::vector<std::pair<std::int64_t, Stream>> busiest;
  for (const auto& [stream, time] : time_of) busiest.emplace_back(-time, stream);
  std::sort(busiest.begin(), busiest.end());
  for (const auto& [time, stream] : busiest) {
    const int on = device(std::get<0>(stream));
    Device& state = state_.at(as_index(on));
    if (state.has_compute) continue;
    state.has_compute = true;
    assigned_[stream] = {on, kComputeLane};
  }
}

CuptiLanes::Assignment CuptiLanes::assigned(const CuptiWork& work) {
  const Stream stream{work.device, work.context, work.stream};
  if (const auto found = assigned_.find(stream); found != assigned_.end()) return found->second;
  const int on = device(work.device);
  int& next = state_.at(as_index(on)).next_stream;
  const int lane = next;
  next = std::min(next + 1, kLanes - 1);
  return assigned_[stream] = {on, lane};
}

int CuptiLanes::take(int device, int wanted, Nanoseconds start, Nanoseconds end) {
  Device& state = state_.at(as_index(device));
  const auto is_free = [&](int lane) { return state.busy_until[as_index(lane)] <= start; };
  int lane = wanted;
  if (lane < 0 || !is_free(lane)) {
    lane = kLanes - 1;
    while (lane >= state.next_stream && !is_free(lane)) --lane;
    if (lane < state.next_stream) return -1;
  }
  state.busy_until[as_index(lane)] = end;
  return lane;
}

}  // namespace mptune::profiler

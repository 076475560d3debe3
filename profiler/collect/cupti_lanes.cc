#include "mptune/profiler/collect/cupti_lanes.h"

#include <algorithm>

namespace mptune {

CuptiLanes::CuptiLanes(const CuptiRecords& records, const CuptiContext& context, Trace& trace)
    : records_(records), context_(context), trace_(trace), state_(context.devices.size()) {
  trace.devices = context.devices;
  for (const CuptiPlace& place : context.places) {
    if (place.lane == kComputeLane) state_.at(static_cast<std::size_t>(place.trace_device)).has_compute = true;
  }
  for (std::size_t i = 0; i < trace.devices.size(); ++i) devices_by_name_[trace.devices[i].name] = static_cast<int>(i);
  seat_busiest_streams(records);
}

const CuptiPlace* CuptiLanes::place_of(const Stream& stream) const {
  const auto [device, context, number] = stream;
  const auto exactness = [](const CuptiPlace& place) { return (place.stream >= 0 ? 2 : 0) + (place.context >= 0 ? 1 : 0); };
  const CuptiPlace* best = nullptr;
  for (const CuptiPlace& place : context_.places) {
    if (place.device != device) continue;
    if (place.context >= 0 && place.context != context) continue;
    if (place.stream >= 0 && place.stream != number) continue;
    if (best == nullptr || exactness(place) > exactness(*best)) best = &place;
  }
  return best;
}

int CuptiLanes::device(std::uint32_t device, std::uint32_t context) {
  const CuptiPlace* best = nullptr;
  for (const CuptiPlace& place : context_.places) {
    if (place.device != device) continue;
    if (best == nullptr || place.context == context) best = &place;
  }
  return best != nullptr ? best->trace_device : device_named("cuda:" + std::to_string(device), device);
}

int CuptiLanes::device_named(const std::string& name, std::uint32_t device) {
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

int CuptiLanes::device_of(const Stream& stream, const CuptiPlace* place) {
  return place != nullptr ? place->trace_device : device(std::get<0>(stream), std::get<1>(stream));
}

// Where nobody says which stream computes, it is the one whose kernels take longest.
void CuptiLanes::seat_busiest_streams(const CuptiRecords& records) {
  std::map<Stream, std::int64_t> time_of;
  for (const CuptiKernel& kernel : records.kernels)
    time_of[{kernel.work.device, kernel.work.context, kernel.work.stream}] += kernel.work.end - kernel.work.start;
  std::vector<std::pair<std::int64_t, Stream>> busiest;
  for (const auto& [stream, time] : time_of) busiest.emplace_back(-time, stream);
  std::sort(busiest.begin(), busiest.end());
  for (const auto& [time, stream] : busiest) {
    const CuptiPlace* place = place_of(stream);
    if (place != nullptr && place->lane >= 0) continue;
    const int on = device_of(stream, place);
    Device& state = state_.at(static_cast<std::size_t>(on));
    if (state.has_compute) continue;
    state.has_compute = true;
    seats_[stream] = {on, kComputeLane};
  }
}

CuptiLanes::Seat CuptiLanes::seat(const CuptiWork& work) {
  const Stream stream{work.device, work.context, work.stream};
  if (const auto found = seats_.find(stream); found != seats_.end()) return found->second;
  const CuptiPlace* place = place_of(stream);
  const int on = device_of(stream, place);
  int lane = place != nullptr ? place->lane : -1;
  if (lane < 0) {
    int& next = state_.at(static_cast<std::size_t>(on)).next_stream;
    lane = next;
    next = std::min(next + 1, kLanes - 1);
  }
  return seats_[stream] = {on, lane};
}

int CuptiLanes::take(int device, int wanted, Nanoseconds start, Nanoseconds end) {
  Device& state = state_.at(static_cast<std::size_t>(device));
  const auto is_free = [&](int lane) { return state.busy_until[static_cast<std::size_t>(lane)] <= start; };
  int lane = wanted;
  if (lane < 0 || !is_free(lane)) {
    lane = kLanes - 1;
    while (lane >= state.next_stream && !is_free(lane)) --lane;
    if (lane < state.next_stream) return -1;
  }
  state.busy_until[static_cast<std::size_t>(lane)] = end;
  return lane;
}

}  // namespace mptune

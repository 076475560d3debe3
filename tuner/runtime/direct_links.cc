#include "tuner/runtime/direct_links.h"

#include <ATen/ATen.h>

#include <algorithm>

#include "profiler/base/index.h"
#include "tuner/distributed/device_connections.h"

namespace mptune::tuner {
namespace {

template <class Communicators, class Key>
profiler::GpuCommunicator* found_in(const Communicators& communicators, const Key& key) {
  const auto found = communicators.find(key);
  return found == communicators.end() ? nullptr : found->second.get();
}

/// The first message waits for the other end in the host's thread, as no later one does.
void send_first(profiler::GpuCommunicator& communicator, Device& device, bool sends) {
  const at::Tensor byte = at::zeros({1}, at::kByte);
  if (sends)
    communicator.send(1, {device.empty_like(byte)});
  else
    wait_for(communicator.receive(0, {byte}).there);
}

}  // namespace

DirectLinks::DirectLinks(RankStreams& streams, const Wanted& wanted, int tag) {
  DeviceConnections connections(streams, wanted.devices, tag, wanted.connector);
  const int own = streams.group().rank();
  const auto rank_of = [&](int device) { return wanted.devices[as_index(device)]->spec().rank; };
  const auto connect = [&](const std::vector<int>& devices) {
    const bool takes_part = std::ranges::any_of(devices, [&](int device) { return rank_of(device) == own; });
    auto communicator = takes_part ? connections.connect(devices) : nullptr;
    if (communicator)
      for (const int device : devices)
        if (rank_of(device) != own) connected_ranks_.insert(rank_of(device));
    return communicator;
  };
  for (const auto& [source, destination] : wanted.messages)
    if (auto communicator = connect({source, destination})) {
      const bool sends = rank_of(source) == own;
      send_first(*communicator, *wanted.devices[as_index(sends ? source : destination)], sends);
      messages_[{source, destination}] = std::move(communicator);
    }
  for (const auto& [stage, devices] : wanted.sums)
    if (auto communicator = connect(devices)) {
      const auto here = std::ranges::find_if(devices, [&](int device) { return rank_of(device) == own; });
      communicator->all_reduce(wanted.devices[as_index(*here)]->empty_like(at::zeros({1}, at::kFloat)));
      sums_[stage] = std::move(communicator);
    }
}

profiler::GpuCommunicator* DirectLinks::between(int source, int destination) const {
  return found_in(messages_, std::pair(source, destination));
}

profiler::GpuCommunicator* DirectLinks::sum_of(int stage) const {
  return found_in(sums_, stage);
}

void DirectLinks::abort() const {
  for (const auto& [ends, communicator] : messages_) communicator->abort();
  for (const auto& [stage, communicator] : sums_) communicator->abort();
}

}  // namespace mptune::tuner

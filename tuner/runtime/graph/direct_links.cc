#include "tuner/runtime/graph/direct_links.h"

#include <ATen/ATen.h>

#include <algorithm>

#include "profiler/base/index.h"
#include "tuner/runtime/between/device_connections.h"

namespace mptune::tuner {
namespace {

template <class Communicators, class Key>
profiler::GpuCommunicator* found_in(const Communicators& communicators, const Key& key) {
  const auto found = communicators.find(key);
  return found == communicators.end() ? nullptr : found->second.get();
}

}  // namespace

DirectLinks::DirectLinks(RankStreams& streams, const Wanted& wanted, int tag) {
  DeviceConnections connections(streams, wanted.devices, tag, wanted.connector);
  const int own = streams.group().rank();
  const auto rank_of = [&](int device) { return wanted.devices[as_index(device)]->spec().rank; };
  const auto takes_part = [&](const std::vector<int>& devices) {
    return std::ranges::any_of(devices, [&](int device) { return rank_of(device) == own; });
  };
  const auto add_ranks = [&](const std::vector<int>& devices) {
    for (const int device : devices)
      if (rank_of(device) != own) connected_ranks_.insert(rank_of(device));
  };
  for (const auto& [source, destination] : wanted.messages) {
    if (!takes_part({source, destination})) continue;
    if (auto communicator = connections.connect_direction(source, destination)) {
      messages_[{source, destination}] = std::move(communicator);
      add_ranks({source, destination});
    }
  }
  for (const auto& [stage, devices] : wanted.sums) {
    if (!takes_part(devices)) continue;
    if (auto communicator = connections.connect(devices)) {
      const auto here = std::ranges::find_if(devices, [&](int device) { return rank_of(device) == own; });
      communicator->all_reduce(wanted.devices[as_index(*here)]->empty_like(at::zeros({1}, at::kFloat)));
      sums_[stage] = std::move(communicator);
      add_ranks(devices);
    }
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

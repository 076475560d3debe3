#pragma once

#include <map>
#include <memory>
#include <set>
#include <utility>
#include <vector>

#include "profiler/device/gpu_communicator.h"
#include "tuner/runtime/between/rank_streams.h"

namespace mptune::tuner {

/// The connections over which a plan's devices of different ranks exchange tensors without the host's memory: GPUs over NCCL. Each
/// direction of a link has a communicator of its own, so that a message does not wait for one that goes the other way.
class DirectLinks {
 public:
  /// The connections to make. Every rank passes the same, and the constructor waits for the other ranks.
  struct Wanted {
    std::vector<std::shared_ptr<Device>> devices;       ///< of all ranks
    std::set<std::pair<int, int>> messages;             ///< between devices of different ranks: source, destination
    std::map<int, std::vector<int>> sums;               ///< by stage: devices of different ranks whose gradients are all-reduced
    const profiler::GpuConnector* connector = nullptr;  ///< null: GPUs are not connected
  };
  DirectLinks(RankStreams& streams, const Wanted& wanted, int tag);

  /// The communicator for messages from one device, member 0, to another, member 1, of which one is here. Null where they travel through
  /// the host's memory.
  [[nodiscard]] profiler::GpuCommunicator* between(int source, int destination) const;
  /// The communicator for a stage's all-reduce. Null where the gradients travel through the host's memory.
  [[nodiscard]] profiler::GpuCommunicator* sum_of(int stage) const;
  /// Returns the other ranks to which this one has communicators.
  [[nodiscard]] std::vector<int> connected_ranks() const { return {connected_ranks_.begin(), connected_ranks_.end()}; }
  void abort() const;

 private:
  std::map<std::pair<int, int>, std::shared_ptr<profiler::GpuCommunicator>> messages_;
  std::map<int, std::shared_ptr<profiler::GpuCommunicator>> sums_;
  std::set<int> connected_ranks_;
};

}  // namespace mptune::tuner

#pragma once

#include <memory>
#include <string>
#include <vector>

#include "profiler/device/gpu_communicator.h"
#include "tuner/runtime/between/rank_streams.h"

namespace mptune::tuner {

/// Makes communicators between devices of different ranks, where these can do without the host's memory: between whole GPUs, each another
/// one. All ranks make one of these, of the same devices, and ask for the same communicators in the same order.
class DeviceConnections {
 public:
  /// Waits for the other ranks. `devices`: of all ranks, by index. `tag`: of streams that carry one thing at a time. `connector`: null
  /// where there are no GPUs. Throws what RankGroup::receive() throws.
  DeviceConnections(RankStreams& streams, std::vector<std::shared_ptr<Device>> devices, int tag, const profiler::GpuConnector* connector);

  /// A communicator of these devices, of which this rank has one; member i is devices[i]. Waits for the other members. Null where one of
  /// them can have none, or two are the same GPU.
  [[nodiscard]] std::shared_ptr<profiler::GpuCommunicator> connect(const std::vector<int>& devices);
  /// That of messages from one device to another, after a first one: later ones do not wait for the other end in the host's thread.
  [[nodiscard]] std::shared_ptr<profiler::GpuCommunicator> connect_direction(int source, int destination);
  /// False where connect() gives null.
  [[nodiscard]] bool can_connect(const std::vector<int>& devices) const;

 private:
  [[nodiscard]] bool is_here(const Device& device) const;
  [[nodiscard]] std::string id_for(const std::vector<int>& devices, bool first);

  RankStreams& streams_;
  std::vector<std::shared_ptr<Device>> devices_;
  int tag_;
  const profiler::GpuConnector* connector_;
  std::vector<std::string> identities_;  ///< by device; empty: it can't be connected
};

}  // namespace mptune::tuner

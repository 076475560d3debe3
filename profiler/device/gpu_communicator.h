#pragma once

#include <memory>
#include <string>
#include <vector>

#include "profiler/device/copier.h"
#include "profiler/device/device.h"
#include "profiler/device/moment.h"

namespace mptune::profiler {

/// Devices of several processes, one of each, that exchange tensors without the host's memory: GPUs over NCCL. Every process has its own
/// object. A member receives what another sends in the same order, in tensors of the same sizes: NCCL knows no tags. Neither blocks host
/// threads to wait for the other, except for the first message between the two and the first sum: NCCL connects them then. Thread-safe,
/// except that threads must keep this order.
class GpuCommunicator {
 public:
  virtual ~GpuCommunicator() = default;
  /// Sends one-dimensional contiguous tensors of this device to member `to`, once the compute lane has done what it was given so far. The
  /// tensors are kept until they have been read. Returns the moment when they have been read. Throws c10::Error.
  virtual MomentPtr send(int to, const std::vector<at::Tensor>& tensors) = 0;
  /// Receives tensors of these sizes and types from member `from`, into communication buffers (see Copier). Throws c10::Error and
  /// c10::OutOfMemoryError.
  [[nodiscard]] virtual Copied receive(int from, const std::vector<at::Tensor>& likes) = 0;
  /// Adds up element by element what all members give, into `numbers`: float or double, contiguous, of this device. This is part of the
  /// compute lane's work; every member gets the same bits. Compute thread only. Throws c10::Error.
  virtual void all_reduce(const at::Tensor& numbers) = 0;
  /// Ends all waits for other members on this device. Nothing is sent or received from now on. Any thread may call it.
  virtual void abort() noexcept = 0;
};

/// Makes communicators.
class GpuConnector {
 public:
  virtual ~GpuConnector() = default;
  /// Returns the same line of text for the same physical device in every process; "" for a device that can have no communicator, which is
  /// any device but a whole GPU.
  [[nodiscard]] virtual std::string identity_of(const Device& device) const = 0;
  /// Makes the id of a new communicator: one member calls this and tells the others. Throws c10::Error.
  [[nodiscard]] virtual std::string new_id() const = 0;
  /// Waits until all `members` of this id have called it, each with another `member` and another physical device. Throws c10::Error.
  [[nodiscard]] virtual std::shared_ptr<GpuCommunicator> connect(const std::shared_ptr<Device>& device, const std::string& id, int members,
                                                                 int member) const = 0;
};

/// Returns NCCL's connector; null in a process without GPUs.
[[nodiscard]] const GpuConnector* nccl_connector();

}  // namespace mptune::profiler

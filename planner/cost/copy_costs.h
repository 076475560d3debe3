#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "profiler/trace/values/network.h"
#include "profiler/trace/values/profile.h"

namespace mptune {

/// What copies cost: those from device to device, and those between a device's memory and the host's. Devices are indices into the
/// profile's.
class CopyCosts {
 public:
  /// Copies what it needs of the profile. Throws Error for links of devices that the profile does not list, for a curve that is not times
  /// by ascending sizes, and for a network that does not say on which host each device is.
  explicit CopyCosts(const Profile& profile);

  /// Returns the seconds of a copy of `bytes` from device to device; 0 on one device. Throws Error for a link that the profile does not
  /// know.
  [[nodiscard]] double seconds(int source, int destination, std::int64_t bytes) const;
  /// Returns the index of the medium that this link shares with others; their copies queue on it in the order they are ready. -1: not
  /// shared. Throws Error for a link that the profile does not know.
  [[nodiscard]] int medium(int source, int destination) const;
  /// True if the sending device computes nothing while it copies; false for a link that the profile does not know, and under another
  /// runtime's rules.
  [[nodiscard]] bool sender_copies(int source, int destination) const;
  /// Returns the costs of a link. Throws Error for a link that the profile does not know. Requires: a profile without a network.
  [[nodiscard]] const LinkCost& link(int source, int destination) const;

  /// Returns the bytes that NCCL keeps on each of two GPUs of different ranks that send each other messages; 0 for other devices, or where
  /// they are not known.
  [[nodiscard]] std::int64_t communicator_bytes(int one, int other) const;
  /// True if any two devices have buffers of NCCL.
  [[nodiscard]] bool has_communicators() const { return has_communicators_; }

  /// True if copies between the device's memory and the host's were measured, both ways, and the device computes meanwhile.
  [[nodiscard]] bool can_offload(int device) const;
  /// Returns the seconds of a copy between the device's memory and the host's. Throws Error where it was not measured.
  [[nodiscard]] double host_seconds(int device, bool to_host, std::int64_t bytes) const;
  /// Returns the seconds by which a copy to or from the host delays what the device computes meanwhile.
  [[nodiscard]] double host_delay_seconds(int device, bool to_host, std::int64_t bytes) const;
  /// True if the device's compute thread makes the copies to or from the host.
  [[nodiscard]] bool makes_host_copies(int device, bool to_host) const;

 private:
  void add_link(const LinkCost& link);
  [[nodiscard]] const LinkCost* find_link(int source, int destination) const;
  [[nodiscard]] const HostCopies& host_copies(int device, bool to_host) const;

  std::string model_;
  std::vector<ProfileDevice> devices_;
  Network network_;
  bool senders_copy_ = true;     ///< false: another runtime sends, which leaves copies to its communication library
  std::vector<LinkCost> links_;  ///< empty with a network
  std::vector<int> link_of_;     ///< [source * devices + destination]: index into links_, -1: not known
  bool has_communicators_ = false;
};

}  // namespace mptune

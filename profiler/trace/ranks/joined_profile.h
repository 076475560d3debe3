#pragma once

#include <string>
#include <vector>

#include "profiler/trace/values/profile.h"

namespace mptune::profiler {

/// One direction between the host memories of two ranks, or between two devices. A message takes latency + bytes / bytes_per_second.
struct RankLink {
  int from = 0;  ///< rank, or device
  int to = 0;
  double latency_s = 0;
  double bytes_per_second = 0;
  bool shared = false;  ///< the link back uses the same medium (LinkCost::medium): messages both ways at once wait for each other
  std::int64_t communicator_bytes = 0;  ///< LinkCost::communicator_bytes
  bool operator==(const RankLink&) const = default;
};

/// What was measured on one host, for the devices of all ranks there.
struct HostProfile {
  Profile profile;
  std::vector<std::string> devices;  ///< by device of `profile`: its name among the ranks, "1@cuda:0"
};

/// Returns the profile of `devices`, which belong to several ranks, from what each host measured itself.
/// - Costs of layers are the ones measured on the device's host: each host has device classes of its own, named after its first rank,
///   except on the first host.
/// - Devices of one rank have the links that their host measured. Messages between ranks go through host memory, over `links`, and on GPUs
///   are copied there and back as well; two devices with a link in `direct` use that link, without host memory. Links between two ranks
///   have a medium of their own, one for both directions if these share it.
/// - What does not depend on the device (layers, edges) is the first host's; the slowdown beside others is the hosts' geometric mean.
/// Throws Error (environment): the hosts measured different models; no link between two ranks. Requires: each device on one host.
[[nodiscard]] Profile join_profiles(const std::vector<HostProfile>& hosts, const std::vector<std::string>& devices,
                                    const std::vector<RankLink>& links, const std::vector<RankLink>& direct = {});

}  // namespace mptune::profiler

#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "profiler/device/gpu_communicator.h"
#include "profiler/trace/ranks/joined_profile.h"
#include "tuner/runtime/between/rank_streams.h"

namespace mptune::tuner {

/// A link with the times that say whether it is shared.
struct MeasuredRankLink : profiler::RankLink {
  std::int64_t largest_bytes = 0;  ///< of the messages that were measured
  double alone_s = 0;              ///< time of a message of that size
  double both_at_once_s = 0;       ///< the same while the link back carries its largest message: until both have arrived
  bool operator==(const MeasuredRankLink&) const = default;
};

/// Measures the links between all ranks (see link_end.h), one pair of ranks at a time. Every rank calls it, and gets all links, ordered by
/// `from`, then `to`. A message is one tensor of host memory of up to 16 MiB, packed and unpacked as in training. `shared`: both at once
/// take closer to the sum of what they take alone than to the larger. Throws what RankGroup::receive() throws.
[[nodiscard]] std::vector<MeasuredRankLink> measure_rank_links(RankStreams& streams, int tag, int repeats = 9);
/// Measures the links between devices of different ranks that do without host memory (DeviceConnections). `devices`: those of all ranks;
/// `from` and `to` are indices in it. Messages are of up to `largest_bytes`. The memory that a link's communicator takes is measured as
/// half of what both directions take: nothing else may allocate on these GPUs meanwhile.
[[nodiscard]] std::vector<MeasuredRankLink> measure_direct_links(RankStreams& streams, const std::vector<std::shared_ptr<Device>>& devices,
                                                                 int tag, const profiler::GpuConnector* connector, int repeats = 9,
                                                                 std::int64_t largest_bytes = std::int64_t{256} << 20);

}  // namespace mptune::tuner

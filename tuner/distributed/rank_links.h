#pragma once

#include <cstdint>
#include <vector>

#include "profiler/ranks/joined_profile.h"
#include "tuner/distributed/rank_streams.h"

namespace mptune::tuner {

/// A link with the times that say whether it is shared.
struct MeasuredRankLink : profiler::RankLink {
  std::int64_t largest_bytes = 0;  ///< of the messages that were measured
  double alone_s = 0;              ///< time of a message of that size
  double both_at_once_s = 0;       ///< the same while the link back carries its largest message: until both have arrived
  bool operator==(const MeasuredRankLink&) const = default;
};

/// Measures the links between all ranks, one pair of ranks at a time. Every rank calls it, and gets all links, ordered by `from`, then
/// `to`. A message is one tensor of host memory, packed and unpacked as in training. Sizes: 4 KiB, four times as much, and so on up to 16
/// MiB; slow links get none above 1 MiB that would take longer than 0.1 s, and fewer repeats, at least 3. Times are medians. The time of a
/// message is that from sending until the short answer has come, less half of what an empty message takes there and back. `shared`: both at
/// once take closer to the sum of what they take alone than to the larger. Throws what RankGroup::receive() throws.
[[nodiscard]] std::vector<MeasuredRankLink> measure_rank_links(RankStreams& streams, int tag, int repeats = 9);

}  // namespace mptune::tuner

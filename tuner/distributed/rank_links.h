#pragma once

#include <vector>

#include "profiler/ranks/joined_profile.h"
#include "tuner/distributed/rank_streams.h"

namespace mptune::tuner {

/// Measures the links between all ranks, one pair after the other, with messages like those of training: packing and unpacking count.
/// Every rank calls it and gets all links, ordered pairs. The time of a message is that until the receiver's short answer has come, less
/// half of what a short message there and back takes. Uses the tags from `tag` to `tag` + 2.
/// A link's two directions are `shared` where large messages both ways at once take at least 1.5 times as long as the slower one alone.
/// On slow links no message above 1 MiB takes part that lasts longer than 0.1 s.
[[nodiscard]] std::vector<profiler::RankLink> measure_rank_links(RankStreams& streams, int tag);

}  // namespace mptune::tuner

#pragma once

#include <vector>

#include "profiler/trace/formats/text_input.h"
#include "profiler/trace/values/profile.h"

namespace mptune::profiler {

/// Reads a bandwidth table of Aceso's profiler (p2p_intra_node.csv). The first line holds message sizes ("MB" of 2^20 bytes, ascending),
/// the second one bandwidth per size ("GB/s" of 2^30 bytes).
/// Throws Error with the line: not two lines of equally many numbers, sizes not ascending, a number that is not positive and finite.
[[nodiscard]] std::vector<LinkPoint> read_bandwidth_table(TextInput& input);

}  // namespace mptune::profiler

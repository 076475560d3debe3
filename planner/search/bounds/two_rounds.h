#pragma once

#include <vector>

#include "planner/search/bounds/cuts_rater.h"

namespace mptune::planner {

/// Changes the cuts of two rounds of stages at once, as long as that makes them better. A round is a stage on each device in turn, in the
/// order of the first round or in the opposite one; other layouts have no rounds, and nothing changes. What a device works depends on where
/// its stages begin and end in both rounds, so the best pairs of places are found device by device, as in a shortest path. They are exact
/// for the sum of CutsRater except for copies, which stay those of the cuts before. Places are tried far apart first, where stages have
/// many layers. Cuts between two rounds stay where they are.
///
///     device        0     1     2     3
///     round v    |-----|-----|-----|-----|     a state: one place in round v and one in round w,
///                      ^ few places near the cut        both behind the same device
///     round w    |-----|-----|-----|-----|
///
/// `open` has the layers where stages may begin, ascending; `cuts` are some of these, ascending. Returns true if the cuts became better.
/// Takes O(d * p^4) for d devices and p places, which are fewer the more devices and rounds there are.
bool improve_two_rounds(CutsRater& rater, const std::vector<int>& devices, const std::vector<int>& open, std::vector<int>& cuts);

}  // namespace mptune::planner

#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

#include "profiler/base/index.h"

namespace mptune::testing {

/// Cuts (first layers of all stages but the first) by dynamic programming over the number of stages and the layer where they end.
/// `extend(value, first, last)` is the value of earlier stages plus a stage [first, last). Candidates are tried in ascending order of
/// `first`; one replaces the best so far if `replaces(value, best)`.
/// The cuts are optimal only if a better prefix never makes the whole worse. Requires: 1 <= stages <= layers.
template <typename Value, typename Extend, typename Replaces>
[[nodiscard]] std::vector<int> stage_program(int layers, int stages, const Value& none, Extend extend, Replaces replaces) {
  struct Entry {
    Value value{};
    int first = 0;  // layer of the last stage
  };
  std::vector<std::vector<Entry>> best(as_index(stages), std::vector<Entry>(as_index(layers) + 1));
  const auto at = [&](int stage, int last) -> Entry& { return best[as_index(stage)][as_index(last)]; };
  for (int last = 1; last <= layers; ++last) at(0, last).value = extend(none, 0, last);
  for (int stage = 1; stage < stages; ++stage) {
    for (int last = stage + 1; last <= layers; ++last) {
      for (int first = stage; first < last; ++first) {
        const Value value = extend(at(stage - 1, first).value, first, last);
        if (first == stage || replaces(value, at(stage, last).value)) at(stage, last) = {value, first};
      }
    }
  }
  std::vector<int> cuts;
  for (int stage = stages - 1, last = layers; stage > 0; --stage) {
    last = at(stage, last).first;
    cuts.push_back(last);
  }
  std::reverse(cuts.begin(), cuts.end());
  return cuts;
}

}  // namespace mptune::testing

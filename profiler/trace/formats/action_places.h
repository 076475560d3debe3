#pragma once

#include <utility>
#include <vector>

#include "profiler/trace/formats/action_times.h"

namespace mptune::profiler {

/// How the chunks of a model lie on the ranks of a pipeline.
struct ChunkMap {
  int ranks = 1;
  int chunks = 1;
  bool is_v = false;  ///< with two chunks: the second one runs through the ranks backwards

  [[nodiscard]] int stages() const { return ranks * chunks; }
  /// Returns the stage of a rank's chunk; -1 if the chunk is not known.
  [[nodiscard]] int stage(int rank, int chunk) const {
    if (chunk < 0) return -1;
    return is_v && chunk == 1 ? 2 * ranks - 1 - rank : chunk * ranks + rank;
  }
};

/// Gives every action its micro-batch and chunk, as described at read_action_timeline. Throws Error if the number of micro-batches or
/// chunks that the file states contradicts its actions.
[[nodiscard]] ChunkMap place_actions(ActionTimes& times);

/// Pairs (producer, consumer) of actions that exchange an activation or a gradient; `missing` counts actions whose producer is missing.
/// Requires: placed actions.
struct ActionDependencies {
  std::vector<std::pair<int, int>> pairs;
  std::int64_t missing = 0;
};
[[nodiscard]] ActionDependencies dependencies_of(const std::vector<TimedAction>& actions, const ChunkMap& map);

}  // namespace mptune::profiler

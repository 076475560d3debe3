#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "planner/cost/cost_model.h"
#include "planner/search/space/search_space.h"

namespace mptune::planner {

/// The limiting stage of a pipeline, and the layers that its neighbours could take from it.
struct StageLimit {
  /// The move of one layer to a neighbouring stage.
  struct Move {
    int layer = 0;
    int to_stage = 0;
    double step_s = 0;
    std::int64_t excess_bytes = 0;  ///< bytes over the cap of the device that has least left; 0: it fits
  };
  int stage = 0;
  int device = 0;      ///< the device that computes longest, index into Plan::devices
  double busy_s = 0;   ///< its computing time in a step
  int layer = 0;       ///< the stage's slowest layer
  double layer_s = 0;  ///< the layer's time in a step, on the device
  std::vector<Move> moves;
};

/// Returns the limiting stage of a plan with several stages, else nullopt. Moves are listed only for schedules that have a generator, where
/// a stage keeps a layer and may be cut; a layer that moves is recomputed where its new stage recomputes all. `memory_bytes` has the cap of
/// each of the plan's devices; 0 or an empty list: none.
[[nodiscard]] std::optional<StageLimit> stage_limit(const Candidate& candidate, const CostModel& cost,
                                                    const std::vector<std::int64_t>& memory_bytes);

}  // namespace mptune::planner

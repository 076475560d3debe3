#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "planner/cost/cost_model.h"
#include "planner/search/search.h"

namespace mptune::planner {

/// The limiting stage of a pipeline, and the layers that its neighbours could take from it.
struct StageLimit {
  /// One layer to a neighbouring stage.
  struct Move {
    int layer = 0;
    int to_stage = 0;
    double step_s = 0;
    std::int64_t excess_bytes = 0;  ///< over the cap of the device that has least left; 0: it fits
  };
  int stage = 0;
  int device = 0;      ///< index into Plan::devices: the one that computes longest
  double busy_s = 0;   ///< its computing time in a step
  int layer = 0;       ///< the stage's slowest layer
  double layer_s = 0;  ///< its time in a step, on the device
  std::vector<Move> moves;
};

/// Of a plan with several stages, else nothing. Moves only for schedules that have a generator, where a stage keeps a layer and may be cut;
/// a layer that moves is recomputed where its new stage recomputes all. `memory_bytes`: cap of each of the plan's devices, 0 or an empty
/// list: none.
[[nodiscard]] std::optional<StageLimit> stage_limit(const Candidate& candidate, const CostModel& cost,
                                                    const std::vector<std::int64_t>& memory_bytes);

}  // namespace mptune::planner

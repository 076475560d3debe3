#pragma once

#include <optional>
#include <vector>

#include "mptune/planner/cost/cost_model.h"
#include "mptune/planner/search/search.h"

namespace mptune {

/// The stage that a pipeline waits for most, and what its neighbours could take from it.
struct StageLimit {
  /// One layer to a neighbouring stage.
  struct Move {
    int layer = 0;
    int to_stage = 0;
    double step_s = 0;
  };
  int stage = 0;
  int device = 0;      ///< index into Plan::devices: the one that computes longest
  double busy_s = 0;   ///< it computes so long in a step
  int layer = 0;       ///< the stage's dearest layer
  double layer_s = 0;  ///< its time in a step, on the device
  std::vector<Move> moves;
};

/// Of a plan with several stages, else nothing. Moves only for schedules that have a generator, and where a stage keeps a layer.
[[nodiscard]] std::optional<StageLimit> stage_limit(const Candidate& candidate, const CostModel& cost);

}  // namespace mptune

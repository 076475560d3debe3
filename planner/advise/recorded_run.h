#pragma once

#include <string>
#include <vector>

#include "planner/cost/cost_model.h"
#include "planner/plan/plan.h"
#include "profiler/trace/statistics/samples.h"
#include "profiler/trace/values/profile.h"
#include "profiler/trace/values/trace.h"

namespace mptune::planner {

/// A pipeline as a trace recorded it: what its stages took, and what it ran.
struct RecordedRun {
  /// Times of one recorded stage's forwards and backwards over their medians, from all steps and micro-batches.
  struct Jitter {
    std::vector<double> forward, backward;
  };
  Profile profile;                  ///< a layer for each part of a recorded stage
  Plan plan;                        ///< the recorded order, of these layers; named if it is that of a schedule
  std::vector<int> stage_of_layer;  ///< the recorded stage of each layer
  std::vector<Jitter> jitter;       ///< by recorded stage
  std::vector<double> step_s;       ///< the recorded steps
  std::vector<std::string> assumed;
};

/// Returns the pipeline of a trace whose events name stage and micro-batch. Each recorded stage becomes `parts` layers of equal time. A
/// micro-batch counts as `samples` samples, and times are in proportion to samples. Of equal pipelines side by side the first counts.
/// Copies take the median of the recorded ones, no time if there are none. Throws PlanError, with `where` for the trace, where it names no
/// stages and micro-batches, not all of them, or several devices for a stage, and Error for an order that is not valid. Requires: parts,
/// samples >= 1.
[[nodiscard]] RecordedRun recorded_run(const Trace& trace, int parts, int samples, const std::string& where);

/// How long steps take that vary as the recorded ones did.
struct StepSpread {
  double median_s = 0;
  Interval range95_s;  ///< 95 % of simulated steps lie inside
};

/// Simulates steps of a plan over the run's layers. The time of each action is drawn from those of its recorded stages, independently of
/// others: what slowed whole steps down is not in the range. The same draws in every call. Requires: a plan whose layers are the run's.
[[nodiscard]] StepSpread spread_of_steps(const Plan& plan, const CostModel& cost, const RecordedRun& run);

}  // namespace mptune::planner

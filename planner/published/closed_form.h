#pragma once

#include <cstdint>
#include <vector>

#include "planner/cost/cost_model.h"
#include "planner/partition/partition.h"
#include "planner/plan/plan.h"

namespace mptune::planner {

/// Returns the nanoseconds of a step of M equal micro-batches by the plain closed form of synchronous pipelines
///
///     sum of (F_s + B_s) + sum of (C_c + G_c) + (M - 1) x max(F_s + B_s, C_c, G_c)
///
/// over stages s (forward, backward, their fixed costs, recomputation) and cuts c (copy of the output, copy of the gradient, each on a lane
/// of its own): the path of the first micro-batch, then one turn of the slowest stage or copy per further micro-batch (as DAPPLE, Fan et
/// al., PPoPP 2021, with copies as stages of their own). Times are those with the other devices busy where they were measured. The form
/// does not see optimizer, reductions, the order of actions and waiting for them; compare with predict(). Sizes that differ are priced as
/// the largest. Requires: stages of one device each.
[[nodiscard]] std::int64_t closed_form_ns(const Plan& plan, const CostModel& cost);

/// Returns the best cuts by closed_form_ns, with a proof, under the family's memory caps. This is what partition() is for the simulator, in
/// O(K n^2) per step of a sweep over the largest stage's time (chain_sweep.h). Peak bytes are those of CostModel::peak_bytes. Requires as
/// partition() does. Besides, the schedule is 1f1b, every stage has one device of its own, and recomputation is none, or whole stages that
/// would not fit otherwise. At most one plan is returned; `nodes` counts sweeps. Throws Error for families of other kinds, and as
/// check_chain_memory() does.
[[nodiscard]] PartitionResult closed_form_partition(const PartitionProblem& problem, const CostModel& cost);

}  // namespace mptune::planner

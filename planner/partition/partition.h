#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "planner/cost/cost_model.h"
#include "planner/partition/known_rates.h"
#include "planner/plan/plan.h"

namespace mptune::planner {

/// One family of pipelines: everything but the cuts is given.
struct PartitionProblem {
  std::vector<std::string> devices;        ///< Plan::devices, names that the cost model knows
  std::vector<std::vector<int>> stages;    ///< devices of each stage, in order of the layers: indices into `devices`; several are replicas
  std::vector<std::int64_t> memory_bytes;  ///< cap of each of `devices`; 0 or an empty list: no cap
  std::vector<int> microbatch_sizes;       ///< differ by at most one, larger ones first, as split_evenly makes them
  std::string schedule;                    ///< a name that make_schedule knows; its rows are schedule_plan's, with these caps
  std::vector<int> recomputed;             ///< stages that are recomputed as a whole in every plan, ascending
  bool recompute_for_memory = false;       ///< also recompute exactly the stages whose device would otherwise exceed its cap
  /// With recompute_for_memory, a value above 0 lets a plan also fit if with_smallest_peaks() makes it fit. This is tried for at most
  /// `most_in_pieces` ranges of layers. The plan is then timed as if whole stages were recomputed, and returned so: `step_ns` and the lower
  /// bound may be above the step with these sets, and only kNoPlan is proved.
  std::int64_t most_in_pieces = 0;
  int keep = 1;  ///< plans to return
  /// Plans that take longer are not returned.
  std::int64_t longest_ns = std::numeric_limits<std::int64_t>::max();
  std::int64_t most_nodes = std::numeric_limits<std::int64_t>::max();  ///< nodes after which the search ends with what it has proved
  /// An excess over the caps of this many bytes or more is not measured: it is reported as this number, on device -1. Requires: above 0.
  std::int64_t least_excess_known = std::numeric_limits<std::int64_t>::max();
  KnownRates* known = nullptr;  ///< plans rated before, valid while the costs stay the same; this search adds its own. Null: none
  std::function<bool()> stop;   ///< asked several times a millisecond; true ends the search with what it has proved
};

struct PartitionedPlan {
  Plan plan;  ///< with its rows; Recompute is none or all
  std::int64_t step_ns = 0;
  std::int64_t copied_bytes = 0;  ///< bytes copied between devices, outputs and gradients, over all micro-batches
  std::int64_t peak_bytes = 0;    ///< peak of the device that needs most
};

struct PartitionResult {
  static constexpr std::int64_t kNoPlan = std::numeric_limits<std::int64_t>::max();

  /// At most `keep` of the plans that fit and take at most `longest_ns`: fastest first, ties by fewer bytes copied, then less memory,
  /// then cuts in lexicographic order. If `complete`, they are the best ones of all.
  std::vector<PartitionedPlan> best;
  /// No plan of the family that fits its caps takes less. The bound equals the best plan's step if `complete` and there is a best plan. It
  /// is above `longest_ns` if `complete` and no plan is within `longest_ns`; it is kNoPlan if it is proved that nothing fits.
  std::int64_t lower_bound_ns = 0;
  bool complete = false;       ///< true: the search was not ended early
  std::int64_t nodes = 0;      ///< partial plans visited, first plans rated, and the cost of path mixtures in the same unit
  std::int64_t simulated = 0;  ///< whole plans timed, known ones not counted
  std::int64_t in_pieces = 0;  ///< ranges of layers for which with_smallest_peaks() was asked
  /// If no plan fits its caps, or the search ended before it found one that fits: the excess over a cap of the plan that comes closest, and
  /// the device where it exceeds its cap. This covers all plans; if a device has several stages or rows differ from plan to plan, only the
  /// rated ones. Else 0.
  std::int64_t smallest_excess_bytes = 0;
  int smallest_excess_device = -1;  ///< index into PartitionProblem::devices; -1 also at PartitionProblem::least_excess_known

  /// best / lower bound - 1 (gap.h): 0 is a proof that no cut is better; infinite without a plan or a bound.
  [[nodiscard]] double gap() const;
};

/// Returns the best cuts of a family, with a proof. The objective is predict(plan, cost).step_s in whole nanoseconds: schedule, copies,
/// fixed costs, optimizer, reductions and the slow-down of devices that compute at the same time included. Stages are never empty; no stage
/// begins at a layer where the profile forbids a cut. The result is deterministic.
/// The search is fastest by far for schedules with the same rows for all cuts (naive, gpipe, 1f1b, interleaved, looped-bfs, dualpipe-v) on
/// devices that do not slow each other. Other families are bounded less tightly, and every plan costs a simulation; give those families a
/// limit.
/// The proof covers cuts (and recomputation for memory by the stated rule), not other micro-batches, schedules or devices.
/// Requires: a chain of layers (CostModel::is_chain; throws std::invalid_argument).
/// Throws Error for a family without stages or micro-batches, sizes that differ by more than one, an unknown device or schedule, a schedule
/// that does not support the stages, a list of caps of the wrong length; with recompute_for_memory, also for more layers than 2 GiB of
/// tables can hold.
[[nodiscard]] PartitionResult partition(const PartitionProblem& problem, const CostModel& cost);

}  // namespace mptune::planner

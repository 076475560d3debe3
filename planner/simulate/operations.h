#pragma once

#include <cstdint>
#include <vector>

#include "mptune/planner/cost/cost_model.h"
#include "mptune/planner/plan.h"
#include "mptune/profiler/trace/trace.h"

namespace mptune {

/// When an operation may start, beside its place on its lane.
enum class Phase : std::uint8_t {
  actions,    ///< when `input` has ended
  reduce,     ///< when all actions have ended
  optimizer,  ///< when all actions and its stage's reductions have ended
};

/// One piece of work on one lane: a whole stage's forward, backward (or its input or weight gradients) or early recomputation of a
/// micro-batch, a copy, a reduction, an update. A whole backward or input gradients come behind the early recomputation, which reads
/// nothing, and hold the others (first_recomputed_early); weight gradients repeat none. Times are whole nanoseconds, so that every way of
/// adding them up agrees.
struct Operation {
  What what = What::forward;
  Phase phase = Phase::actions;
  int device = 0;        ///< index into Plan::devices; of a copy, the source
  int destination = -1;  ///< of a copy
  int lane = 0;          ///< index among all lanes of the plan; the first Plan::devices.size() are compute lanes
  int stage = 0;
  int microbatch = -1;
  int input = -1;                ///< operation whose result this one reads, -1: none
  std::int64_t overhead_ns = 0;  ///< cost of the action, before the work
  std::int64_t alone_ns = 0;     ///< overhead and work, other devices idle
  std::int64_t extra_ns = 0;     ///< what the work takes longer when all neighbours are busy all the time
  std::int64_t bytes = 0;        ///< of a copy
};

/// Operations of one step in an order in which every operation comes behind what it waits for; on each lane the order of execution.
struct Operations {
  std::vector<Operation> list;
  int devices = 0;
  int lanes = 0;
  std::vector<int> neighbours;  ///< per device of the plan: devices that were busy when its busy times were measured
  bool interferes = false;      ///< any extra_ns > 0
  bool queues = false;          ///< a lane carries copies of several links
  std::int64_t step_ns = 0;     ///< fixed cost of the step
};

struct Timing {
  std::vector<std::int64_t> start_ns;     ///< per operation
  std::vector<std::int64_t> duration_ns;  ///< per operation
  std::int64_t end_ns = 0;                ///< of the last operation
};

/// Requires: a valid plan and schedule. Throws Error for an unknown device or link.
[[nodiscard]] Operations list_operations(const Plan& plan, const CostModel& cost);

/// Puts copies that queue on one medium into the order in which they are ready (devices alone; of two at once, the one that is listed
/// first), and the list into an order of starts. Rows keep their order.
void order_by_arrival(Operations& operations);

/// Runs them on paper; the slow-down of devices that compute at the same time is found by a fixed number of replays.
[[nodiscard]] Timing time_operations(const Operations& operations);

/// The lower bound of simulate.h, which any order of the same operations shares.
[[nodiscard]] std::int64_t lower_bound_ns(const Plan& plan, const Operations& operations);

/// Events of the operations as a measured trace has them, timed by the replay of profiler/analyze.
[[nodiscard]] Trace trace_of(const Plan& plan, const CostModel& cost, const Operations& operations, const Timing& timing);

/// Whole nanoseconds, by the one rounding that all prices share.
[[nodiscard]] std::int64_t to_ns(double seconds);

}  // namespace mptune

#pragma once

#include <cstdint>
#include <vector>

#include "planner/cost/cost_model.h"
#include "planner/cost/stage_flows.h"
#include "planner/plan/plan.h"
#include "planner/schedule/messages.h"
#include "profiler/trace/values/trace.h"

namespace mptune::planner {

/// What an operation waits for, besides the one before it on its lane.
enum class Phase : std::uint8_t {
  actions,    ///< when `input` has ended
  reduce,     ///< when all actions have ended
  optimizer,  ///< when all actions and its stage's reductions have ended
};

/// Copies of offloaded activations (planner/plan/offload.h); their other end is host memory, not a device.
enum class HostCopy : std::uint8_t { none, to_host, from_host };

/// One piece of work on one lane. It is a whole stage's forward, backward (or input or weight gradients) or early recomputation of one
/// micro-batch, one layer's weight gradients where idle devices help, a copy, a reduction, or an update. Early recomputation reads no input
/// and precedes the backward or input gradients, which include all other recomputation (first_recomputed_early). Where the sender makes a
/// copy, the copy is on the sender's compute lane, after the action whose result it sends. Copies to the host's memory and back are on two
/// lanes of their device, or on its compute lane where its thread makes them. A copy back waits for what the action that begins with it
/// waits for, and for the operation before that action. Times are whole nanoseconds, so sums agree in every order.
struct Operation {
  EventKind kind = EventKind::forward;
  Phase phase = Phase::actions;
  int device = 0;        ///< index into Plan::devices; for a copy, the source
  int destination = -1;  ///< for a copy to another device
  int lane = 0;          ///< index among all lanes of the plan; the first Plan::devices.size() are compute lanes
  int stage = 0;
  int microbatch = -1;
  int further = 0;               ///< for fused weight gradients: how many micro-batches after `microbatch`
  int layer = -1;                ///< for weight gradients that idle devices help with; -1: the whole stage
  int input = -1;                ///< operation whose result this one reads, -1: none. Where it reads several, the others are in `waits`
  int flow = -1;                 ///< for a copy to another device: index into Operations::flows
  std::int64_t overhead_ns = 0;  ///< cost of the action, before the work, and of copies to the host that delay it
  std::int64_t alone_ns = 0;     ///< overhead and work, other devices idle
  std::int64_t extra_ns = 0;     ///< added if all neighbours are busy all the time
  std::int64_t bytes = 0;        ///< size of a copy
  HostCopy host = HostCopy::none;
};

/// An operation also waits for the end of an earlier one, besides its input.
struct Wait {
  int operation = 0;
  int until = 0;
};

/// Operations of one step. Every operation follows those it waits for; on each lane they are in the order of execution.
struct Operations {
  std::vector<Operation> list;
  int devices = 0;
  int lanes = 0;
  std::vector<StageFlow> flows;  ///< what stages send each other
  std::vector<Wait> waits;       ///< ascending; only in graphs of layers, where idle devices help, and for offloaded activations
  std::vector<int> helpers;      ///< per device of the plan, see helping_groups; empty: idle devices do not help
  std::vector<int> neighbours;   ///< per device of the plan: devices that were busy when its busy times were measured
  std::vector<int> weights;      ///< per device of the plan: for how many of these neighbours it counts
  bool interferes = false;       ///< any extra_ns > 0
  bool queues = false;           ///< a lane carries copies of several links
  std::int64_t step_ns = 0;      ///< fixed cost of the step
};

struct Timing {
  std::vector<std::int64_t> start_ns;     ///< per operation
  std::vector<std::int64_t> duration_ns;  ///< per operation
  std::int64_t end_ns = 0;                ///< end of the last operation
};

/// Lists the operations of the plan's step. Where idle devices help, each weight gradient is on the lane of the device that computes it
/// (choose_order). Under the rules of another runtime, copies and actions wait as messages_of() says. Requires: a valid plan and schedule.
/// Throws Error for an unknown device or link, for offloaded activations on a device whose copies to the host were not measured, and
/// PlanError where the runtime's devices would wait for each other for ever.
[[nodiscard]] Operations list_operations(const Plan& plan, const CostModel& cost, Runtime runtime = Runtime::mptune);
/// Does the same for messages that were made of this plan.
[[nodiscard]] Operations list_operations(const Plan& plan, const CostModel& cost, Messages messages);

/// Decides what depends on time, as it passes with no device slowed, and sorts the list by start. Rows keep their order.
/// Where copies queue on one medium, the first that is ready runs first (ties: the one listed first).
/// Where idle devices help, a device whose next action has no input yet, or whose row has ended, takes a ready weight gradient (of one
/// layer) of a device of its group. It takes its own first; while it waits for an input it takes the shortest, at the end of its row the
/// longest (ties: lower stage, lower micro-batch, later layer). A weight gradient is ready when the input gradients have ended, and what
/// comes before it in its owner's row has made that layer's weight gradients. At a weight action, the owner takes what is left of it, the
/// shortest first, and waits for what others took. Devices choose after everything that ends at that time, in ascending order. Layers of
/// one weight action that a device computes one after another cost the fixed cost of an action once.
void choose_order(Operations& operations);

/// Simulates the operations. A fixed number of replays finds how much devices that compute at the same time slow each other.
[[nodiscard]] Timing time_operations(const Operations& operations);

/// Returns the lower bound of simulate.h, which any order of the same operations shares.
[[nodiscard]] std::int64_t lower_bound_ns(const Plan& plan, const Operations& operations);

/// Returns the events of the operations, like those of a measured trace, timed by the replay of profiler/trace/analyze.
[[nodiscard]] Trace trace_of(const Plan& plan, const CostModel& cost, const Operations& operations, const Timing& timing);

/// Returns whole nanoseconds, by the one rounding that all prices share.
[[nodiscard]] std::int64_t to_ns(double seconds);

}  // namespace mptune::planner

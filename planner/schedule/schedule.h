#pragma once

#include <string>
#include <vector>

#include "planner/plan/plan.h"
#include "planner/schedule/costs.h"

namespace mptune::planner {

/// Fills `plan.actions` (a row per device) and `plan.schedule` from the plan's stages, devices and micro-batches, of which there may be
/// any number. Forwards, input gradients and weight gradients of a stage come in ascending order of micro-batches. With replicas each
/// device runs the micro-batches of its replica.
/// Schedules that use `costs` are eager-1f1b (which warm-ups are best and fit), zb1p, zb2p, zbv, v-half and v-min (where weight gradients
/// go; bytes are counted in micro-batches), those whose names end in -late (how many weight gradients fit) and list (all, bytes included).
/// Null stands for the textbook's costs. Throws Error for an unknown name, for `naive` with more than one micro-batch, and for a map of
/// stages to devices that is not the schedule's.
///
///     gpipe, 2 stages, 3 micro-batches            1f1b
///     dev 0  F0 F1 F2          B0 B1 B2           dev 0  F0 F1    B0 F2 B1    B2
///     dev 1     F0 F1 F2 B0 B1 B2                 dev 1     F0 B0 F1 B1 F2 B2
void make_schedule(Plan& plan, const std::string& name, const ScheduleCosts* costs = nullptr);

/// Returns an action's text, such as "0F0", "1B3" or "0W2-5".
[[nodiscard]] std::string to_text(const Action& action);
/// Returns the actions of one device, separated by blanks.
[[nodiscard]] std::string to_text(const std::vector<Action>& actions);
/// The inverse of to_text(). Throws Error that names the first wrong action and `where`.
[[nodiscard]] std::vector<Action> actions_from_text(const std::string& text, const std::string& where);

/// Reads torch.distributed.pipelining's CSV: a row per device and a cell per action. `(0F7;7B3)OVERLAP_F_B` stands for two actions that
/// torch runs side by side and we run in this order. Empty cells and `None` are skipped, and so is what follows from the actions here:
/// SEND_F, RECV_F, SEND_B, RECV_B, and UNSHARD, RESHARD, REDUCE_GRAD of sharded parameters. "0W2-5", which torch can't read, stands for
/// fused weight gradients. Throws Error that names the row and the first cell that is none of these.
[[nodiscard]] std::vector<std::vector<Action>> schedule_from_csv(const std::string& text, const std::string& where);
[[nodiscard]] std::string schedule_to_csv(const std::vector<std::vector<Action>>& actions);

/// Limits of a schedule besides the order of its actions.
struct ScheduleLimits {
  int communication_buffers = 0;  ///< per link: copies from one device to another that have arrived and are not read yet; 0: any number
  const ScheduleCosts* costs = nullptr;  ///< saved activations have to fit into its free_bytes; null: not checked
};

/// Proves that the plan's action lists are complete (every micro-batch of every stage once forward and once backward, whole or I and then
/// W, on its own device; fused weight gradients only of stages without replicas), ordered (forward before backward), free of deadlock (a
/// copy never blocks the device that sends it; with bounded buffers the copy waits for one, in the order of sending) and within the bytes.
/// Throws Error that names the first wrong action.
void validate_schedule(const Plan& plan, const std::string& where, const ScheduleLimits& limits = {});

/// Returns the largest number of micro-batches of `stage`'s replica 0 between their forward and their backward. Requires: a plan that
/// validate_schedule() accepts.
[[nodiscard]] int most_in_flight(const Plan& plan, int stage);

}  // namespace mptune::planner

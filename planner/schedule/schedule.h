#pragma once

#include <string>
#include <vector>

#include "mptune/planner/plan.h"

namespace mptune {

/// Names of the schedules that make_schedule knows: naive, gpipe, 1f1b.
[[nodiscard]] const std::vector<std::string>& schedule_names();

/// Fills `plan.actions` (a row per device) and `plan.schedule` from the plan's stages, devices and micro-batches.
/// Backward comes in ascending order of micro-batches on every device. With replicas each device runs the micro-batches of its replica.
/// Throws Error for an unknown name, for `naive` with more than one micro-batch, for `1f1b` with two stages on one device.
///
///     gpipe, 2 stages, 3 micro-batches            1f1b
///     dev 0  F0 F1 F2          B0 B1 B2           dev 0  F0 F1    B0 F2 B1    B2
///     dev 1     F0 F1 F2 B0 B1 B2                 dev 1     F0 B0 F1 B1 F2 B2
void make_schedule(Plan& plan, const std::string& name);

/// "0F0", "1B3".
[[nodiscard]] std::string to_text(const Action& action);
/// Actions of one device, separated by blanks.
[[nodiscard]] std::string to_text(const std::vector<Action>& actions);
/// Inverse; throws Error that names the first wrong action and `where`.
[[nodiscard]] std::vector<Action> actions_from_text(const std::string& text, const std::string& where);

/// torch.distributed.pipelining's CSV: a row per device, a cell per action; empty cells are skipped. Throws Error.
[[nodiscard]] std::vector<std::vector<Action>> schedule_from_csv(const std::string& text, const std::string& where);
[[nodiscard]] std::string schedule_to_csv(const std::vector<std::vector<Action>>& actions);

/// Proves the plan's action lists complete (every micro-batch of every stage once forward and once backward, on its own device),
/// ordered (forward before backward) and free of deadlock (copies never block the sender). Throws Error that names the first wrong action.
void validate_schedule(const Plan& plan, const std::string& where);

/// Largest number of micro-batches of `stage`'s replica 0 between their forward and their backward.
/// Requires: validated.
[[nodiscard]] int most_in_flight(const Plan& plan, int stage);

}  // namespace mptune

#pragma once

#include "planner/schedule/layout.h"

namespace mptune::planner {

/// Returns the rows with forwards moved after actions that free memory, and weight gradients moved before forwards that need it, in a step
/// that is no longer. First one limit of saved bytes for all devices is lowered as far as it can be, then one for each device in turn,
/// until a limit of work is reached. Actions of the same kind keep their order.
///
///     dev 0  F0 F1 F2 F3 .  B0 B1 B2 B3     becomes     dev 0  F0 F1 F2 .  B0 F3 B1 B2 B3     if the last forward can wait
///
/// Requires: rows of a valid schedule that do not deadlock; costs of every stage.
[[nodiscard]] Rows held_back(const Layout& layout, const ScheduleCosts& costs, Rows rows);

}  // namespace mptune::planner

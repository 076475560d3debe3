#pragma once

#include "planner/schedule/layout.h"

namespace mptune::planner {

/// The rows with forwards moved behind actions that free memory, and weight gradients moved before forwards that need it, in a step that is
/// no longer: first all devices save as few bytes at a time as they can together, then each in turn, as far as a limit of work reaches.
/// Actions of a kind keep their order.
///
///     dev 0  F0 F1 F2 F3 .  B0 B1 B2 B3     becomes     dev 0  F0 F1 F2 .  B0 F3 B1 B2 B3     if the last forward can wait
///
/// Requires: rows of a valid schedule that do not deadlock; costs of every stage.
[[nodiscard]] Rows held_back(const Layout& layout, const ScheduleCosts& costs, Rows rows);

}  // namespace mptune::planner

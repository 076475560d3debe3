#pragma once

#include <string>
#include <vector>

#include "mptune/planner/schedule/layout.h"

namespace mptune {

/// Throws Error unless `name` is a schedule's.
void check_schedule_name(const std::string& name);
/// What a schedule asks of the plan that this one does not have: a device map, a number of micro-batches; empty: nothing.
[[nodiscard]] std::string missing_for(const std::string& name, const Layout& layout);
/// Rows of a schedule other than `list`. Requires: nothing missing; costs of every stage.
[[nodiscard]] Rows named_rows(const std::string& name, const Layout& layout, const ScheduleCosts& costs);

}  // namespace mptune

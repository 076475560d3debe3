#pragma once

#include <string>
#include <vector>

#include "mptune/planner/schedule/layout.h"

namespace mptune {

/// Throws Error unless `name` is a schedule's.
void check_schedule_name(const std::string& name);
/// What the schedule requires and the plan lacks: a device map, a number of micro-batches; empty: nothing.
[[nodiscard]] std::string missing_for(const std::string& name, const Layout& layout);
/// Rows of a schedule other than `list`. Requires: nothing missing; costs of every stage.
[[nodiscard]] Rows named_rows(const std::string& name, const Layout& layout, const ScheduleCosts& costs);

/// Forwards that each stage can run before its first input gradient can arrive, at most `most`; `over`: rounded up.
[[nodiscard]] std::vector<int> time_warm_ups(const Layout& layout, const ScheduleCosts& costs, int most, bool over);

}  // namespace mptune

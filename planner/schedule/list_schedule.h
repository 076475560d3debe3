#pragma once

#include "planner/schedule/layout.h"

namespace mptune::planner {

/// Returns the rows of our own list schedule. Candidates are the named schedules that the map of stages allows and list schedules by
/// several rules, all with the real costs and within the free memory; the fastest is improved by moving actions. By ScheduleReplay it is
/// never slower than a named schedule that fits; schedule_plan checks what ScheduleReplay cannot see. Where no candidate fits, the one with
/// the smallest excess is returned. The result is deterministic, since work is bounded by a count of actions.
[[nodiscard]] Rows list_rows(const Layout& layout, const ScheduleCosts& costs);

}  // namespace mptune::planner

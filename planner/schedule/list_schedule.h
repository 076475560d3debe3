#pragma once

#include "mptune/planner/schedule/layout.h"

namespace mptune {

/// Our own list schedule: starts from the named schedules that the map of stages allows and from list schedules by several rules, all with
/// the true times and within the bytes that are free, and improves the fastest. Never slower (by ScheduleReplay) than any named one that
/// fits; what ScheduleReplay cannot see, schedule_plan looks at afterwards. Where none fits, the one whose largest excess is smallest. A
/// function of its arguments: work is bounded by a count of actions.
[[nodiscard]] Rows list_rows(const Layout& layout, const ScheduleCosts& costs);

}  // namespace mptune

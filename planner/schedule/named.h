#pragma once

#include <vector>

#include "planner/schedule/layout.h"

namespace mptune::planner {

/// Each function returns the rows of a named schedule; schedule_info.cc says of which. Requires: the schedule's device map; costs of every
/// stage.

/// Runs all forwards, then all backwards: naive, gpipe and, with several stages on a device, looped-bfs.
[[nodiscard]] Rows gpipe_rows(const Layout& layout, const ScheduleCosts& costs);
[[nodiscard]] Rows one_forward_one_backward_rows(const Layout& layout, const ScheduleCosts& costs);
[[nodiscard]] Rows eager_rows(const Layout& layout, const ScheduleCosts& costs);
[[nodiscard]] Rows interleaved_1f1b_rows(const Layout& layout, const ScheduleCosts& costs);
[[nodiscard]] Rows zb1p_rows(const Layout& layout, const ScheduleCosts& costs);
[[nodiscard]] Rows zb2p_rows(const Layout& layout, const ScheduleCosts& costs);
[[nodiscard]] Rows zbv_rows(const Layout& layout, const ScheduleCosts& costs);
[[nodiscard]] Rows v_half_rows(const Layout& layout, const ScheduleCosts& costs);
[[nodiscard]] Rows v_min_rows(const Layout& layout, const ScheduleCosts& costs);
[[nodiscard]] Rows dualpipe_v_rows(const Layout& layout, const ScheduleCosts& costs);

/// Returns how many forwards each stage can run before its first input gradient can arrive, at most `most`; with `over` rounded up.
[[nodiscard]] std::vector<int> time_warm_ups(const Layout& layout, const ScheduleCosts& costs, int most, bool over);

}  // namespace mptune::planner

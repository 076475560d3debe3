#pragma once

#include <cstdint>
#include <vector>

#include "planner/schedule/layout.h"

namespace mptune::planner {

/// 1F1B: a device runs the forwards of its warm-up, then a backward and a forward in turn. Warm-ups never grow along the stages: a stage
/// would wait for forwards that the stage before it holds back. All counts are of micro-batches on each replica of a stage.
///
///     warm-ups 2, 1     dev 0  F0 F1    B0 F2 B1    B2
///                       dev 1     F0 B0 F1 B1 F2 B2

/// One on the last stage, and on every other stage one more than it takes to feed all replicas behind it. With equal replica counts this
/// is the textbook's stages - s.
[[nodiscard]] std::vector<int> textbook_warm_ups(const Layout& layout);

/// The warm-ups whose step is shortest within costs.free_bytes, none longer than that step needs while the others stay.
/// The shortest of all where the step is shortest_of_any_order(), or where all together have few actions (kMostTriedActions); else the best
/// that changes of single stages find from several starts. One at least, whatever the bytes. Requires: one stage on each device, costs of
/// every stage.
[[nodiscard]] std::vector<int> best_warm_ups(const Layout& layout, const ScheduleCosts& costs);

/// Nanoseconds that every order of whole forwards and backwards takes, with micro-batches in ascending order on each stage: of paths that
/// all orders have. 0 where a stage has replicas. Requires: likewise.
[[nodiscard]] std::int64_t shortest_of_any_order(const Layout& layout, const ScheduleCosts& costs);

/// The rows with these warm-ups, one per stage. Requires: one stage on each device, at least 1 each, no larger one behind a smaller one.
[[nodiscard]] Rows one_forward_one_backward(const Layout& layout, const std::vector<int>& warm_ups);

}  // namespace mptune::planner

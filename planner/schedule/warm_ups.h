#pragma once

#include <cstdint>
#include <vector>

#include "planner/schedule/layout.h"

namespace mptune::planner {

/// In 1F1B a device runs the forwards of its warm-up, then a backward and a forward in turn. Warm-ups never grow along the stages, since a
/// stage would wait for forwards that the stage before it holds back. All counts are of micro-batches on each replica of a stage.
///
///     warm-ups 2, 1     dev 0  F0 F1    B0 F2 B1    B2
///                       dev 1     F0 B0 F1 B1 F2 B2

/// Returns 1 for the last stage, and for every other stage one more than it takes to feed all replicas of the next stage. With equal
/// replica counts this is the textbook's stages - s.
[[nodiscard]] std::vector<int> textbook_warm_ups(const Layout& layout);

/// Returns the warm-ups whose step is shortest within costs.free_bytes. None is longer than that step needs while the others stay. The step
/// is the shortest of all where it is shortest_of_any_order(), or where all warm-ups together have few actions (kMostTriedActions); else it
/// is the best that changes of single stages find from several starts. Every warm-up is at least 1, whatever the bytes. Requires: one stage
/// on each device, costs of every stage.
[[nodiscard]] std::vector<int> best_warm_ups(const Layout& layout, const ScheduleCosts& costs);

/// Returns nanoseconds that every order of whole forwards and backwards takes at least, with micro-batches in ascending order on each
/// stage. They are the length of a path that all orders have; 0 where a stage has replicas. Requires: one stage on each device, costs of
/// every stage.
[[nodiscard]] std::int64_t shortest_of_any_order(const Layout& layout, const ScheduleCosts& costs);

/// Returns the rows with these warm-ups, one per stage. Requires: one stage on each device, every warm-up at least 1, none larger than one
/// of an earlier stage.
[[nodiscard]] Rows one_forward_one_backward(const Layout& layout, const std::vector<int>& warm_ups);

}  // namespace mptune::planner

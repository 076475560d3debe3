#pragma once

#include <cstdint>
#include <limits>
#include <vector>

#include "planner/schedule/layout.h"

namespace mptune::planner {

/// When the inputs of actions arrive: from the same device at once, from another one when the copy ends. Copies in one direction between
/// two devices run one after another in the order of sending.
class Arrivals {
 public:
  static constexpr std::int64_t kNever = std::numeric_limits<std::int64_t>::max();

  /// Nothing is made yet. Both must outlive this.
  Arrivals(const Layout& layout, const ScheduleCosts& costs);
  void clear();

  /// When the action's input arrives: kNever while it is not made, 0 without one. Earlier by what the action recomputes before it reads.
  [[nodiscard]] std::int64_t at(const Action& action) const {
    const std::size_t slot = layout_.slot(action.stage, action.microbatch);
    if (action.kind == ActionKind::forward) return action.stage == 0 ? 0 : output_at_[slot];
    if (action.kind == ActionKind::backward_weight || action.stage + 1 == layout_.stages()) return 0;
    return gradient_at_[slot];
  }

  /// An action ends. Requires: calls for one device in the order of their ends. Returns the stage that reads the result; -1: none.
  int send(const Action& action, std::int64_t end_ns);

 private:
  const Layout& layout_;
  const ScheduleCosts& costs_;
  std::vector<std::int64_t> link_free_;  // [source * devices + destination]
  std::vector<std::int64_t> output_at_;  // by slot of the reader
  std::vector<std::int64_t> gradient_at_;
};

}  // namespace mptune::planner

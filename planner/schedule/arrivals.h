#pragma once

#include <cstdint>
#include <limits>
#include <vector>

#include "planner/schedule/layout.h"

namespace mptune::planner {

/// Tells when the inputs of actions arrive: from the same device at once, from another one when the copy ends. Copies in one direction
/// between two devices run one after another in the order of sending.
class Arrivals {
 public:
  static constexpr std::int64_t kNever = std::numeric_limits<std::int64_t>::max();

  /// Starts with nothing made. Both arguments must outlive this object.
  Arrivals(const Layout& layout, const ScheduleCosts& costs);
  void clear();

  /// Returns when the action's inputs have arrived: kNever while one is not made, 0 where the action reads none. The time is earlier by
  /// what the action recomputes before it reads.
  [[nodiscard]] std::int64_t at(const Action& action) const {
    if (action.kind == ActionKind::backward_weight) return 0;
    return inputs(action.kind == ActionKind::forward)[layout_.slot(action.stage, action.microbatch)].at_ns();
  }

  /// Records that an action ends. Requires: calls for one device in the order of their ends.
  void send(const Action& action, std::int64_t end_ns);
  /// Returns the stages that read what the action makes.
  [[nodiscard]] const std::vector<int>& readers(const Action& action) const;

 private:
  struct Input {
    int missing = 0;
    std::int64_t last_ns = 0;
    [[nodiscard]] std::int64_t at_ns() const { return missing > 0 ? kNever : last_ns; }
  };
  // The stages that read an output, or a gradient, and the copies to them.
  struct Sends {
    std::vector<int> to;
    std::vector<std::int64_t> copy_ns;
  };
  [[nodiscard]] const std::vector<Input>& inputs(bool forward) const { return forward ? outputs_ : gradients_; }
  void add_link(const LinkCosts& link);

  const Layout& layout_;
  const ScheduleCosts& costs_;
  std::vector<Sends> forward_;           // by sending stage
  std::vector<Sends> backward_;          // by sending stage
  std::vector<int> outputs_read_;        // number of outputs, by reading stage
  std::vector<int> gradients_read_;      // number of gradients, by reading stage
  std::vector<std::int64_t> link_free_;  // [source * devices + destination]
  std::vector<Input> outputs_;           // by slot of the reader
  std::vector<Input> gradients_;         // by slot of the reader
};

}  // namespace mptune::planner

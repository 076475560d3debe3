#pragma once

#include <cstdint>
#include <vector>

#include "planner/schedule/layout.h"

namespace mptune::planner {

/// Where to put weight gradients between forwards and input gradients, whose order is given.
struct FillPolicy {
  int forward_patience_percent = 0;   ///< a device idles for a forward about to arrive, up to this percentage of a weight gradient's time
  int backward_patience_percent = 0;  ///< a device idles for an input gradient up to this percentage of a weight gradient's time
  bool idle_as_others = false;        ///< it also idles longer, while it stays less idle than the idlest device
  std::vector<std::int64_t> idle_ns;  ///< per device: limit of its total idling; only with idle_as_others
  std::vector<std::int64_t> limit;    ///< per device: most bytes it may keep
};

struct Filled {
  Rows rows;
  std::vector<std::int64_t> idle_ns;  ///< per device, after its first action
  std::int64_t end_ns = 0;
  std::int64_t span_ns = 0;  ///< see ScheduleTiming::span_ns
};

/// Keeps forwards and input gradients in the order of `order`, the rows of a valid schedule; its weight gradients are ignored.
/// A weight gradient runs where it ends before the next action's input arrives. It also runs where the policy would not wait for that
/// input, where memory is short, and at the end. Requires: `order` keeps to the limits if every weight gradient runs at once.
[[nodiscard]] Filled fill_weights(const Layout& layout, const ScheduleCosts& costs, const Rows& order, const FillPolicy& policy);

/// Returns the order with every weight gradient as late as memory allows: at the end of its device's row, or before the action that would
/// keep more than the device's free bytes. This is for idle devices that help: they compute weight gradients in the gaps before.
[[nodiscard]] Rows late_weights(const ScheduleCosts& costs, const Rows& order);

}  // namespace mptune::planner

#pragma once

#include <cstdint>
#include <vector>

#include "planner/schedule/layout.h"

namespace mptune::planner {

/// Where to put weight gradients between forwards and input gradients, whose order is given.
struct FillPolicy {
  int forward_patience_percent = 0;   ///< of a weight gradient's time: a device idles up to that long for a forward that is about to arrive
  int backward_patience_percent = 0;  ///< likewise for an input gradient
  bool idle_as_others = false;        ///< or longer, while it stays less idle than the idlest device
  std::vector<std::int64_t> idle_ns;  ///< limit of that idling in all, per device; only with idle_as_others
  std::vector<std::int64_t> limit;    ///< per device: bytes it may keep
};

struct Filled {
  Rows rows;
  std::vector<std::int64_t> idle_ns;  ///< per device, after its first action
  std::int64_t end_ns = 0;
  std::int64_t span_ns = 0;  ///< as ScheduleTiming's
};

/// Keeps forwards and input gradients in the order of `order`, the rows of a valid schedule; its weight gradients are ignored.
/// A weight gradient runs where it ends before the next action's input arrives; else where the policy would not wait for that input, where
/// memory is short, and at the end. Requires: `order` keeps to the limits if every weight gradient runs at once.
[[nodiscard]] Filled fill_weights(const Layout& layout, const ScheduleCosts& costs, const Rows& order, const FillPolicy& policy);

/// The same order with every weight gradient as late as memory allows: at the end of its device's row, or before the action that would keep
/// more than the device's free bytes. For idle devices that help: they fill the gaps before.
[[nodiscard]] Rows late_weights(const ScheduleCosts& costs, const Rows& order);

}  // namespace mptune::planner

#pragma once

#include <cstdint>
#include <vector>

#include "mptune/planner/schedule/layout.h"

namespace mptune {

/// Where gradients of weights go between forwards and input gradients whose order is given.
struct FillPolicy {
  int forward_patience_percent = 0;   ///< of a weight gradient's time: a device idles that long rather than let a forward wait that comes
  int backward_patience_percent = 0;  ///< likewise an input gradient
  bool idle_as_others = false;        ///< or as long as that leaves it less idle than the idlest device
  std::vector<std::int64_t> idle_ns;  ///< or no more than this in all, per device; only with idle_as_others
  std::vector<std::int64_t> limit;    ///< per device: bytes it may keep
};

struct Filled {
  Rows rows;
  std::vector<std::int64_t> idle_ns;  ///< per device, after its first action
  std::int64_t end_ns = 0;
  std::int64_t span_ns = 0;  ///< as ScheduleTiming's
};

/// Takes forwards and input gradients in the order of `order`, the rows of a valid schedule; what it says of weights is not looked at.
/// A weight gradient goes where it fits before the next action's input is there, else where the policy would not wait for that, where
/// bytes are short, and at the end. Requires: limits that the order keeps to with every weight gradient done at once.
[[nodiscard]] Filled fill_weights(const Layout& layout, const ScheduleCosts& costs, const Rows& order, const FillPolicy& policy);

}  // namespace mptune

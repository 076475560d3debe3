#pragma once

#include <optional>
#include <string>

#include "planner/plan/plan.h"
#include "planner/schedule/messages.h"

namespace mptune::planner {

/// A message that one end holds until the other is ready for it.
struct HeldMessage {
  std::string action;        ///< that made it, "0F2"
  std::string device;        ///< that holds it
  std::string other_action;  ///< that the other device was busy with, "1B0"
  std::string other_device;
  double forwards = 0;  ///< how long, in forwards of a stage
};

/// What becomes of an order of actions under the rules of a runtime.
struct OrderCheck {
  std::string deadlock;                ///< deadlock_of(); "": the order ends
  double slowdown = 1;                 ///< step over the step in which no device waits to send
  std::optional<HeldMessage> longest;  ///< the message that is held longest; nothing where none is held
};

/// Checks the plan's rows, by stages that take equally long, backwards twice as long as forwards, and copies that take no time.
/// `messages`: of this plan. Requires: a valid plan and schedule.
[[nodiscard]] OrderCheck check_order(const Plan& plan, const Messages& messages);

}  // namespace mptune::planner

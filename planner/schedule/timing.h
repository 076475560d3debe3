#pragma once

#include <cstdint>
#include <vector>

#include "planner/schedule/arrivals.h"
#include "planner/schedule/layout.h"

namespace mptune::planner {

/// When the actions of a schedule run.
struct ScheduleTiming {
  std::vector<std::vector<std::int64_t>> start_ns;  ///< per row and action
  std::int64_t end_ns = 0;                          ///< end of the last action: the step
  std::int64_t span_ns = 0;  ///< longest time of a device from the start of its first action to the end of its last: the step time
                             ///< where no device waits for the others between two steps (zero bubble, arXiv 2401.10241)
};

/// Simulates rows: an action starts when its device is free and its input has arrived; a copy starts when its tensors exist and the earlier
/// copies in the same direction between the two devices have ended. planner/simulate has the same rules. Replaying with one object reuses
/// its memory. It does not see devices that slow each other, links that share a medium, or micro-batches and replicas that differ.
class ScheduleReplay {
 public:
  /// Both arguments must outlive this object. Requires: costs of every stage.
  ScheduleReplay(const Layout& layout, const ScheduleCosts& costs);

  /// Returns the end of the step, or -1 where the rows deadlock. Requires: rows of actions of the layout, each on its own device.
  std::int64_t run(const Rows& rows);
  /// Returns the timing of the latest run.
  [[nodiscard]] const ScheduleTiming& timing() const { return timing_; }
  /// Returns the sum of the ends of all devices' last actions in the latest run.
  [[nodiscard]] std::int64_t ends_ns() const;

 private:
  bool advance(const std::vector<Action>& row, std::size_t device);

  const Layout& layout_;
  const ScheduleCosts& costs_;
  ScheduleTiming timing_;
  std::vector<std::size_t> next_;
  std::vector<std::int64_t> free_;
  Arrivals arrivals_;
};

/// Replays the plan's rows once. Requires: a valid plan and schedule, costs of every stage.
[[nodiscard]] ScheduleTiming time_schedule(const Plan& plan, const ScheduleCosts& costs);

/// Returns the most bytes of saved activations on each device at a time. Requires: a valid plan and schedule, costs of every stage.
[[nodiscard]] std::vector<std::int64_t> most_saved_bytes(const Plan& plan, const ScheduleCosts& costs);
[[nodiscard]] std::vector<std::int64_t> most_saved_bytes(const Rows& rows, const ScheduleCosts& costs);

}  // namespace mptune::planner

#pragma once

#include <cstdint>
#include <vector>

#include "planner/schedule/arrivals.h"
#include "planner/schedule/layout.h"

namespace mptune::planner {

/// When the actions of a schedule run.
struct ScheduleTiming {
  std::vector<std::vector<std::int64_t>> start_ns;  ///< per row and action
  std::int64_t end_ns = 0;                          ///< of the last action: the step
  std::int64_t span_ns = 0;  ///< longest time of a device from the start of its first action to the end of its last: the step time
                             ///< where no device waits for the others between two steps (zero bubble, arXiv 2401.10241)
};

/// Simulates rows: an action starts when its device is free and its input has arrived; a copy starts when its tensors exist and the earlier
/// copies in the same direction between the two devices have ended. The same rules as planner/simulate. Replaying with one object reuses
/// its memory. It cannot see: devices that slow each other, links that share a medium, micro-batches and replicas that differ.
class ScheduleReplay {
 public:
  /// Both must outlive this. Requires: costs of every stage.
  ScheduleReplay(const Layout& layout, const ScheduleCosts& costs);

  /// End of the step; -1 where the rows deadlock. Requires: rows of actions of the layout, each on its own device.
  std::int64_t run(const Rows& rows);
  /// Of the latest run.
  [[nodiscard]] const ScheduleTiming& timing() const { return timing_; }
  /// Of the latest run: the sum of the ends of all devices' last actions.
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

/// The same once. Requires: a valid plan and schedule, costs of every stage.
[[nodiscard]] ScheduleTiming time_schedule(const Plan& plan, const ScheduleCosts& costs);

/// Most bytes of saved activations on each device at a time. Requires: likewise.
[[nodiscard]] std::vector<std::int64_t> most_saved_bytes(const Plan& plan, const ScheduleCosts& costs);
[[nodiscard]] std::vector<std::int64_t> most_saved_bytes(const Rows& rows, const ScheduleCosts& costs);

}  // namespace mptune::planner

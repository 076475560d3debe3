#pragma once

#include <cstdint>

#include "planner/cost/cost_model.h"

namespace mptune::planner {

/// Nanoseconds of some work with all neighbours idle, and the nanoseconds that are added with all of them busy.
struct Price {
  std::int64_t alone = 0;
  std::int64_t extra = 0;
};

/// What one micro-batch's work on a stage takes.
struct StagePrices {
  Price forward;
  Price backward;
  Price input;   ///< gradients of inputs
  Price weight;  ///< gradients of weights
  Price early;   ///< recomputation before the gradient has arrived
  Price inside;  ///< recomputation within the backward, once the gradient has arrived
};

/// Returns the prices on a device of the profile. `slowed`: busy neighbours slow the device.
[[nodiscard]] StagePrices stage_prices(const Stage& stage, const CostModel& cost, int device, int samples, bool slowed);

/// Returns the price of a part that takes `alone`. Its slow-down is in proportion to its time, and at most that of the whole, since the
/// part may have been measured longer than the whole.
[[nodiscard]] Price part_of(const Price& whole, std::int64_t alone);

}  // namespace mptune::planner

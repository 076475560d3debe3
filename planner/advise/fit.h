#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "planner/cost/cost_model.h"
#include "planner/plan/executable.h"
#include "planner/plan/field.h"
#include "planner/plan/plan.h"
#include "planner/simulate/simulate.h"

namespace mptune::planner {

/// A plan, and what it must fit into.
struct FitQuestion {
  Plan plan;
  std::vector<std::string> devices;        ///< devices that plans may use, in order; the plan's are among them
  std::vector<std::int64_t> memory_bytes;  ///< cap of each device; 0: none
  Capabilities capabilities;               ///< plans that need more are not proposed
  std::int64_t most_actions = 4'000'000;   ///< actions whose memory is counted before the question ends with what was found
};

/// How far a plan is from fitting.
struct Excess {
  std::int64_t bytes = 0;      ///< the most bytes over a cap, 0: it fits
  std::string device;          ///< the device where that is; "" where the plan fits
  std::int64_t cap_bytes = 0;  ///< cap of this device
  bool operator==(const Excess&) const = default;
};
/// Returns the excess. Requires: `peak_bytes` per device of the plan; `memory_bytes` as FitQuestion says.
[[nodiscard]] Excess excess_of(const Plan& plan, const std::vector<std::int64_t>& peak_bytes, const std::vector<std::string>& devices,
                               const std::vector<std::int64_t>& memory_bytes);

/// A plan that fits, and how to ask for it.
struct FittingChange {
  std::vector<FieldValue> options;  ///< values to state in place of those that say otherwise: microbatches "8"
  int changes = 1;                  ///< number of kinds of change that it takes
  Plan plan;
  Prediction prediction;
};

/// Equal devices on which a 1f1b pipeline with a stage on each fits.
struct DevicesNeeded {
  int count = 0;                    ///< 0: none was found that would do
  std::vector<FieldValue> options;  ///< values to state beside the stages: recompute "all"
};

struct FitAnswer {
  Excess excess;                       ///< excess of the plan; where it fits, the answer has nothing else
  std::vector<FittingChange> changes;  ///< fewest kinds of change first, then the fastest; empty: none was found
  Excess nearest;                      ///< where nothing fits: excess of the tried plan that comes nearest
  std::vector<FieldValue> nearest_options;
  std::vector<FieldValue> raised;  ///< where no change was found without more memory, a smaller batch or more devices: caps, and
                                   ///< `nearest_options`, with which a plan fits
  DevicesNeeded needed;            ///< where nothing fits: number of devices like the fullest
  bool complete = true;            ///< true: everything was tried; false: `most_actions` ended it
};

/// Returns the smallest changes that make a plan fit. They are tried one at a time; two or three together only where fewer do nothing. Of
/// each kind the smallest amount that suffices is taken, and among equal amounts the fastest:
///
///     stages      on further devices: as few as suffice, cut evenly, or with the least excess over a cap
///     schedule    another named one over the same stages
///     cut         one cut moved by as few layers as suffice; else all of them
///     split       fewest micro-batches more
///     recompute   fewest stages more
///
/// Plans are simulated, with whatever schedule the options would make (without costs, like make_plan). The answer leaves out recomputation
/// of single layers, which no option names (search_plans finds it). Requires: a valid plan and schedule.
[[nodiscard]] FitAnswer smallest_changes_that_fit(const FitQuestion& question, const CostModel& cost);

/// Returns caps of at least `peak_bytes` for devices with these caps, as one size where all devices have the same: memory "34MiB", or
/// "cpu:0=1GiB,cpu:1=2GiB". Devices without a cap are left out. Requires: as many of each, and some cap.
[[nodiscard]] FieldValue raised_caps(const std::vector<std::string>& devices, const std::vector<std::int64_t>& memory_bytes,
                                     const std::vector<std::int64_t>& peak_bytes);

/// Returns how many devices like `device` with this cap the plan's step needs as a 1f1b pipeline of one stage each. Micro-batches and
/// recomputation are the plan's; else everything is recomputed in micro-batches of one sample, 256 of them at most. Stops counting at
/// `most`.
[[nodiscard]] DevicesNeeded devices_needed(const Plan& plan, const std::string& device, std::int64_t cap_bytes, int most,
                                           const CostModel& cost);

}  // namespace mptune::planner

#pragma once

#include <optional>
#include <vector>

#include "planner/plan/plan.h"
#include "profiler/base/machine_use.h"
#include "tuner/trial/disturbance.h"
#include "tuner/trial/trial.h"

namespace mptune::tuner {

/// Returns the cores of the CPU devices in a series' plans, ascending; with ranks, only those of rank 0.
[[nodiscard]] std::vector<int> cores_of(const Series& series);

/// Notices what disturbs the rounds of a series: other programs and machines on its cores, a clock that slows down. Without cores, or where
/// the kernel does not report their use, it notices nothing. Use from one thread, while no device works.
class RoundWatch {
 public:
  explicit RoundWatch(std::vector<int> cores);
  /// Call it after each round. Rounds are judged together once they have lasted kLeastJudged. Returns those that were disturbed.
  [[nodiscard]] std::optional<DisturbedRounds> after_round(int round);

 private:
  std::vector<int> cores_;
  std::optional<MachineUse> before_;
  double usual_probe_s_;  ///< least so far
  int first_ = 0;         ///< the first round that is not judged yet
};

}  // namespace mptune::tuner

#pragma once

#include <optional>
#include <vector>

#include "planner/plan.h"
#include "profiler/base/machine_use.h"
#include "tuner/trial/disturbance.h"
#include "tuner/trial/trial.h"

namespace mptune::tuner {

/// Cores of the CPU devices of a series' plans, of rank 0's where there are ranks, ascending.
[[nodiscard]] std::vector<int> cores_of(const Series& series);

/// Notices what disturbs the rounds of a series: other programs and machines on its cores, a clock that falls. Without cores, or where the
/// kernel does not tell, it notices nothing. Use from one thread, while no device works.
class RoundWatch {
 public:
  explicit RoundWatch(std::vector<int> cores);
  /// To be called after each round. Rounds are judged together until they have lasted kLeastJudged; a value: these were disturbed.
  [[nodiscard]] std::optional<DisturbedRounds> after_round(int round);

 private:
  std::vector<int> cores_;
  std::optional<MachineUse> before_;
  double usual_probe_s_;  ///< least so far
  int first_ = 0;         ///< round that was not judged yet
};

}  // namespace mptune::tuner

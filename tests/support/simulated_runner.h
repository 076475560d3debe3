#pragma once

#include <cstdint>
#include <vector>

#include "planner/cost/cost_model.h"
#include "tuner/trial/trial.h"

namespace mptune::testing {

/// Returns predicted times with seeded log-normal noise and a shared drift.
class SimulatedRunner : public tuner::TrialRunner {
 public:
  struct Options {
    std::uint64_t seed = 0;
    double noise = 0.01;        ///< sigma of the logarithm, per step
    double model_error = 0.05;  ///< sigma of the logarithm, per plan
    double drift_per_step = 0;
    double start_s = 0;                      ///< what a series takes before its first step
    std::vector<std::int64_t> memory_bytes;  ///< caps; a plan that is predicted to need more is OutOfMemory
  };
  SimulatedRunner(CostModel cost, Options options);
  [[nodiscard]] std::vector<tuner::Trial> run(const tuner::Series& series) override;
  /// Returns the true step time of this runner's model.
  [[nodiscard]] double truth(const Plan& plan) const;

 private:
  CostModel cost_;
  Options options_;
  std::uint64_t steps_ = 0;
};

}  // namespace mptune::testing

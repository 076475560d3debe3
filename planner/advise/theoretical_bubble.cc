#include <algorithm>
#include <numeric>

#include "planner/advise/advise.h"
#include "planner/advise/even_profile.h"
#include "planner/simulate/simulate.h"
#include "profiler/base/index.h"

namespace mptune::planner {
namespace {

constexpr double kShortForward = 1e-3;  // seconds of a sample's forward in a whole stage, where no step is known

}  // namespace

double theoretical_bubble(const Plan& plan) {
  const Plan even = even_plan(plan);
  const Prediction prediction = predict(even, CostModel(even_profile(even, 1)));
  const double busy = std::accumulate(prediction.busy_s.begin(), prediction.busy_s.end(), 0.0);
  const double whole = prediction.step_s * static_cast<double>(plan.devices.size());
  return whole <= 0 ? 0 : std::max(0.0, 1 - busy / whole);
}

Simulation simulate_schedule(const Plan& plan, double step_s) {
  const Plan even = even_plan(plan);
  const double forward_s = step_s > 0 ? step_s / predict(even, CostModel(even_profile(even, 1))).step_s : kShortForward;
  return simulate(even, CostModel(even_profile(even, forward_s)));
}

}  // namespace mptune::planner

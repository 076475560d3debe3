#include "planner/search/found_plan_file.h"

#include <algorithm>

namespace mptune::planner {
namespace {

constexpr std::size_t kAlternatives = 5;

}  // namespace

PredictedStep predicted_step(const Prediction& prediction) {
  return {.step_s = prediction.step_s, .lower_bound_s = prediction.lower_bound_s, .peak_bytes = prediction.peak_bytes};
}

PlanFile found_plan_file(const SearchResult& result, const Profile& profile, const std::string& created,
                         const CandidateComparison& compared) {
  const Candidate& best = result.ranked.front();
  PlanFile file = new_plan_file(best.plan, profile.layers, profile.fingerprint, created);
  file.predicted = predicted_step(best.prediction);
  file.predicted->runtime = profile.runtime;
  for (std::size_t i = 1; i < std::min(kAlternatives + 1, result.ranked.size()); ++i)
    file.alternatives.push_back({compared(best, result.ranked[i]), result.ranked[i].plan});
  return file;
}

}  // namespace mptune::planner

#include "tuner/study/recommend/recommended_plan_file.h"

#include <algorithm>

#include "planner/search/found_plan_file.h"
#include "profiler/base/sha256.h"

namespace mptune::tuner {
namespace {

MeasuredStep measured_step_of(const Recommendation& recommendation) {
  const RecommendedPlan& best = recommendation.recommended;
  MeasuredStep measured{.step_s = best.step_s,
                        .step_ci95_s = best.step_ci95_s,
                        .step_samples = 0,
                        .peak_bytes = best.peak_bytes,
                        .verdict = best.verdict,
                        .speedup_over = "",
                        .speedup = {}};
  if (const auto* outcome = std::get_if<Measured>(&best.trial.outcome)) measured.step_samples = static_cast<int>(outcome->step_s.size());
  for (const BaselineResult* baseline : leading_baselines(recommendation)) {
    if (baseline->speedup.pairs == 0) continue;
    measured.speedup_over = baseline->name;
    measured.speedup = baseline->speedup;
    break;
  }
  return measured;
}

void add_alternative(PlanFile& file, const RecommendedPlan& best, const std::optional<RecommendedPlan>& other,
                     const RecommendedComparison& compared) {
  if (!other || other->trial.plan_key == best.trial.plan_key) return;
  const bool known = std::ranges::any_of(file.alternatives, [&](const AlternativePlan& plan) { return plan.plan == other->trial.plan; });
  if (!known) file.alternatives.push_back({compared(best, *other), other->trial.plan});
}

}  // namespace

PlanFile recommended_plan_file(const Recommendation& recommendation, const std::vector<ProfileLayer>& layers,
                               const Fingerprint& fingerprint, const std::string& identity, const std::string& created,
                               const RecommendedComparison& compared) {
  const RecommendedPlan& best = recommendation.recommended;
  PlanFile file = new_plan_file(best.trial.plan, layers, fingerprint, created);
  file.study = sha256(identity);
  file.trial = best.trial.id;
  if (best.trial.prediction) file.predicted = planner::predicted_step(*best.trial.prediction);
  file.measured = measured_step_of(recommendation);
  add_alternative(file, best, recommendation.best_pipeline, compared);
  add_alternative(file, best, recommendation.best_half_memory, compared);
  return file;
}

}  // namespace mptune::tuner

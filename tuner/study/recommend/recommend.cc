#include "tuner/study/recommend/recommend.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "planner/plan/plan_words.h"
#include "planner/search/baselines.h"
#include "profiler/base/index.h"
#include "tuner/study/explore/trial_search.h"
#include "tuner/study/recommend/finalists.h"
#include "tuner/trial/series_rounds.h"

namespace mptune::tuner {
namespace {

constexpr double kSame = 0.02;
constexpr double kPredictionOff = 0.15;
constexpr int kEnoughPairs = 10;

struct Finalist {
  const Trial* trial = nullptr;
  const Measured* measured = nullptr;
  double step_s = 0;
  std::int64_t peak_bytes = 0;
  int copies = 0;

  [[nodiscard]] bool is_baseline() const { return trial->name != kCandidateName; }
};

// Returns the number of copies between devices in a step: activations, gradients, and sums over replicas.
int count_copies(const Plan& plan) {
  int copies = 0;
  for (const Stage& stage : plan.stages) copies += 2 * (static_cast<int>(stage.devices.size()) - 1);
  for (int s = 1; s < plan.num_stages(); ++s) {
    const auto later = as_index(s);
    for (int m = 0; m < plan.num_microbatches(); ++m)
      if (device_of(plan.stages[later - 1], m) != device_of(plan.stages[later], m)) copies += 2;
  }
  return copies;
}

std::vector<Finalist> finalists_of(const std::vector<Trial>& trials) {
  std::vector<Finalist> finalists;
  for (const Trial& trial : trials) {
    const auto* measured = std::get_if<Measured>(&trial.outcome);
    if (measured == nullptr || measured->step_s.empty()) continue;
    finalists.push_back({&trial, measured, median(measured->step_s), largest_peak(trial), count_copies(trial.plan)});
  }
  std::stable_sort(finalists.begin(), finalists.end(), [](const Finalist& a, const Finalist& b) { return a.step_s < b.step_s; });
  return finalists;
}

Speedup speedup(const Finalist& baseline, const Finalist& candidate) {
  return paired_speedup(baseline.measured->step_s, candidate.measured->step_s);
}

/// Returns the speed-up of the recommended plan over a baseline.
Speedup speedup_of_choice(const Finalist& baseline, const Finalist& chosen) {
  return paired_speedup(baseline.measured->step_s, chosen.measured->step_s, kConfidenceOfChoice);
}

// Returns true if a plan is not measurably slower than the fastest, and at most 2 % slower by the estimate.
bool ties(const Finalist& fastest, const Finalist& other) {
  const Speedup behind = speedup(other, fastest);
  if (behind.verdict == Verdict::same) return true;
  return behind.verdict == Verdict::ambiguous && behind.estimate <= 1 + kSame;
}

double predicted_step(const Finalist& finalist) {
  return finalist.trial->prediction ? finalist.trial->prediction->step_s : std::numeric_limits<double>::infinity();
}

// Prefers less memory, then fewer copies, then a baseline, then the smaller prediction. Between equals the shortest measured step would
// be luck, and the speed-up of a lucky plan is over-estimated.
bool preferred(const Finalist& a, const Finalist& b) {
  const double larger = static_cast<double>(std::max(a.peak_bytes, b.peak_bytes));
  if (std::abs(static_cast<double>(a.peak_bytes - b.peak_bytes)) > kSame * larger) return a.peak_bytes < b.peak_bytes;
  if (a.copies != b.copies) return a.copies < b.copies;
  if (a.is_baseline() != b.is_baseline()) return a.is_baseline();
  return predicted_step(a) < predicted_step(b);
}

/// Chooses a plan, and appends why it is not simply the fastest. `among` is ordered by time and not empty.
Finalist choose(const std::vector<Finalist>& among, std::vector<Reason>& reasons) {
  const Finalist& fastest = among.front();
  Finalist chosen = fastest;
  for (const Finalist& other : among)
    if (other.trial != fastest.trial && ties(fastest, other) && preferred(other, chosen)) chosen = other;
  if (chosen.trial == fastest.trial) return chosen;
  const bool memory =
      std::abs(static_cast<double>(chosen.peak_bytes - fastest.peak_bytes)) > kSame * static_cast<double>(fastest.peak_bytes);
  reasons.emplace_back(AsFastAs{.fastest = fastest.trial->plan,
                                .by = memory                           ? TieBreak::less_memory
                                      : chosen.copies < fastest.copies ? TieBreak::fewer_copies
                                      : chosen.is_baseline()           ? TieBreak::familiar
                                                                       : TieBreak::smaller_prediction});
  return chosen;
}

template <class Condition>
std::vector<Finalist> those(const std::vector<Finalist>& finalists, Condition condition) {
  std::vector<Finalist> kept;
  std::copy_if(finalists.begin(), finalists.end(), std::back_inserter(kept), condition);
  return kept;
}

std::optional<Finalist> best_other_baseline(const std::vector<Finalist>& finalists, const Finalist& than) {
  for (const Finalist& finalist : finalists)
    if (finalist.is_baseline() && finalist.trial->plan_key != than.trial->plan_key) return finalist;
  return std::nullopt;
}

RecommendedPlan filled(const Finalist& finalist, const std::vector<Finalist>& finalists, std::vector<Reason> reasons) {
  RecommendedPlan plan;
  plan.trial = *finalist.trial;
  plan.description = describe(finalist.trial->plan);
  plan.step_s = finalist.step_s;
  plan.step_ci95_s = interval95(finalist.measured->step_s);
  plan.peak_bytes = peak_bytes_of(*finalist.trial);
  plan.reasons = std::move(reasons);
  if (const auto baseline = best_other_baseline(finalists, finalist)) {
    const Speedup over = speedup_of_choice(*baseline, finalist);
    plan.verdict = over.verdict;
    plan.reasons.emplace_back(OverBaseline{baseline->trial->name, over});
  }
  if (const auto& prediction = finalist.trial->prediction) {
    plan.predicted_step_s = prediction->step_s;
    plan.reasons.emplace_back(PredictedAndMeasured{prediction->step_s, finalist.step_s});
    if (finalist.trial->plan.num_stages() > 1) plan.reasons.emplace_back(LongestStage{prediction->limiting_stage});
  }
  return plan;
}

PlanBeside beside(const Finalist& other, const Finalist& recommended) {
  PlanBeside beside{.plan = other.trial->plan, .time_ratio = speedup(other, recommended).estimate};
  if (recommended.peak_bytes > 0 && other.peak_bytes > 0)
    beside.memory_ratio = static_cast<double>(other.peak_bytes) / static_cast<double>(recommended.peak_bytes);
  return beside;
}

struct Choice {
  Finalist recommended;
  std::optional<Finalist> pipeline;
  std::optional<Finalist> half_memory;
};

struct Compared {
  bool several = true;        ///< several plans were measured
  bool any_pipeline = false;  ///< the final series left out a measured pipeline, as its own trial was far slower
  bool all_baselines = true;  ///< all baselines were measured
  bool all_plans = true;      ///< all plans that may be faster were measured
  bool shortest = true;       ///< no plan had shorter steps than the recommended one
};

std::vector<PlanAdvice> advice_of(const Choice& choice, Verdict verdict, const Compared& compared) {
  const Trial& best = *choice.recommended.trial;
  if (!compared.several) return {OnlyPlanMeasured{best.plan}};
  const bool other_pipeline = choice.pipeline && choice.pipeline->trial != &best;
  FastestHere fastest{.name = best.name,
                      .plan = best.plan,
                      .any_pipeline = choice.pipeline || compared.any_pipeline,
                      .all_measured = compared.all_plans,
                      .shortest = compared.shortest};
  if (other_pipeline) fastest.pipeline = beside(*choice.pipeline, choice.recommended);
  std::vector<PlanAdvice> advice;
  advice.emplace_back(std::move(fastest));
  const bool told = choice.half_memory && choice.pipeline && choice.half_memory->trial == choice.pipeline->trial;
  if (choice.half_memory && !told && choice.half_memory->trial != &best)
    advice.emplace_back(BestInHalfMemory{beside(*choice.half_memory, choice.recommended)});
  if (verdict == Verdict::same || verdict == Verdict::ambiguous) advice.emplace_back(NothingBeatsBaselines{compared.all_baselines});
  return advice;
}

bool any_pipeline_far_behind(const Unmeasured& unmeasured, double step_s) {
  return std::ranges::any_of(unmeasured.baselines, [&](const UnmeasuredPlan& plan) {
    return std::holds_alternative<NotInFinal>(plan.why) && plan.plan && plan.plan->num_stages() > 1 &&
           plan.alone_s.value_or(0) > kRivalWithin * step_s;
  });
}

/// Returns plans that may still be more than 5 % faster than the recommended one.
std::vector<Finalist> undecided_rivals(const std::vector<Finalist>& finalists, const Finalist& recommended) {
  return those(finalists, [&](const Finalist& rival) {
    if (rival.trial->plan_key == recommended.trial->plan_key) return false;
    const Speedup ahead = speedup(rival, recommended);
    constexpr int kPairsOfARange = 2;
    if (ahead.verdict == Verdict::unknown) return ahead.pairs < kPairsOfARange || ahead.range->low < 1;
    const double least = ahead.ci95 ? ahead.ci95->low : ahead.range->low;
    return (ahead.verdict == Verdict::ambiguous || ahead.verdict == Verdict::slow) && least < 1 - kAtStake;
  });
}

/// Returns plans whose steps are as long as the recommended plan's within 5 %, with 95 % confidence.
AsFastAsOthers equivalents_of(const std::vector<Finalist>& finalists, const Finalist& recommended) {
  AsFastAsOthers alike{.plans = {}, .within = kAtStake};
  for (const Finalist& other : finalists) {
    if (other.trial->plan_key == recommended.trial->plan_key) continue;
    const Speedup behind = speedup(other, recommended);
    if (!behind.ci95 || behind.ci95->low < 1 - kAtStake || behind.ci95->high > 1 + kAtStake) continue;
    alike.plans.push_back(other.is_baseline() ? other.trial->name : describe(other.trial->plan));
  }
  return alike;
}

/// Returns whether more rounds might tell a plan from the recommended one. A plan that left the series early for lack of time is no rival
/// if it was far slower in each of its rounds.
bool any_unclear(const std::vector<Finalist>& finalists, const Finalist& recommended) {
  const int rounds = static_cast<int>(recommended.measured->step_s.size());
  return std::ranges::any_of(finalists, [&](const Finalist& other) {
    if (other.trial->plan_key == recommended.trial->plan_key) return false;
    const Speedup over = speedup_of_choice(other, recommended);
    const bool left_far_behind = over.pairs > 0 && over.pairs < rounds && over.range->low >= kRivalWithin;
    return over.verdict == Verdict::ambiguous || (over.verdict == Verdict::unknown && !left_far_behind);
  });
}

std::vector<Warning> warnings_of(const std::vector<Finalist>& finalists, const Choice& choice, const std::vector<Finalist>& rivals) {
  std::vector<Warning> warnings;
  for (const Finalist& finalist : finalists) {
    const bool shown = finalist.trial == choice.recommended.trial || (choice.pipeline && finalist.trial == choice.pipeline->trial);
    if (!shown || !finalist.trial->prediction) continue;
    const double predicted = finalist.trial->prediction->step_s;
    if (std::abs(finalist.step_s - predicted) <= kPredictionOff * finalist.step_s) continue;
    warnings.emplace_back(PredictionOff{finalist.trial->plan, predicted, finalist.step_s});
  }
  if (const Noise& noise = choice.recommended.measured->noise; noise.worst) warnings.emplace_back(NoisySeries{noise});
  for (const Finalist& finalist : finalists)
    if (const auto modes = two_modes(finalist.measured->step_s)) warnings.emplace_back(StepsInTwoModes{finalist.trial->plan, *modes});
  const auto rounds = static_cast<int>(choice.recommended.measured->step_s.size());
  if (rounds < kEnoughPairs && any_unclear(finalists, choice.recommended)) warnings.emplace_back(FewRounds{rounds, kEnoughPairs});
  if (!rivals.empty()) warnings.emplace_back(Undecided{rivals.front().trial->plan});
  return warnings;
}

std::vector<BaselineResult> baselines_of(const std::vector<Trial>& trials, const std::vector<Finalist>& finalists,
                                         const Finalist& recommended) {
  std::vector<BaselineResult> baselines;
  for (const Trial& trial : trials) {
    const auto found = std::find_if(finalists.begin(), finalists.end(), [&](const Finalist& f) { return f.trial == &trial; });
    if (found == finalists.end() || !found->is_baseline()) continue;
    baselines.push_back({trial.name, trial, found->step_s, interval95(found->measured->step_s), peak_bytes_of(trial),
                         speedup_of_choice(*found, recommended)});
  }
  return baselines;
}

}  // namespace

std::optional<Recommendation> recommend(const std::vector<Trial>& final_series, std::int64_t single_device_peak_bytes,
                                        const std::string& not_benchmarked, Unmeasured unmeasured) {
  const std::vector<Finalist> finalists = finalists_of(final_series);
  if (finalists.empty()) return std::nullopt;
  Recommendation result;
  std::vector<Reason> reasons;
  Choice choice{choose(finalists, reasons), std::nullopt, std::nullopt};
  if (reasons.empty()) reasons.push_back(finalists.size() == 1 ? Reason(OnlyFinalist{}) : FastestOf{static_cast<int>(finalists.size())});
  result.recommended = filled(choice.recommended, finalists, std::move(reasons));

  const auto is_pipeline = [](const Finalist& f) { return f.trial->plan.num_stages() > 1; };
  if (const auto pipelines = those(finalists, is_pipeline); !pipelines.empty()) {
    std::vector<Reason> why{FastestPipeline{}};
    const bool same = is_pipeline(choice.recommended);
    choice.pipeline = same ? choice.recommended : choose(pipelines, why);
    result.best_pipeline = filled(*choice.pipeline, finalists, std::move(why));
  }
  const auto in_half = [&](const Finalist& f) { return f.peak_bytes > 0 && 2 * f.peak_bytes <= single_device_peak_bytes; };
  if (const auto small = those(finalists, in_half); !small.empty()) {
    std::vector<Reason> why{FastestInHalfMemory{}};
    choice.half_memory = in_half(choice.recommended) ? choice.recommended : choose(small, why);
    result.best_half_memory = filled(*choice.half_memory, finalists, std::move(why));
  }

  const std::vector<Finalist> rivals = undecided_rivals(finalists, choice.recommended);
  result.decided = rivals.empty() && not_benchmarked.empty();
  result.baselines = baselines_of(final_series, finalists, choice.recommended);
  result.unmeasured = std::move(unmeasured);
  const std::vector<Warning> gaps = warnings_of(
      result.unmeasured, result.recommended.predicted_step_s > 0 ? result.recommended.predicted_step_s : result.recommended.step_s);
  result.advice = advice_of(choice, result.recommended.verdict,
                            {.several = finalists.size() > 1 || not_benchmarked.empty(),
                             .any_pipeline = any_pipeline_far_behind(result.unmeasured, result.recommended.step_s),
                             .all_baselines = result.unmeasured.baselines.empty(),
                             .all_plans = result.unmeasured.baselines.empty() && gaps.empty(),
                             .shortest = choice.recommended.trial == finalists.front().trial});
  if (AsFastAsOthers alike = equivalents_of(finalists, choice.recommended); !alike.plans.empty())
    result.advice.emplace_back(std::move(alike));
  result.warnings = warnings_of(finalists, choice, rivals);
  if (!not_benchmarked.empty()) result.warnings.emplace_back(NoTimeToMeasure{not_benchmarked});
  result.warnings.insert(result.warnings.end(), gaps.begin(), gaps.end());
  return result;
}

std::vector<const BaselineResult*> leading_baselines(const Recommendation& recommendation) {
  std::vector<const BaselineResult*> leading;
  const auto lead_with_fastest = [&](auto condition) {
    const BaselineResult* fastest = nullptr;
    for (const BaselineResult& baseline : recommendation.baselines) {
      if (baseline.trial.plan_key == recommendation.recommended.trial.plan_key || baseline.step_s <= 0 || !condition(baseline)) continue;
      if (fastest == nullptr || baseline.step_s < fastest->step_s) fastest = &baseline;
    }
    const auto same = [&](const BaselineResult* other) { return other->trial.plan_key == fastest->trial.plan_key; };
    if (fastest != nullptr && std::ranges::none_of(leading, same)) leading.push_back(fastest);
  };
  lead_with_fastest([](const BaselineResult& baseline) { return is_unpipelined(baseline.trial.plan); });
  lead_with_fastest([](const BaselineResult& baseline) { return baseline.name == planner::kSingleDeviceBaseline; });
  lead_with_fastest([](const BaselineResult&) { return true; });
  return leading;
}

void say_what_was_asked(Recommendation& recommendation, const std::string& asked) {
  const auto baseline = std::ranges::find(recommendation.baselines, planner::kAskedBaseline, &BaselineResult::name);
  if (!asked.empty() && baseline != recommendation.baselines.end())
    recommendation.advice.emplace_back(AskedFor{.options = asked, .plan = baseline->trial.plan});
}

void warn_of_changes(Recommendation& recommendation, const std::vector<ProfileLayer>& layers) {
  if (auto changed = planner::changed_numerics(recommendation.recommended.trial.plan, layers))
    recommendation.warnings.emplace_back(TrainsOtherwise{std::move(*changed)});
}

}  // namespace mptune::tuner

#include "mptune/tuner/recommend.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "mptune/planner/search/search.h"
#include "mptune/profiler/base/text.h"
#include "mptune/tuner/finalists.h"
#include "mptune/tuner/printed.h"
#include "mptune/tuner/search/trial_search.h"

namespace mptune {
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

// Boundaries that a step's activations and gradients cross between devices, and gradients that replicas exchange.
int count_copies(const Plan& plan) {
  int copies = 0;
  for (const Stage& stage : plan.stages) copies += 2 * (static_cast<int>(stage.devices.size()) - 1);
  for (int s = 1; s < plan.num_stages(); ++s) {
    const auto later = static_cast<std::size_t>(s);
    for (int m = 0; m < plan.num_microbatches(); ++m) {
      if (device_of(plan.stages[later - 1], m) != device_of(plan.stages[later], m)) copies += 2;
    }
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

// As fast as the fastest as far as the samples can tell, and no more than the width of "same" behind it.
bool ties(const Finalist& fastest, const Finalist& other) {
  const Speedup behind = speedup(other, fastest);
  if (behind.verdict == Verdict::same) return true;
  return behind.verdict == Verdict::ambiguous && behind.estimate <= 1 + kSame;
}

// Less memory, then fewer copies, then what users know already.
bool preferred(const Finalist& a, const Finalist& b) {
  const double larger = static_cast<double>(std::max(a.peak_bytes, b.peak_bytes));
  if (std::abs(static_cast<double>(a.peak_bytes - b.peak_bytes)) > kSame * larger) return a.peak_bytes < b.peak_bytes;
  if (a.copies != b.copies) return a.copies < b.copies;
  return a.is_baseline() && !b.is_baseline();
}

/// `among` is ordered by time and not empty. Appends why the choice is not simply the fastest.
Finalist choose(const std::vector<Finalist>& among, std::vector<std::string>& reasons) {
  const Finalist& fastest = among.front();
  Finalist chosen = fastest;
  for (const Finalist& other : among) {
    if (other.trial != fastest.trial && ties(fastest, other) && preferred(other, chosen)) chosen = other;
  }
  if (chosen.trial == fastest.trial) return chosen;
  const bool memory =
      std::abs(static_cast<double>(chosen.peak_bytes - fastest.peak_bytes)) > kSame * static_cast<double>(fastest.peak_bytes);
  reasons.push_back("as fast as " + describe(fastest.trial->plan) + " within what was measured, with " +
                    (memory                           ? "less memory"
                     : chosen.copies < fastest.copies ? "fewer copies"
                                                      : "nothing new to set up"));
  return chosen;
}

template <class Condition>
std::vector<Finalist> those(const std::vector<Finalist>& finalists, Condition condition) {
  std::vector<Finalist> kept;
  std::copy_if(finalists.begin(), finalists.end(), std::back_inserter(kept), condition);
  return kept;
}

std::optional<Finalist> best_other_baseline(const std::vector<Finalist>& finalists, const Finalist& than) {
  for (const Finalist& finalist : finalists) {
    if (finalist.is_baseline() && finalist.trial->plan_key != than.trial->plan_key) return finalist;
  }
  return std::nullopt;
}

RecommendedPlan filled(const Finalist& finalist, const std::vector<Finalist>& finalists, std::vector<std::string> reasons) {
  RecommendedPlan plan;
  plan.trial = *finalist.trial;
  plan.description = describe(finalist.trial->plan);
  plan.step_s = finalist.step_s;
  plan.step_ci95_s = interval95(finalist.measured->step_s);
  plan.peak_bytes = peak_bytes_of(*finalist.trial);
  plan.reasons = std::move(reasons);
  if (const auto baseline = best_other_baseline(finalists, finalist)) {
    const Speedup over = speedup(*baseline, finalist);
    plan.verdict = over.verdict;
    plan.reasons.push_back(printed("%.2f times as fast as %s: %s", over.estimate, baseline->trial->name.c_str(), over.reason.c_str()));
  }
  if (const auto& prediction = finalist.trial->prediction) {
    plan.predicted_step_s = prediction->step_s;
    plan.reasons.push_back(printed("predicted %.4g s, measured %.4g s (%+.1f %%)", prediction->step_s, finalist.step_s,
                                   100 * (finalist.step_s / prediction->step_s - 1)));
    if (finalist.trial->plan.num_stages() > 1) plan.reasons.push_back(printed("stage %d computes longest", prediction->limiting_stage));
  }
  return plan;
}

std::string lead(const Finalist& finalist) {
  switch (parallelism_of(finalist.trial->plan)) {
    case Parallelism::one_device:
    case Parallelism::all_cores:
      return "the un-pipelined model";
    case Parallelism::data_parallel:
      return "data parallel";
    case Parallelism::pipeline:
      return "a pipeline";
    case Parallelism::hybrid:
      return "a hybrid of data parallel and pipeline";
  }
  return "this plan";
}

std::string time_clause(double ratio) {
  if (std::abs(ratio - 1) <= 0.005) return "is as fast";
  return (ratio >= 2 ? "takes " : "is ") + compared_time(ratio, 0);
}

std::string memory_clause(const Finalist& of, const Finalist& than) {
  if (than.peak_bytes <= 0 || of.peak_bytes <= 0) return "";
  const double ratio = static_cast<double>(of.peak_bytes) / static_cast<double>(than.peak_bytes);
  if (ratio < 0.995) return printed(" and needs %.0f %% less memory per device", 100 * (1 - ratio));
  if (ratio > 1.005) return printed(" and needs %.0f %% more memory per device", 100 * (ratio - 1));
  return " and needs as much memory per device";
}

std::string beside(const char* which, const Finalist& other, const Finalist& recommended) {
  const double ratio = speedup(other, recommended).estimate;
  return std::string("the best ") + which + " (" + describe(other.trial->plan) + ") " + time_clause(ratio) +
         memory_clause(other, recommended);
}

struct Choice {
  Finalist recommended;
  std::optional<Finalist> pipeline;
  std::optional<Finalist> half_memory;
};

std::vector<std::string> advice_of(const Choice& choice, Verdict verdict, bool raced) {
  std::vector<std::string> advice;
  if (!raced) return {lead(choice.recommended) + " is the only plan that was measured: which plan is fastest here is not known"};
  const Parallelism kind = parallelism_of(choice.recommended.trial->plan);
  std::string head = lead(choice.recommended) + " is fastest here";
  if (kind == Parallelism::one_device) {
    head = choice.pipeline ? "no split beats the un-pipelined model here: " + choice.recommended.trial->name + " is fastest"
                           : choice.recommended.trial->name + " is fastest of what was measured; no pipeline was";
  } else if (kind == Parallelism::pipeline || kind == Parallelism::hybrid) {
    head += ": " + describe(choice.recommended.trial->plan);
  }
  if (choice.pipeline && choice.pipeline->trial != choice.recommended.trial) {
    head += "; " + beside("pipeline", *choice.pipeline, choice.recommended);
  }
  advice.push_back(head);
  const bool told = choice.half_memory && choice.pipeline && choice.half_memory->trial == choice.pipeline->trial;
  if (choice.half_memory && !told && choice.half_memory->trial != choice.recommended.trial) {
    advice.push_back(beside("plan in half the memory of the un-pipelined model", *choice.half_memory, choice.recommended));
  }
  if (verdict == Verdict::same || verdict == Verdict::ambiguous) advice.emplace_back("nothing is measurably faster than the best baseline");
  return advice;
}

/// Plans that may still be faster than the recommended one by more than the width of "same".
std::vector<Finalist> undecided_rivals(const std::vector<Finalist>& finalists, const Finalist& recommended) {
  return those(finalists, [&](const Finalist& rival) {
    if (rival.trial->plan_key == recommended.trial->plan_key) return false;
    const Speedup ahead = speedup(rival, recommended);
    constexpr int kPairsOfAnInterval = 2;
    if (ahead.verdict == Verdict::unknown) return ahead.pairs < kPairsOfAnInterval || ahead.ci95.low < 1;
    return ahead.verdict == Verdict::ambiguous && ahead.ci95.low < 1 - kSame;
  });
}

std::vector<std::string> warnings_of(const std::vector<Finalist>& finalists, const Choice& choice, const std::vector<Finalist>& rivals) {
  std::vector<std::string> warnings;
  for (const Finalist& finalist : finalists) {
    const bool shown = finalist.trial == choice.recommended.trial || (choice.pipeline && finalist.trial == choice.pipeline->trial);
    if (!shown || !finalist.trial->prediction) continue;
    const double predicted = finalist.trial->prediction->step_s;
    if (std::abs(finalist.step_s - predicted) <= kPredictionOff * finalist.step_s) continue;
    warnings.push_back(printed(
        "the prediction of %s is off by %.0f %% (%.4g s, measured %.4g s): plans that were not measured may be better",
        describe(finalist.trial->plan).c_str(), 100 * std::abs(finalist.step_s - predicted) / finalist.step_s, predicted, finalist.step_s));
  }
  const auto rounds = static_cast<int>(choice.recommended.measured->step_s.size());
  if (rounds < kEnoughPairs) {
    warnings.push_back(printed("only %d interleaved rounds, %d are wanted: give a larger --budget", rounds, kEnoughPairs));
  }
  if (!rivals.empty()) {
    warnings.push_back("undecided at the end of the budget: " + describe(rivals.front().trial->plan) +
                       " may be faster; give a larger --budget and a quieter machine");
  }
  return warnings;
}

std::vector<BaselineResult> baselines_of(const std::vector<Trial>& trials, const std::vector<Finalist>& finalists,
                                         const Finalist& recommended) {
  std::vector<BaselineResult> baselines;
  for (const Trial& trial : trials) {
    const auto found = std::find_if(finalists.begin(), finalists.end(), [&](const Finalist& f) { return f.trial == &trial; });
    if (found == finalists.end() || !found->is_baseline()) continue;
    baselines.push_back(
        {trial.name, trial, found->step_s, interval95(found->measured->step_s), peak_bytes_of(trial), speedup(*found, recommended)});
  }
  return baselines;
}

}  // namespace

std::optional<Recommendation> recommend(const std::vector<Trial>& final_series, std::int64_t single_device_peak_bytes,
                                        const std::string& not_raced) {
  const std::vector<Finalist> finalists = finalists_of(final_series);
  if (finalists.empty()) return std::nullopt;
  Recommendation result;
  std::vector<std::string> reasons{finalists.size() == 1 ? "the only plan in the final comparison"
                                                         : printed("fastest of %zu plans benchmarked interleaved", finalists.size())};
  Choice choice{choose(finalists, reasons), std::nullopt, std::nullopt};
  if (reasons.size() > 1) reasons.erase(reasons.begin());
  result.recommended = filled(choice.recommended, finalists, std::move(reasons));

  const auto is_pipeline = [](const Finalist& f) { return f.trial->plan.num_stages() > 1; };
  if (const auto pipelines = those(finalists, is_pipeline); !pipelines.empty()) {
    std::vector<std::string> why{"fastest pipeline"};
    const bool same = is_pipeline(choice.recommended);
    choice.pipeline = same ? choice.recommended : choose(pipelines, why);
    result.best_pipeline = filled(*choice.pipeline, finalists, std::move(why));
  }
  const auto in_half = [&](const Finalist& f) { return f.peak_bytes > 0 && 2 * f.peak_bytes <= single_device_peak_bytes; };
  if (const auto small = those(finalists, in_half); !small.empty()) {
    std::vector<std::string> why{"fastest in at most half the memory of the un-pipelined model"};
    choice.half_memory = in_half(choice.recommended) ? choice.recommended : choose(small, why);
    result.best_half_memory = filled(*choice.half_memory, finalists, std::move(why));
  }

  const std::vector<Finalist> rivals = undecided_rivals(finalists, choice.recommended);
  result.decided = rivals.empty() && not_raced.empty();
  result.baselines = baselines_of(final_series, finalists, choice.recommended);
  result.advice = advice_of(choice, result.recommended.verdict, finalists.size() > 1 || not_raced.empty());
  result.warnings = warnings_of(finalists, choice, rivals);
  if (!not_raced.empty()) {
    result.warnings.push_back("no time to measure " + not_raced +
                              " interleaved with the others; mptune tune --resume with a larger --budget does");
  }
  return result;
}

}  // namespace mptune

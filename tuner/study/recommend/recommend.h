#pragma once

#include <optional>
#include <string>
#include <vector>

#include "planner/plan/numerics.h"
#include "planner/plan/parallelism.h"
#include "profiler/trace/statistics/verdict.h"
#include "tuner/study/recommend/reasons.h"
#include "tuner/study/recommend/unmeasured.h"
#include "tuner/trial/trial.h"

namespace mptune::tuner {

/// The confidence of the interval of a speed-up of the recommended plan (see paired_speedup). It is high because the fastest of several
/// plans was lucky more often than one plan is. So of equal plans fewer than 5 % are called faster than the best baseline
/// (equal_plans_test.cc).
inline constexpr double kConfidenceOfChoice = 0.975;

/// A plan with its evidence.
struct RecommendedPlan {
  Trial trial;  ///< of the final, interleaved series; outcome is Measured
  std::string description;
  double step_s = 0;
  std::optional<Interval> step_ci95_s;
  double predicted_step_s = 0;
  std::vector<std::int64_t> peak_bytes;
  Verdict verdict = Verdict::unknown;  ///< against the best baseline of another plan
  std::vector<Reason> reasons;
};

struct BaselineResult {
  std::string name;
  Trial trial;
  double step_s = 0;
  std::optional<Interval> step_ci95_s;
  std::vector<std::int64_t> peak_bytes;
  Speedup speedup;  ///< of the recommended plan over the baseline
};

/// What one kind of parallelism came to.
struct KindResult {
  planner::Parallelism kind = planner::Parallelism::one_device;
  std::optional<Trial> trial;  ///< of its best measured plan; the rest says nothing without it
  bool best = false;           ///< the recommended plan's kind
  double step_s = 0;
  std::optional<Interval> step_ci95_s;
  std::vector<std::int64_t> peak_bytes;    ///< per device of its plan
  std::optional<Speedup> over_one_device;  ///< of this kind over one device, where the last series has both
  std::optional<Speedup> over_best;        ///< of this kind over the recommended plan, where the last series has both
  WhyNot why_not;                          ///< why the kind is not in the last series
  std::string description;                 ///< of its plan, measured or predicted; "" without a plan
  double predicted_step_s = 0;             ///< of that plan; 0: no plan
};

/// The answer to "which kind of parallelism?".
struct KindComparison {
  std::vector<KindResult> rows;    ///< a row per kind, always in the same order
  std::vector<KindAdvice> advice;  ///< the answer first
};

struct Recommendation {
  RecommendedPlan recommended;  ///< the fastest plan that fits, whatever its kind
  std::optional<RecommendedPlan> best_pipeline;
  std::optional<RecommendedPlan> best_half_memory;  ///< fastest whose largest peak is at most half of the un-pipelined model's
  std::vector<BaselineResult> baselines;            ///< measured in the last series
  Unmeasured unmeasured;                            ///< baselines that were not measured, and failed candidates
  KindComparison kinds;                             ///< filled by compare_kinds
  std::vector<PlanAdvice> advice;
  std::vector<Warning> warnings;
  bool decided = true;  ///< false: at the end of the budget another finalist may still be more than 5 % faster
};

/// Chooses a plan from the trials of the last series (finalists and baselines, interleaved). Empty where none was measured.
/// Ties (verdict SAME or AMBIGUOUS) go to less memory, then fewer copies. The recommendation says so when the un-pipelined model is
/// fastest. `not_benchmarked`: descriptions of rivals that the series had no time for; if there are any, nothing is decided.
/// `unmeasured`: plans that it is not compared with; if there are any, the recommended plan is called the fastest only of those that were
/// measured.
[[nodiscard]] std::optional<Recommendation> recommend(const std::vector<Trial>& final_series, std::int64_t single_device_peak_bytes,
                                                      const std::string& not_benchmarked = {}, Unmeasured unmeasured = {});

/// Returns the baselines that the recommended plan is compared with in words, never the plan itself and none twice: the fastest
/// un-pipelined run, which is what a user has without mptune, one device, and the fastest of all.
[[nodiscard]] std::vector<const BaselineResult*> leading_baselines(const Recommendation& recommendation);

/// Adds that baselines are measured whatever the `asked` options are; "" for no options.
void say_what_was_asked(Recommendation& recommendation, const std::string& asked);

/// Adds a warning where training by the recommended plan computes something else than training on one device.
void warn_of_changes(Recommendation& recommendation, const std::vector<ProfileLayer>& layers);

}  // namespace mptune::tuner

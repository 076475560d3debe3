#pragma once

#include <optional>
#include <string>
#include <vector>

#include "mptune/profiler/statistics/verdict.h"
#include "mptune/tuner/trial/trial.h"

namespace mptune {

/// A plan with its evidence.
struct RecommendedPlan {
  Trial trial;  ///< of the final, interleaved series; outcome is Measured
  std::string description;
  double step_s = 0;
  Interval step_ci95_s;
  double predicted_step_s = 0;
  std::vector<std::int64_t> peak_bytes;
  Verdict verdict = Verdict::unknown;  ///< against the best baseline of another plan
  std::vector<std::string> reasons;    ///< recorded where they were decided
};

struct BaselineResult {
  std::string name;
  Trial trial;
  double step_s = 0;
  Interval step_ci95_s;
  Speedup speedup;  ///< of the recommendation over it
};

struct Recommendation {
  RecommendedPlan recommended;  ///< the fastest that fits, whatever its kind
  std::optional<RecommendedPlan> best_pipeline;
  std::optional<RecommendedPlan> best_half_memory;  ///< fastest whose largest peak is at most half of the un-pipelined model's
  std::vector<BaselineResult> baselines;
  std::vector<std::string>
      advice;  ///< sentences: "data parallel is fastest here; this pipeline is 8 % slower and needs 45 % less memory per device"
  std::vector<std::string> warnings;
  bool decided = true;  ///< false: finalists undecided at the end of the budget
};

/// Chooses from the trials of the last series (finalists and baselines, interleaved). Empty where none was measured.
/// Ties (verdict SAME or AMBIGUOUS) go to less memory, then fewer copies. Says so when the un-pipelined model is fastest.
/// `not_raced`: descriptions of finalists that the series had no time for; with any, nothing is decided.
[[nodiscard]] std::optional<Recommendation> recommend(const std::vector<Trial>& final_series, std::int64_t single_device_peak_bytes,
                                                      const std::string& not_raced = {});

}  // namespace mptune

#pragma once

#include <string>
#include <vector>

#include "reports/values/report.h"

namespace mptune::reports {

/// Returns the answer of a study in one sentence with its evidence: "Pipeline of 2 stages, 1f1b, 4 micro-batches of 4: 1.12 times as fast
/// as all cores as one device (95 % interval 1.06 to 1.19); 1.73 times as fast as one device (95 % interval 1.68 to 1.79)."
[[nodiscard]] std::string answer_sentence(const StudyReport& report);
/// Returns a baseline's name in words: "one device", "naive model parallelism".
[[nodiscard]] std::string baseline_words(const std::string& name);
/// Returns the baselines that the answer names: the first two of tuner::leading_baselines().
[[nodiscard]] std::vector<const tuner::BaselineResult*> compared_baselines(const tuner::Recommendation& all);
/// Returns "95 % [1.68, 1.79], FAST"; for few pairs "1.61 to 1.84 in 4 pairs, FAST".
[[nodiscard]] std::string verdict_detail(const Speedup& speedup);
/// Returns "1.73x".
[[nodiscard]] std::string times_text(double ratio);

}  // namespace mptune::reports

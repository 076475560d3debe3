#pragma once

#include <string>

#include "reports/report.h"

namespace mptune::reports {

/// The answer of a study in one sentence with its evidence: "Pipeline of 2 stages, 1f1b, 4 micro-batches of 4: 1.73 times as fast as one
/// device (95 % interval 1.68 to 1.79)."
[[nodiscard]] std::string answer_sentence(const StudyReport& report);
/// A baseline's name in words: "one device", "naive model parallelism".
[[nodiscard]] std::string baseline_words(const std::string& name);
/// The baseline that the answer is compared with: one device where it was measured, else the fastest of another plan; nullptr without any.
[[nodiscard]] const tuner::BaselineResult* compared_baseline(const tuner::Recommendation& all);
/// "1.73x".
[[nodiscard]] std::string times_text(double ratio);

}  // namespace mptune::reports

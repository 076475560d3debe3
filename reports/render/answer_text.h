#pragma once

#include <string>
#include <vector>

#include "reports/values/report.h"

namespace mptune::reports {

/// Returns the number of timed steps of a trial; 0 where it has none.
[[nodiscard]] std::size_t rounds_of(const tuner::Trial& trial);

/// Returns true if more measuring may change the answer: too few rounds, or finalists that are undecided.
[[nodiscard]] bool is_provisional(const StudyReport& report);

/// Returns true if going on with the study would settle the answer or measure what it left out.
[[nodiscard]] bool more_measuring_helps(const StudyReport& report);

/// Returns "Recommendation for resnet50" or "Provisional recommendation for resnet50".
[[nodiscard]] std::string answer_title(const StudyReport& report);

/// Returns the answer of a study in at most eight sentences, each number once. The plan is compared first with the fastest un-pipelined
/// run, which is what a user has without mptune:
///
///     pipeline of 2 stages, 1f1b, 4 micro-batches of 4; cuts 7
///     step 301 ms, 95 % [299, 303] ms, 12 measurements; predicted 295 ms
///     1.12x [1.06, 1.19] FAST over all_cores, the best un-pipelined run
///     1.73x [1.68, 1.79] FAST over single_device
///     1.06x [1.03, 1.10] FAST over data_parallel, the best baseline
///     peak memory 381 MiB, on cpu:0
///     provisional: 8 interleaved rounds, 10 are wanted
[[nodiscard]] std::vector<std::string> answer_lines(const StudyReport& report);

/// Returns the recommendation and the first of the comparisons of answer_lines(), to be said again where the report ends:
///
///     provisional: pipeline of 2 stages, 1f1b, 4 micro-batches of 4; cuts 7
///     1.12x [1.06, 1.19] FAST over all_cores, the best un-pipelined run
[[nodiscard]] std::vector<std::string> answer_in_short(const StudyReport& report);

/// Returns true if the last line of answer_lines() says what the warning says.
[[nodiscard]] bool answer_tells(const tuner::Recommendation& all, const tuner::Warning& warning);

}  // namespace mptune::reports

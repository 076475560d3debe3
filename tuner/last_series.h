#pragma once

#include "tuner/study/study.h"
#include "tuner/tuning_run.h"
#include "tuner/tuning_state.h"

namespace mptune::tuner {

/// The last series: finalists and baselines benchmarked interleaved, of which the recommendation is made.

/// True if the study has no last series, or one that had no time for all, lacks a measured baseline, or lost a plan that is worth retrying.
[[nodiscard]] bool needs_last_series(const Study& study, const TuningState& state);

/// Runs it with the time that is left but for the traces, and stores its trials. The study then knows its number, unless every plan failed:
/// --resume runs it again. Finalists without time are left out, least important first; those that may be the fastest are noted in the
/// study. Where there was no time for any, the own trial of the fastest counts as the last series.
/// Throws Error: no_result.h where no trial so far was measured, interrupted.
void run_last_series(TuningRun& run);

}  // namespace mptune::tuner

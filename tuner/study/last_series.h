#pragma once

#include "tuner/study/store/study.h"
#include "tuner/study/tuning_run.h"
#include "tuner/study/tuning_state.h"

namespace mptune::tuner {

/// The last series: finalists and baselines benchmarked interleaved, of which the recommendation is made.

/// Returns true if the study has no last series, or one that had no time for all finalists, lacks a measured baseline, or lost a plan that
/// is worth retrying.
[[nodiscard]] bool needs_last_series(const Study& study, const TuningState& state);

/// Runs the last series in the time that is left, less the time for the traces, and stores its trials. The study then knows its number,
/// unless every plan failed: --resume runs it again. Finalists without time are left out, the least important first; those that may be the
/// fastest are noted in the study. Where there was no time for any, the fastest finalist's own trial counts as the last series.
/// Throws the Error of no_result.h where no trial so far was measured, and Error (interrupted).
void run_last_series(TuningRun& run);

}  // namespace mptune::tuner

#pragma once

#include "tuner/study/recommend/recommend.h"
#include "tuner/study/store/study.h"
#include "tuner/study/tuning_run.h"

namespace mptune::tuner {

/// Removes the traces of plans that an earlier last series recommended: the next one may recommend others.
void remove_old_traces(const Study& study);

/// Records the recommended plan, the best pipeline and naive model parallelism into the study, unless it has their traces. A trace that the
/// budget has no time for, or that fails, becomes a warning of the recommendation. Throws Error where the user interrupts.
void record_traces(const TuningRun& run, Recommendation& recommendation);

}  // namespace mptune::tuner

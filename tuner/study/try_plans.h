#pragma once

#include "tuner/study/tuning_run.h"

namespace mptune::tuner {

/// Trials of each plan by itself, which choose the plans of the last series. A plan begins only where the time for the last series remains
/// (reserves.h), except for the first plan of a run without any measurement. Every trial is in the study before the next one starts.

/// Tries the baselines that this run has to try (baselines_to_try). Throws Error (interrupted).
void try_baselines(TuningRun& run);

/// Tries candidates in the order of TrialSearch, whose predictions every trial corrects, until none can win, two in a row were killed, or
/// the time for trials is spent. Notes in the study which of these ended it. Throws Error (interrupted).
void explore(TuningRun& run);

}  // namespace mptune::tuner

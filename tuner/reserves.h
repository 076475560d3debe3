#pragma once

#include <vector>

#include "tuner/finalists.h"
#include "tuner/tuning_state.h"

namespace mptune::tuner {

/// Time that trials leave for the phases behind them, the last series and the traces, by what is known so far [s].

/// What a series of these plans with so many rounds takes, by their own trials.
[[nodiscard]] double series_s(const TuningState& state, const std::vector<Series::Entry>& entries, int rounds);
/// The same as a function; `state` must outlive it.
[[nodiscard]] SeriesCost series_cost(const TuningState& state);
/// What the trace of a plan takes, by its own trial.
[[nodiscard]] double trace_s(const TuningState& state, const Plan& plan);

/// What a baseline with such a step leaves for the last series: the longer of one round with it and a verdict on the plans so far that the
/// answer leads with (the fastest, the fastest other un-pipelined plan, one device).
[[nodiscard]] double series_after_baseline_s(const TuningState& state, double step_s);

/// What a candidate leaves for the last series: 12 rounds of the finalists so far. Fewer where it would be the first pipeline or hybrid
/// tried: the baselines of that kind have equal cuts, so trying one chosen cut is worth more than narrow intervals.
[[nodiscard]] double series_after_candidate_s(const TuningState& state, const Plan& candidate);

/// For traces of the fastest plan so far, the fastest pipeline where that is another, and the naive plan. A trace that would exceed the
/// share of the budget left for traces, 15 %, is not counted, but where a finished study is resumed, which promised them.
[[nodiscard]] double reserve_for_traces_s(const TuningState& state, double budget_s);

}  // namespace mptune::tuner

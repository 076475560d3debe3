#pragma once

#include <vector>

#include "tuner/study/recommend/finalists.h"
#include "tuner/study/tuning_state.h"

namespace mptune::tuner {

/// The time that trials leave for the phases after them, the last series and the traces, by what is known so far [s].

/// Returns what a series of these plans with `rounds` rounds takes, by their own trials.
[[nodiscard]] double series_s(const TuningState& state, const std::vector<Series::Entry>& entries, int rounds);
/// Returns series_s() as a function; `state` must outlive it.
[[nodiscard]] SeriesCost series_cost(const TuningState& state);
/// Returns what the trace of a plan takes, by its own trial.
[[nodiscard]] double trace_s(const TuningState& state, const Plan& plan);

/// Returns what a baseline with a step of `step_s` leaves for the last series: the longer of one round with it and of a verdict on the
/// plans so far that the answer leads with (the fastest, the fastest other un-pipelined plan, one device).
[[nodiscard]] double series_after_baseline_s(const TuningState& state, double step_s);

/// Returns what a candidate leaves for the last series: 12 rounds of the finalists so far. It leaves fewer where it would be the first
/// pipeline or hybrid tried: the baselines of that kind have equal cuts, so trying one chosen cut is worth more than narrow intervals.
[[nodiscard]] double series_after_candidate_s(const TuningState& state, const Plan& candidate);

/// Returns the time for traces of the fastest plan so far, of the fastest pipeline where that is another plan, and of the naive plan. A
/// trace that would exceed the share of the budget for traces, 15 %, is not counted, unless a finished study is resumed, which promised all
/// of them.
[[nodiscard]] double reserve_for_traces_s(const TuningState& state, double budget_s);

}  // namespace mptune::tuner

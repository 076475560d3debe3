#pragma once

#include <string>

#include "profiler/base/error.h"
#include "profiler/trace/values/profile.h"
#include "profiler/trace/values/training_spec.h"
#include "reports/cli/commands/worker_calls.h"
#include "reports/cli/options/tune_options.h"
#include "reports/cli/program/progress.h"
#include "tuner/study/budget.h"
#include "tuner/study/store/study.h"
#include "tuner/study/tune.h"

namespace mptune::reports {

/// What a tuning run works with besides its study.
struct Tuning {
  tuner::TrainingSetup setup;
  tuner::DescribedModel model;
  tuner::TuneOptions options;
  std::string identity;
  TrainingSpec training;  ///< as it was asked for
  double ends_s = 0;      ///< when the budget ends, on the steady clock
  double grace_s = 0;     ///< time that workers still have then
};

/// Throws Error if the model's pieces do not train as the whole model does: a plan must not change the result. Returns whether there was
/// time for all comparisons, and warns of the comparisons that there was no time for.
[[nodiscard]] bool check_pieces(const Tuning& tuning, const tuner::PhaseTime& time, const Session& session, ProgressLine& progress);

/// Measures the profile into the study. Throws BudgetTooSmall where the time was over before the least was measured.
[[nodiscard]] Profile measure_layers(const TuneCommand& command, const Tuning& tuning, const tuner::Study& study,
                                     const tuner::PhaseTime& time, const Session& session, ProgressLine& progress);

/// Returns the model of the setup. Throws Error, which says what budget would do where the budget was spent before the model was loaded.
[[nodiscard]] tuner::DescribedModel load_model(const Tuning& tuning, const Session& session, double budget_s);

/// Returns a budget where this one had no result, "60s": twice as much, or more where more is known to be needed.
[[nodiscard]] std::string larger_budget(const Error& error, double budget_s);

}  // namespace mptune::reports

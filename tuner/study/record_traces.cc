#include "tuner/study/record_traces.h"

#include <filesystem>
#include <string>

#include "profiler/base/error.h"
#include "tuner/study/reserves.h"
#include "tuner/worker/host/interrupt.h"

namespace mptune::tuner {
namespace {

void record(const TuningRun& run, const Plan& plan, const std::string& name, Recommendation& recommendation) {
  if (std::filesystem::exists(run.study.trace_path(name))) return;
  if (run.left_s() < trace_s(run.state, plan)) {
    recommendation.warnings.emplace_back(NoTraceOf{.name = name, .failed = {}});
    return;
  }
  report_progress(run, "trace of " + name);
  try {
    run.services.record(plan, name);
  } catch (const Error& error) {
    // The recommendation stands without this trace.
    if (interrupt_flag().load() != 0) throw;
    recommendation.warnings.emplace_back(NoTraceOf{.name = name, .failed = error.problem()});
  }
}

}  // namespace

void remove_old_traces(const Study& study) {
  if (!study.final_series()) return;
  for (const char* name : {kRecommendedTrace, kBestPipelineTrace}) std::filesystem::remove(study.trace_path(name));
}

void record_traces(const TuningRun& run, Recommendation& recommendation) {
  if (!run.services.record) return;
  record(run, recommendation.recommended.trial.plan, kRecommendedTrace, recommendation);
  const std::string& key = recommendation.recommended.trial.plan_key;
  if (recommendation.best_pipeline && recommendation.best_pipeline->trial.plan_key != key)
    record(run, recommendation.best_pipeline->trial.plan, kBestPipelineTrace, recommendation);
  for (const BaselineResult& baseline : recommendation.baselines)
    if (baseline.name == planner::kNaiveBaseline) record(run, baseline.trial.plan, planner::kNaiveBaseline, recommendation);
}

}  // namespace mptune::tuner

#include "reports/values/study_report.h"

#include <algorithm>
#include <filesystem>

#include "planner/cost/variants.h"
#include "planner/plan/file/plan_file.h"
#include "planner/search/baselines.h"
#include "profiler/base/device_spec.h"
#include "profiler/trace/store/store.h"
#include "reports/values/follow_up.h"
#include "reports/values/plan_report.h"

namespace mptune::reports {
namespace {

std::size_t cores_of(const std::vector<std::string>& devices) {
  std::size_t cores = 0;
  for (const std::string& name : devices)
    if (const auto device = find_device(name)) cores += device->cores.size();
  return cores;
}

struct StoredTrace {
  std::optional<TraceReport> report;
  std::string file;
};

StoredTrace stored_trace(const tuner::Study& study, const std::string& name, const tuner::RecommendedPlan& plan, const Profile& profile,
                         const std::string& title) {
  StoredTrace stored;
  const std::string path = study.trace_path(name);
  if (!std::filesystem::exists(path)) return stored;
  if (const auto trace = profiler::read_recording(path).trace) {
    stored.report = build_trace_report(*trace, plan.peak_bytes, title);
    add_plan(*stored.report, plan.trial.plan, &profile);
    stored.file = path;
  }
  return stored;
}

/// Adds the trace of naive model parallelism, which `tune` records whatever it recommends.
void add_naive(const tuner::Study& study, const tuner::Recommendation& all, const Profile& profile, StudyReport& report) {
  const std::string file = study.trace_path(planner::kNaiveBaseline);
  if (!std::filesystem::exists(file)) return;
  report.trace_files.push_back(file);
  const auto naive = std::ranges::find(all.baselines, planner::kNaiveBaseline, &tuner::BaselineResult::name);
  if (naive == all.baselines.end() || naive->trial.plan_key == all.recommended.trial.plan_key) return;
  if (const auto trace = profiler::read_recording(file).trace) {
    report.naive_trace = build_trace_report(*trace, naive->peak_bytes, "Naive model parallelism");
    add_plan(*report.naive_trace, naive->trial.plan, &profile);
  }
}

/// Returns the limit share of a plan. Empty without a step on one device in the series of the recommendation.
std::optional<LimitShare> share_of(const tuner::RecommendedPlan& plan, const tuner::Recommendation& all,
                                   const std::vector<std::string>& devices, const Profile& profile,
                                   const std::optional<TraceReport>& trace) {
  const auto single = std::ranges::find(all.baselines, planner::kSingleDeviceBaseline, &tuner::BaselineResult::name);
  if (single == all.baselines.end() || single->step_s <= 0 || devices.size() < 2) return std::nullopt;
  LimitShare share = limit_share(plan.step_s, single->step_s, static_cast<int>(devices.size()), profile.co_running_slowdown, trace);
  const bool larger = cores_of(devices) > devices.size() * cores_of(single->trial.plan.devices);
  if (share.yardstick != LimitShare::Yardstick::fair && larger) share.yardstick = LimitShare::Yardstick::larger_devices;
  return share;
}

}  // namespace

StudyReport report_of_study(const tuner::Study& study, const tuner::StudySummary& summary, const tuner::Recommendation& recommendation,
                            const Profile& profile) {
  StudyReport report = build_study_report(recommendation, study.trials(), profile);
  report.study = study.folder();
  report.modules = stage_modules(recommendation.recommended.trial.plan, profile.layers);
  report.plan_file = study.plan_path();
  report.lower_bound_s = summary.lower_bound_s;
  report.gap = summary.gap;
  report.stages_per_device = summary.stages_per_device;
  report.elapsed_s = summary.elapsed_s;
  report.stop_reason = summary.stop_reason;
  report.fingerprint = profile.fingerprint;
  const tuner::RecommendedPlan& best = recommendation.recommended;
  report.training = summary.training;
  if (!summary.training.model.empty()) report.run_command = command_with_plan_file(summary.training, best.trial.plan, study.plan_path());
  report.resume_command = resume_command(study.folder(), summary.elapsed_s);
  StoredTrace trace = stored_trace(study, tuner::kRecommendedTrace, best, profile, "Recommended plan");
  report.trace = std::move(trace.report);
  report.limit = share_of(best, recommendation, summary.devices, profile, report.trace);
  if (!trace.file.empty()) report.trace_files.push_back(trace.file);
  if (recommendation.best_pipeline && recommendation.best_pipeline->trial.plan_key != best.trial.plan_key) {
    StoredTrace pipeline = stored_trace(study, tuner::kBestPipelineTrace, *recommendation.best_pipeline, profile, "Best pipeline");
    report.pipeline_trace = std::move(pipeline.report);
    report.pipeline_limit = share_of(*recommendation.best_pipeline, recommendation, summary.devices, profile, report.pipeline_trace);
    if (!pipeline.file.empty()) report.trace_files.push_back(pipeline.file);
  }
  add_naive(study, recommendation, profile, report);
  if (planner::has_costs_of(profile, best.trial.plan))
    report.partition = planned_layers(best.trial.plan, CostModel(profile, best.trial.plan));
  if (std::filesystem::exists(study.report_path())) report.report_file = study.report_path();
  return report;
}

StudyReport read_study_report(const std::string& folder) {
  const tuner::Study study(folder, tuner::Study::Open::read);
  const tuner::StudySummary summary = tuner::summary_of(study);
  const Profile profile = tuner::profile_of(study);
  StudyReport report = report_of_study(study, summary, tuner::recommendation_of(study, summary, profile), profile);
  report.machine = machine_from_json(profiler::read_recording(study.profile_path()).environment);
  return report;
}

}  // namespace mptune::reports

#include "mptune/reports/cli/study_report.h"

#include <algorithm>
#include <filesystem>

#include "mptune/profiler/base/error.h"
#include "mptune/profiler/store/store.h"
#include "mptune/reports/render/json.h"
#include "mptune/tuner/finalists.h"

namespace mptune {
namespace {

Error incomplete(const Study& study) {
  return {"this study has no result yet", study.folder(), "go on with mptune tune --resume", ExitCode::no_result};
}

/// Single-device step of the same series as the recommendation, 0: not measured.
double single_device_step(const Recommendation& recommendation) {
  const auto found = std::ranges::find(recommendation.baselines, kSingleDeviceBaseline, &BaselineResult::name);
  return found == recommendation.baselines.end() ? 0 : found->step_s;
}

struct StoredTrace {
  std::optional<TraceReport> report;
  std::string file;
};

StoredTrace stored_trace(const Study& study, const std::string& name, const RecommendedPlan& plan, const Profile& profile,
                         const std::string& title) {
  StoredTrace stored;
  const std::string path = study.trace_path(name);
  if (!std::filesystem::exists(path)) {
    return stored;
  }
  if (const auto trace = read_recording(path).trace) {
    stored.report = build_trace_report(*trace, plan.peak_bytes, title);
    add_plan(*stored.report, plan.trial.plan, &profile);
    stored.file = path;
  }
  return stored;
}

std::optional<LimitShare> share_of(const RecommendedPlan& plan, const Recommendation& all, std::size_t devices, const Profile& profile,
                                   const std::optional<TraceReport>& trace) {
  const double single = single_device_step(all);
  if (single <= 0 || devices < 2) {
    return std::nullopt;
  }
  return limit_share(plan.step_s, single, static_cast<int>(devices), profile.co_running_slowdown, trace);
}

}  // namespace

StudySummary summary_of(const Study& study) {
  auto summary = study.summary();
  if (!summary) {
    throw incomplete(study);
  }
  return std::move(*summary);
}

Profile profile_of(const Study& study) {
  auto profile = read_recording(study.profile_path()).profile;
  if (!profile) {
    throw Error("the study has no profile", study.profile_path(), "go on with mptune tune --resume");
  }
  return std::move(*profile);
}

Recommendation recommendation_of(const Study& study, const StudySummary& summary, const Profile& profile) {
  SearchSpace space;
  space.devices = summary.devices;
  space.whole_machine = summary.whole_machine;
  space.batch = summary.batch;
  std::vector<Trial> finals;
  std::int64_t single_device_peak = 0;
  const std::optional<int> series = study.final_series();
  const std::vector<Trial> trials = study.trials();
  for (const Trial& trial : trials) {
    if (trial.series == series) {
      finals.push_back(trial);
    }
    if (trial.name == kSingleDeviceBaseline && single_device_peak == 0) {
      single_device_peak = largest_peak(trial);
    }
  }
  finals = with_every_name(std::move(finals), baseline_plans(space, static_cast<int>(profile.layers.size())));
  auto found = recommend(finals, single_device_peak, study.not_raced());
  if (!found) {
    throw incomplete(study);
  }
  found->kinds = compare_kinds(found->recommended, finals, trials, summary.kinds);
  return std::move(*found);
}

StudyReport report_of_study(const Study& study, const StudySummary& summary, const Recommendation& recommendation, const Profile& profile) {
  StudyReport report = build_study_report(recommendation, study.trials(), profile);
  report.study = study.folder();
  report.modules = stage_modules(recommendation.recommended.trial.plan, layer_modules(profile.layers));
  report.plan_file = study.plan_path();
  report.lower_bound_s = summary.lower_bound_s;
  report.gap = summary.gap;
  report.elapsed_s = summary.elapsed_s;
  report.stop_reason = summary.stop_reason;
  report.run_command = summary.run_command;
  const RecommendedPlan& best = recommendation.recommended;
  StoredTrace trace = stored_trace(study, kRecommendedTrace, best, profile, "Recommended plan");
  report.trace = std::move(trace.report);
  report.limit = share_of(best, recommendation, summary.devices.size(), profile, report.trace);
  if (!trace.file.empty()) {
    report.trace_files.push_back(trace.file);
  }
  if (recommendation.best_pipeline && recommendation.best_pipeline->trial.plan_key != best.trial.plan_key) {
    StoredTrace pipeline = stored_trace(study, kBestPipelineTrace, *recommendation.best_pipeline, profile, "Best pipeline");
    report.pipeline_trace = std::move(pipeline.report);
    report.pipeline_limit = share_of(*recommendation.best_pipeline, recommendation, summary.devices.size(), profile, report.pipeline_trace);
    if (!pipeline.file.empty()) {
      report.trace_files.push_back(pipeline.file);
    }
  }
  if (const std::string naive = study.trace_path(kNaiveBaseline); std::filesystem::exists(naive)) {
    report.trace_files.push_back(naive);
  }
  return report;
}

}  // namespace mptune

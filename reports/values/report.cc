#include "reports/values/report.h"

#include <algorithm>
#include <map>

#include "planner/cost/variants.h"
#include "planner/schedule/schedule_info.h"
#include "planner/simulate/schedule_costs.h"
#include "profiler/base/error.h"
#include "profiler/trace/statistics/samples.h"
#include "profiler/trace/values/samples_taken.h"

namespace mptune::reports {
namespace {

constexpr int kMostSweptSizes = 12;

bool is_pipeline(const Plan& plan) {
  return plan.num_stages() > 1;
}

int split_size(const Plan& plan) {
  return *std::ranges::max_element(plan.microbatch_sizes);
}

}  // namespace

std::vector<CurvePoint> split_size_curve(const std::vector<tuner::Trial>& trials, const std::vector<Candidate>& ranked) {
  std::map<int, CurvePoint> points;
  const auto predicted = [&](const Plan& plan, double step_s) {
    CurvePoint& point = points[split_size(plan)];
    point.predicted_s = point.predicted_s == 0 ? step_s : std::min(point.predicted_s, step_s);
  };
  for (const Candidate& candidate : ranked)
    if (is_pipeline(candidate.plan)) predicted(candidate.plan, candidate.prediction.step_s);
  for (const tuner::Trial& trial : trials) {
    const auto* measured = std::get_if<tuner::Measured>(&trial.outcome);
    if (!is_pipeline(trial.plan) || measured == nullptr || measured->step_s.empty()) continue;
    CurvePoint& point = points[split_size(trial.plan)];
    const double step_s = median(measured->step_s);
    if (!point.measured_s || step_s < *point.measured_s) {
      point.measured_s = step_s;
      point.measured_ci95_s = interval95(measured->step_s);
    }
    if (trial.prediction) predicted(trial.plan, trial.prediction->step_s);
  }
  std::vector<CurvePoint> curve;
  for (auto& [size, point] : points) {
    point.split_size = size;
    curve.push_back(point);
  }
  return curve;
}

std::vector<Candidate> sweep_split_sizes(const Plan& plan, const CostModel& cost) {
  const int batch = plan.global_batch_size();
  const planner::ScheduleInfo* schedule = planner::find_schedule(plan.schedule);
  const SampleRange taken = profiler::samples_taken(cost.profile().layers);
  std::vector<int> sizes;
  for (int size = 1; size <= batch; ++size)
    if (batch % size == 0 && taken.takes(size)) sizes.push_back(size);
  // The largest sizes are left out first: with one or two micro-batches a pipeline hardly overlaps.
  sizes.resize(std::min<std::size_t>(sizes.size(), kMostSweptSizes));
  std::vector<Candidate> swept;
  for (const int size : sizes) {
    Candidate candidate{.plan = plan, .prediction = {}};
    candidate.plan.microbatch_sizes = split_by_size(batch, size);
    const std::size_t most_replicas = std::ranges::max(plan.stages, {}, [](const Stage& s) { return s.devices.size(); }).devices.size();
    if (schedule == nullptr || candidate.plan.microbatch_sizes.size() < most_replicas || (schedule->one_microbatch && size != batch))
      continue;
    planner::schedule_plan(candidate.plan, plan.schedule, cost);
    candidate.prediction = predict(candidate.plan, cost);
    swept.push_back(std::move(candidate));
  }
  return swept;
}

LimitShare limit_share(double step_s, double single_device_step_s, int devices, double co_running_slowdown,
                       const std::optional<TraceReport>& trace) {
  constexpr double kFair = 1.1;
  LimitShare share{.limit_s = single_device_step_s / devices, .step_s = step_s, .rest = {}};
  if (share.limit_s > kFair * step_s) share.yardstick = LimitShare::Yardstick::slow_alone;
  if (!trace || trace->devices.empty()) return share;
  double compute = 0, copy = 0, idle = 0, window = 0;
  for (const DeviceRow& row : trace->devices) {
    compute += row.compute_s + row.overlap_s;
    copy += row.copy_s;
    idle += row.idle_s;
    window += row.window_s;
  }
  // The step was timed in a run that was not recorded, so only the shares of the recording are used.
  const double scale = step_s / window;
  const double extra = (trace->recompute_s + trace->reduce_s) * static_cast<double>(trace->devices.size());
  const double work = (compute - extra) * scale;
  const double slowed = trace->devices.size() > 1 ? work * (1 - 1 / std::max(1.0, co_running_slowdown)) : 0;
  const auto part = [&](const std::string& what, double value) {
    if (value != 0) share.rest.push_back({what, value});
  };
  part("idle", idle * scale);
  part("exposed communication", copy * scale);
  part("recomputation", trace->recompute_s * static_cast<double>(trace->devices.size()) * scale);
  part("sum over replicas", trace->reduce_s * static_cast<double>(trace->devices.size()) * scale);
  part("cores slowing each other", slowed);
  const double added = work - slowed - share.limit_s;
  part(trace->devices.size() == 1 ? "work not spread over all devices"
       : added > 0                ? "micro-batch overhead"
                                  : "faster computing than on one device",
       added);
  return share;
}

StudyReport build_study_report(const tuner::Recommendation& recommendation, const std::vector<tuner::Trial>& trials,
                               const Profile& profile) {
  StudyReport report;
  report.model = profile.model;
  report.layers = profile.layers;
  report.devices = profile.devices;
  report.measured_sizes = profiler::class_sizes(profile);
  report.fingerprint = profile.fingerprint;
  report.batch = recommendation.recommended.trial.plan.global_batch_size();
  report.recommendation = recommendation;
  report.trials = trials;
  report.co_running_slowdown = profile.co_running_slowdown;
  report.refit = tuner::refit(profile, trials);
  std::vector<Candidate> swept;
  if (recommendation.best_pipeline) {
    const Plan& best = recommendation.best_pipeline->trial.plan;
    if (planner::has_costs_of(profile, best)) swept = sweep_split_sizes(best, CostModel(profile, best));
  }
  report.curve = split_size_curve(trials, swept);
  return report;
}

}  // namespace mptune::reports

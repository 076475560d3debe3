#include "mptune/reports/report.h"

#include <algorithm>
#include <map>
#include <tuple>

#include "mptune/planner/schedule/schedule.h"
#include "mptune/profiler/statistics/samples.h"
#include "mptune/profiler/trace/error.h"

namespace mptune {
namespace {

constexpr int kMostSweptSizes = 12;
/// Neighbouring layers of one action are drawn as one box if no more than this share of the step lies between them.
constexpr double kBoxGap = 0.005;
constexpr double kFreeLink = 1e18;  // bytes per second

double seconds(Nanoseconds time) {
  return std::chrono::duration<double>(time).count();
}

/// Whole step of the median length: a typical one, not the first.
StepWindow typical_step(const Trace& trace) {
  if (trace.steps.empty()) {
    StepWindow all;
    for (const Event& event : trace.events) {
      all.start = all.step < 0 ? event.start : std::min(all.start, event.start);
      all.end = std::max(all.end, event.end());
      all.step = 0;
    }
    return all;
  }
  std::vector<StepWindow> steps = trace.steps;
  std::ranges::sort(steps, {}, [](const StepWindow& step) { return std::pair(step.end - step.start, step.step); });
  return steps[(steps.size() - 1) / 2];
}

/// Recomputation belongs to the backward action it serves.
What drawn_as(What what) {
  return what == What::recompute ? What::backward : what;
}

std::vector<TimelineBox> boxes_of(const Trace& trace, const StepWindow& window) {
  std::vector<const Event*> events;
  for (const Event& event : trace.events) {
    if (event.lane == kComputeLane && is_compute(event.what) && event.start < window.end && event.end() > window.start) {
      events.push_back(&event);
    }
  }
  std::ranges::stable_sort(events, {}, [](const Event* event) { return std::pair(event->device, event->start); });
  const double gap = kBoxGap * seconds(window.end - window.start);
  std::vector<TimelineBox> boxes;
  for (const Event* event : events) {
    const Tag tag = event->tag < 0 ? Tag{} : trace.tags.at(static_cast<std::size_t>(event->tag));
    const TimelineBox box{.device = event->device,
                          .what = drawn_as(event->what),
                          .stage = std::max(0, tag.stage),
                          .microbatch = tag.microbatch,
                          .start_s = seconds(std::max(event->start, window.start) - window.start),
                          .end_s = seconds(std::min(event->end(), window.end) - window.start)};
    const auto key = [](const TimelineBox& b) { return std::tuple(b.device, b.what, b.stage, b.microbatch); };
    if (!boxes.empty() && key(boxes.back()) == key(box) && box.start_s - boxes.back().end_s <= gap) {
      boxes.back().end_s = box.end_s;
    } else {
      boxes.push_back(box);
    }
  }
  return boxes;
}

double mean_per_device(const Trace& trace, What what) {
  Nanoseconds sum{0};
  for (const Event& event : trace.events) {
    sum += event.what == what ? event.duration : Nanoseconds{0};
  }
  const std::size_t parts = trace.devices.size() * std::max<std::size_t>(1, trace.steps.size());
  return parts == 0 ? 0 : seconds(sum) / static_cast<double>(parts);
}

bool is_pipeline(const Plan& plan) {
  return plan.num_stages() > 1;
}

int split_size(const Plan& plan) {
  return *std::ranges::max_element(plan.microbatch_sizes);
}

}  // namespace

TraceReport build_trace_report(const Trace& trace, const std::vector<std::int64_t>& peak_bytes, const std::string& title) {
  TraceReport report;
  report.title = title;
  report.quality = trace.quality;
  const Breakdown breakdown = break_down(trace);
  std::vector<double> lengths;
  for (const StepBreakdown& step : breakdown.steps) {
    lengths.push_back(step.devices.empty() ? 0 : seconds(step.devices.front().window));
  }
  report.step_s = lengths.empty() ? 0 : median(lengths);
  report.bubble = bubble(breakdown);
  for (std::size_t i = 0; i < trace.devices.size(); ++i) {
    const DeviceBreakdown mean = mean_over_steps(breakdown, static_cast<int>(i));
    report.devices.push_back({.device = trace.devices[i].name,
                              .window_s = seconds(mean.window),
                              .compute_s = seconds(mean.compute),
                              .copy_s = seconds(mean.copy),
                              .overlap_s = seconds(mean.overlap),
                              .idle_s = seconds(mean.idle),
                              .idle = mean.causes,
                              .peak_bytes = i < peak_bytes.size() ? peak_bytes[i] : 0});
  }
  const StepWindow window = typical_step(trace);
  report.timeline = boxes_of(trace, window);
  report.timeline_s = seconds(window.end - window.start);
  report.recompute_s = mean_per_device(trace, What::recompute);
  report.reduce_s = mean_per_device(trace, What::reduce);
  return report;
}

std::vector<CurvePoint> split_size_curve(const std::vector<Trial>& trials, const std::vector<Candidate>& ranked) {
  std::map<int, CurvePoint> points;
  const auto predicted = [&](const Plan& plan, double step_s) {
    CurvePoint& point = points[split_size(plan)];
    point.predicted_s = point.predicted_s == 0 ? step_s : std::min(point.predicted_s, step_s);
  };
  for (const Candidate& candidate : ranked) {
    if (is_pipeline(candidate.plan)) {
      predicted(candidate.plan, candidate.prediction.step_s);
    }
  }
  for (const Trial& trial : trials) {
    const auto* measured = std::get_if<Measured>(&trial.outcome);
    if (!is_pipeline(trial.plan) || measured == nullptr || measured->step_s.empty()) {
      continue;
    }
    CurvePoint& point = points[split_size(trial.plan)];
    const double step_s = median(measured->step_s);
    if (!point.measured_s || step_s < *point.measured_s) {
      point.measured_s = step_s;
      point.measured_ci95_s = interval95(measured->step_s);
    }
    if (trial.prediction) {
      predicted(trial.plan, trial.prediction->step_s);
    }
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
  const auto& names = schedule_names();
  std::vector<int> sizes;
  for (int size = 1; size <= batch; ++size) {
    if (batch % size == 0) {
      sizes.push_back(size);
    }
  }
  // Large micro-batches tell least: a pipeline of one or two of them is hardly one.
  sizes.resize(std::min<std::size_t>(sizes.size(), kMostSweptSizes));
  std::vector<Candidate> swept;
  for (const int size : sizes) {
    Candidate candidate{.plan = plan, .prediction = {}};
    candidate.plan.microbatch_sizes = split_by_size(batch, size);
    const std::size_t most_replicas = std::ranges::max(plan.stages, {}, [](const Stage& s) { return s.devices.size(); }).devices.size();
    const bool known = std::ranges::find(names, plan.schedule) != names.end();
    if (!known || candidate.plan.microbatch_sizes.size() < most_replicas || (plan.schedule == "naive" && size != batch)) {
      continue;
    }
    make_schedule(candidate.plan, plan.schedule);
    candidate.prediction = predict(candidate.plan, cost);
    swept.push_back(std::move(candidate));
  }
  return swept;
}

LimitShare limit_share(double step_s, double single_device_step_s, int devices, double co_running_slowdown,
                       const std::optional<TraceReport>& trace) {
  LimitShare share{.limit_s = single_device_step_s / devices, .step_s = step_s, .rest = {}};
  if (!trace || trace->devices.empty()) {
    return share;
  }
  double compute = 0, copy = 0, idle = 0, window = 0;
  for (const DeviceRow& row : trace->devices) {
    compute += row.compute_s + row.overlap_s;
    copy += row.copy_s;
    idle += row.idle_s;
    window += row.window_s;
  }
  // The recorded step is not the timed one: its shares are what counts.
  const double scale = step_s / window;
  const double extra = (trace->recompute_s + trace->reduce_s) * static_cast<double>(trace->devices.size());
  const double work = (compute - extra) * scale;
  const double slowed = trace->devices.size() > 1 ? work * (1 - 1 / std::max(1.0, co_running_slowdown)) : 0;
  const auto part = [&](const std::string& what, double value) {
    if (value != 0) {
      share.rest.push_back({what, value});
    }
  };
  part("idle", idle * scale);
  part("copies not hidden", copy * scale);
  part("recomputation", trace->recompute_s * static_cast<double>(trace->devices.size()) * scale);
  part("sum over replicas", trace->reduce_s * static_cast<double>(trace->devices.size()) * scale);
  part("cores slowing each other", slowed);
  part(trace->devices.size() > 1 ? "dearer micro-batches" : "work not spread over all devices", work - slowed - share.limit_s);
  return share;
}

double theoretical_bubble(const Plan& plan) {
  Profile profile;
  DeviceClass uniform{.name = "uniform", .layers = {}};
  Plan on_paper = plan;
  on_paper.microbatch_sizes.assign(plan.microbatch_sizes.size(), 1);
  for (int stage = 0; stage < plan.num_stages(); ++stage) {
    Stage& paper = on_paper.stages[static_cast<std::size_t>(stage)];
    paper.first_layer = stage;
    paper.last_layer = stage + 1;
    paper.recompute = {};
    // A stage on R devices does its share in the same time as one on a single device.
    const double length = 1e-3 * static_cast<double>(paper.devices.size());
    LayerCost cost;
    cost.samples = 1;
    cost.forward = exactly(length);
    cost.backward = exactly(2 * length);
    uniform.layers.push_back({{cost}});
    profile.layers.push_back({.name = std::to_string(stage), .kind = "uniform", .modules = {}});
    if (stage > 0) {
      profile.edges.push_back({.from = stage - 1, .to = stage});
    }
  }
  profile.classes.push_back(std::move(uniform));
  const int devices = static_cast<int>(plan.devices.size());
  for (int device = 0; device < devices; ++device) {
    profile.devices.push_back({.name = plan.devices[static_cast<std::size_t>(device)]});
    for (int other = 0; other < devices; ++other) {
      if (other != device) {
        profile.links.push_back({.source = device, .destination = other, .latency_s = 0, .bytes_per_second = kFreeLink});
      }
    }
  }
  profile.batch = on_paper.global_batch_size();
  return bubble(break_down(simulate(on_paper, CostModel(profile)).trace));
}

StudyReport build_study_report(const Recommendation& recommendation, const std::vector<Trial>& trials, const Profile& profile) {
  StudyReport report;
  report.model = profile.model;
  report.recommendation = recommendation;
  report.trials = trials;
  report.co_running_slowdown = profile.co_running_slowdown;
  std::vector<Candidate> swept;
  if (recommendation.best_pipeline) {
    swept = sweep_split_sizes(recommendation.best_pipeline->trial.plan, CostModel(profile));
  }
  report.curve = split_size_curve(trials, swept);
  return report;
}

}  // namespace mptune

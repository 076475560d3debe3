#include <algorithm>
#include <map>
#include <tuple>

#include "mptune/profiler/analyze/critical_path.h"
#include "mptune/profiler/analyze/links.h"
#include "mptune/profiler/analyze/quality_objection.h"
#include "mptune/profiler/analyze/step_work.h"
#include "mptune/profiler/analyze/typical_times.h"
#include "mptune/reports/report.h"

namespace mptune {
namespace {

/// Neighbouring layers of one action are drawn as one box if no more than this share of the step lies between them.
constexpr double kBoxGap = 0.005;

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

/// Collectives of other lanes run beside the computations and would hide them.
bool is_drawn(const Event& event) {
  return is_compute(event.what) && (event.what != What::collective || event.lane == kComputeLane);
}

std::vector<TimelineBox> boxes_of(const Trace& trace, const StepWindow& window) {
  std::vector<const Event*> events;
  for (const Event& event : trace.events) {
    if (is_drawn(event) && event.start < window.end && event.end() > window.start) {
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
      boxes.back().end_s = std::max(boxes.back().end_s, box.end_s);
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

std::string device_name(const Trace& trace, int device) {
  return device >= 0 && static_cast<std::size_t>(device) < trace.devices.size() ? trace.devices[static_cast<std::size_t>(device)].name
                                                                                : "host";
}

std::string path_name(const Trace& trace, const StepWork& step, const CriticalPart& part) {
  if (part.kind == CriticalPart::Kind::gap) {
    return "gaps";
  }
  const Work& work = step.works[static_cast<std::size_t>(part.work)];
  if (part.kind == CriticalPart::Kind::copy) {
    const Copy copy = work.copy < 0 ? Copy{} : trace.copies.at(static_cast<std::size_t>(work.copy));
    return "copies " + device_name(trace, copy.source) + " to " + device_name(trace, copy.destination);
  }
  return work.tag.stage < 0 ? device_name(trace, work.device) + ", no stage" : "stage " + std::to_string(work.tag.stage);
}

std::vector<PathRow> path_rows(const Trace& trace, const std::vector<StepWork>& steps) {
  std::map<std::string, Nanoseconds> times;
  Nanoseconds whole{0};
  for (const StepWork& step : steps) {
    for (const CriticalPart& part : critical_path(step)) {
      times[path_name(trace, step, part)] += part.time;
      whole += part.time;
    }
  }
  std::vector<PathRow> rows;
  for (const auto& [what, time] : times) {
    rows.push_back({what, seconds(time) / static_cast<double>(steps.size()), seconds(time) / seconds(whole)});
  }
  std::ranges::stable_sort(rows, std::ranges::greater{}, &PathRow::time_s);
  return rows;
}

std::vector<LinkRow> link_rows(const Trace& trace) {
  std::vector<LinkRow> rows;
  for (const LinkUse& use : link_use(trace)) {
    rows.push_back({.source = device_name(trace, use.source),
                    .destination = device_name(trace, use.destination),
                    .copies = use.copies,
                    .bytes = use.bytes,
                    .time_s = seconds(use.time),
                    .exposed_s = seconds(use.exposed)});
  }
  return rows;
}

std::vector<std::int64_t> recorded_peaks(const Trace& trace) {
  std::vector<std::int64_t> peaks(trace.devices.size());
  for (const MemorySample& sample : trace.memory) {
    if (sample.device >= 0 && static_cast<std::size_t>(sample.device) < peaks.size()) {
      std::int64_t& peak = peaks[static_cast<std::size_t>(sample.device)];
      peak = std::max(peak, sample.current_bytes);
    }
  }
  return peaks;
}

std::vector<MemoryRow> memory_rows(const Trace& trace, const std::vector<DeviceRow>& devices) {
  const StepWindow window = typical_step(trace);
  std::vector<MemoryRow> rows;
  for (std::size_t i = 0; i < devices.size(); ++i) {
    rows.push_back({.device = devices[i].device,
                    .samples = {},
                    .peak_bytes = devices[i].peak_bytes,
                    .cap_bytes = trace.devices[i].memory_bytes,
                    .contents = std::nullopt});
  }
  for (const MemorySample& sample : trace.memory) {
    if (sample.device < 0 || static_cast<std::size_t>(sample.device) >= rows.size()) continue;
    if (sample.time < window.start || sample.time > window.end) continue;
    rows[static_cast<std::size_t>(sample.device)].samples.push_back({seconds(sample.time - window.start), sample.current_bytes});
  }
  for (MemoryRow& row : rows) {
    std::ranges::stable_sort(row.samples, {}, &MemoryRow::Sample::time_s);
  }
  return rows;
}

bool names_stages(const std::vector<StepWork>& steps) {
  return std::ranges::any_of(
      steps, [](const StepWork& step) { return std::ranges::any_of(step.works, [](const Work& work) { return work.tag.stage >= 0; }); });
}

void add_steps(TraceReport& report, const Trace& trace) {
  const std::vector<StepWork> steps = step_works(trace);
  report.has_stages = names_stages(steps);
  report.critical_path = path_rows(trace, steps);
  if (trace.simulated) {
    return;
  }
  report.ideal_step_s = seconds(ideal_step(steps));
  if (!report.objection) {
    report.advice = advise(trace);
  }
}

void add_timeline(TraceReport& report, const Trace& trace) {
  const StepWindow window = typical_step(trace);
  report.timeline = boxes_of(trace, window);
  report.timeline_s = seconds(window.end - window.start);
}

}  // namespace

TraceReport build_trace_report(const Trace& trace, const std::vector<std::int64_t>& peak_bytes, const std::string& title) {
  TraceReport report;
  report.title = title;
  report.quality = trace.quality;
  report.objection = quality_objection(trace);
  report.breakdown = break_down(trace);
  std::vector<double> lengths;
  for (const StepBreakdown& step : report.breakdown.steps) {
    lengths.push_back(step.devices.empty() ? 0 : seconds(step.devices.front().window));
  }
  report.steps_s = samples_of(lengths);
  report.step_s = lengths.empty() ? 0 : median(lengths);
  report.bubble = bubble(report.breakdown);
  const std::vector<std::int64_t> peaks = peak_bytes.empty() ? recorded_peaks(trace) : peak_bytes;
  for (std::size_t i = 0; i < trace.devices.size(); ++i) {
    const DeviceBreakdown mean = mean_over_steps(report.breakdown, static_cast<int>(i));
    report.devices.push_back({.device = trace.devices[i].name,
                              .window_s = seconds(mean.window),
                              .compute_s = seconds(mean.compute),
                              .copy_s = seconds(mean.copy),
                              .overlap_s = seconds(mean.overlap),
                              .idle_s = seconds(mean.idle),
                              .idle = mean.causes,
                              .peak_bytes = i < peaks.size() ? peaks[i] : 0});
  }
  add_steps(report, trace);
  if (report.has_stages) {
    add_timeline(report, trace);
  }
  report.links = link_rows(trace);
  report.memory = memory_rows(trace, report.devices);
  report.clock_error_s = seconds(worst_violation(trace));
  report.recompute_s = mean_per_device(trace, What::recompute);
  report.reduce_s = mean_per_device(trace, What::reduce);
  return report;
}

void add_contents(TraceReport& report, const Plan& plan, const CostModel& cost) {
  const std::vector<PeakContents> contents = cost.peak_contents(plan);
  for (MemoryRow& row : report.memory) {
    const auto device = std::ranges::find(plan.devices, row.device);
    if (device != plan.devices.end()) row.contents = contents[static_cast<std::size_t>(device - plan.devices.begin())];
  }
}

void add_plan(TraceReport& report, const Plan& plan, const Profile* profile) {
  report.bubble_theory = theoretical_bubble(plan);
  if (profile == nullptr) {
    return;
  }
  const CostModel cost(*profile);
  add_contents(report, plan, cost);
  if (!report.objection) {
    const std::vector<Advice> changes = advise(plan, cost);
    report.advice.insert(report.advice.end(), changes.begin(), changes.end());
    std::ranges::stable_sort(report.advice, std::ranges::greater{}, &Advice::saves_s);
  }
}

}  // namespace mptune

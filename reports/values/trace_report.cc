#include <algorithm>
#include <functional>
#include <map>
#include <tuple>

#include "planner/cost/peak_bytes.h"
#include "planner/cost/variants.h"
#include "profiler/base/index.h"
#include "profiler/trace/analyze/busy.h"
#include "profiler/trace/analyze/critical_path.h"
#include "profiler/trace/analyze/idle.h"
#include "profiler/trace/analyze/links.h"
#include "profiler/trace/analyze/quality_objection.h"
#include "profiler/trace/analyze/stalls.h"
#include "profiler/trace/analyze/step_work.h"
#include "profiler/trace/analyze/typical_times.h"
#include "profiler/trace/values/intervals.h"
#include "reports/values/report.h"

namespace mptune::reports {
namespace {

/// Neighbouring layers of one action are drawn as one box if no more than this share of the step lies between them.
constexpr double kBoxGap = 0.005;

double seconds(Nanoseconds time) {
  return std::chrono::duration<double>(time).count();
}

/// Returns the step of median length; the whole trace if it names no steps.
StepWindow typical_step(const Trace& trace) {
  std::vector<StepWindow> steps = profiler::windows_of(trace);
  if (steps.empty()) return {};
  std::ranges::sort(steps, {}, [](const StepWindow& step) { return std::pair(step.end - step.start, step.step); });
  return steps[(steps.size() - 1) / 2];
}

/// Recomputation is drawn as part of the backward action that needs it.
EventKind drawn_as(EventKind kind) {
  return kind == EventKind::recompute ? EventKind::backward : kind;
}

/// Collectives on other lanes run beside computations; their boxes would cover those.
bool is_drawn(const Event& event) {
  return is_compute(event.kind) && (event.kind != EventKind::collective || event.lane == kComputeLane);
}

std::vector<TimelineBox> boxes_of(const Trace& trace, const StepWindow& window) {
  std::vector<const Event*> events;
  for (const Event& event : trace.events)
    if (is_drawn(event) && event.start < window.end && event.end() > window.start) events.push_back(&event);
  std::ranges::stable_sort(events, {}, [](const Event* event) { return std::pair(event->device, event->start); });
  const double gap = kBoxGap * seconds(window.end - window.start);
  std::vector<TimelineBox> boxes;
  for (const Event* event : events) {
    const Tag tag = event->tag < 0 ? Tag{} : trace.tags.at(as_index(event->tag));
    const TimelineBox box{.device = event->device,
                          .kind = drawn_as(event->kind),
                          .stage = std::max(0, tag.stage),
                          .microbatch = tag.microbatch,
                          .start_s = seconds(std::max(event->start, window.start) - window.start),
                          .end_s = seconds(std::min(event->end(), window.end) - window.start)};
    const auto key = [](const TimelineBox& b) { return std::tuple(b.device, b.kind, b.stage, b.microbatch); };
    if (!boxes.empty() && key(boxes.back()) == key(box) && box.start_s - boxes.back().end_s <= gap)
      boxes.back().end_s = std::max(boxes.back().end_s, box.end_s);
    else
      boxes.push_back(box);
  }
  return boxes;
}

/// Returns the idle spans; neighbouring parts of one cause are one span.
std::vector<IdleSpan> idle_spans(const Trace& trace, const StepWindow& window) {
  std::vector<IdleSpan> spans;
  const std::vector<std::vector<profiler::IdlePart>> devices = profiler::idle_parts(trace, window);
  for (std::size_t d = 0; d < devices.size(); ++d) {
    for (const profiler::IdlePart& part : devices[d]) {
      const auto cause = std::ranges::find(profiler::kIdleCauses, part.cause, &profiler::NamedCause::time);
      const IdleSpan span{.device = static_cast<int>(d),
                          .start_s = seconds(part.time.start - window.start),
                          .end_s = seconds(part.time.end - window.start),
                          .cause = cause == profiler::kIdleCauses.end() ? "" : cause->name};
      const bool goes_on =
          !spans.empty() && spans.back().device == span.device && spans.back().cause == span.cause && spans.back().end_s == span.start_s;
      if (goes_on)
        spans.back().end_s = span.end_s;
      else
        spans.push_back(span);
    }
  }
  return spans;
}

double mean_per_device(const Trace& trace, EventKind kind) {
  Nanoseconds sum{0};
  for (const Event& event : trace.events) sum += event.kind == kind ? event.duration : Nanoseconds{0};
  const std::size_t parts = trace.devices.size() * std::max<std::size_t>(1, trace.steps.size());
  return parts == 0 ? 0 : seconds(sum) / static_cast<double>(parts);
}

std::string device_name(const Trace& trace, int device) {
  return device >= 0 && as_index(device) < trace.devices.size() ? trace.devices[as_index(device)].name : "host";
}

std::string path_name(const Trace& trace, const profiler::StepWork& step, const profiler::CriticalPart& part) {
  if (part.kind == profiler::CriticalPart::Kind::gap) return "gaps";
  const profiler::Work& work = step.works[as_index(part.work)];
  if (part.kind == profiler::CriticalPart::Kind::copy) {
    const Copy copy = work.copy < 0 ? Copy{} : trace.copies.at(as_index(work.copy));
    return "copies " + device_name(trace, copy.source) + " to " + device_name(trace, copy.destination);
  }
  return work.tag.stage < 0 ? device_name(trace, work.device) + ", no stage" : "stage " + std::to_string(work.tag.stage);
}

std::vector<PathRow> path_rows(const Trace& trace, const std::vector<profiler::StepWork>& steps) {
  std::map<std::string, Nanoseconds> times;
  Nanoseconds whole{0};
  for (const profiler::StepWork& step : steps) {
    for (const profiler::CriticalPart& part : profiler::critical_path(step)) {
      times[path_name(trace, step, part)] += part.time;
      whole += part.time;
    }
  }
  std::vector<PathRow> rows;
  for (const auto& [what, time] : times)
    rows.push_back({what, seconds(time) / static_cast<double>(steps.size()), seconds(time) / seconds(whole)});
  std::ranges::stable_sort(rows, std::ranges::greater{}, &PathRow::time_s);
  return rows;
}

std::vector<LinkRow> link_rows(const Trace& trace) {
  std::vector<LinkRow> rows;
  for (const profiler::LinkUse& use : profiler::link_use(trace)) {
    rows.push_back({.source = device_name(trace, use.source),
                    .destination = device_name(trace, use.destination),
                    .copies = use.copies,
                    .bytes = use.bytes,
                    .time_s = seconds(use.time),
                    .exposed_s = seconds(use.exposed)});
  }
  return rows;
}

/// Returns the peaks as recorded; the largest memory sample where a peak is not known.
std::vector<std::int64_t> known_peaks(const Trace& trace) {
  std::vector<std::int64_t> peaks(trace.devices.size());
  for (const MemorySample& sample : trace.memory) {
    if (sample.device >= 0 && as_index(sample.device) < peaks.size()) {
      std::int64_t& peak = peaks[as_index(sample.device)];
      peak = std::max(peak, sample.current_bytes);
    }
  }
  for (std::size_t d = 0; d < peaks.size(); ++d)
    if (trace.devices[d].peak_bytes > 0) peaks[d] = trace.devices[d].peak_bytes;
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
    if (sample.device < 0 || as_index(sample.device) >= rows.size()) continue;
    if (sample.time < window.start || sample.time > window.end) continue;
    rows[as_index(sample.device)].samples.push_back({seconds(sample.time - window.start), sample.current_bytes});
  }
  for (MemoryRow& row : rows) std::ranges::stable_sort(row.samples, {}, &MemoryRow::Sample::time_s);
  return rows;
}

std::vector<StallRow> stall_rows(const Trace& trace, const std::vector<profiler::StepWork>& steps) {
  std::vector<StallRow> rows;
  for (const profiler::Stall& stall : profiler::find_stalls(steps)) {
    const profiler::StepWork& step = steps[as_index(stall.step)];
    const profiler::Work& work = step.works[as_index(stall.work)];
    const double step_s = seconds(stall.step_time);
    rows.push_back({.device = device_name(trace, work.device),
                    .step = step.window.step,
                    .stage = work.tag.stage,
                    .microbatch = work.tag.microbatch,
                    .kind = work.kind,
                    .late = stall.kind == profiler::Stall::Kind::late,
                    .time_s = seconds(stall.time),
                    .usual_s = seconds(stall.typical),
                    .price_s = seconds(stall.price),
                    .price_percent = step_s > 0 ? 100 * seconds(stall.price) / step_s : 0,
                    .hidden = stall.is_hidden()});
  }
  return rows;
}

bool names_stages(const std::vector<profiler::StepWork>& steps) {
  return std::ranges::any_of(steps, [](const profiler::StepWork& step) {
    return std::ranges::any_of(step.works, [](const profiler::Work& work) { return work.tag.stage >= 0; });
  });
}

/// Turns what advice saves into seconds of the step that is shown. It is computed as a share of the mean step or of the predicted one;
/// where a few steps are very long, a part of the mean step is longer than the step that is shown.
void put_seconds(TraceReport& report) {
  if (report.step_s <= 0) return;
  for (planner::Advice& advice : report.advice) advice.saves_s = advice.saves_percent / 100 * report.step_s;
}

void add_steps(TraceReport& report, const Trace& trace) {
  const std::vector<profiler::StepWork> steps = profiler::step_works(trace);
  report.has_stages = names_stages(steps);
  report.critical_path = path_rows(trace, steps);
  if (trace.simulated) return;
  report.ideal_step_s = seconds(profiler::ideal_step(steps));
  if (!report.objection) {
    report.advice = planner::advise(trace);
    report.stalls = stall_rows(trace, steps);
  }
  put_seconds(report);
}

/// Returns the busy time of events that count, which is counted once per device where they overlap.
double busy_seconds(const Trace& trace, const std::function<bool(const Event&)>& counts) {
  std::vector<std::vector<profiler::TimeInterval>> times(trace.devices.size());
  for (const Event& event : trace.events)
    if (counts(event)) times.at(as_index(event.device)).push_back({event.start, event.end()});
  double sum = 0;
  for (auto& device : times) sum += seconds(profiler::total(profiler::merge(std::move(device))));
  return sum;
}

void add_whole_graphs(TraceReport& report, const Trace& trace) {
  const auto is_graph = [&](const Event& event) { return is_whole_graph(trace, event); };
  report.whole_graphs = std::ranges::count_if(trace.events, is_graph);
  if (report.whole_graphs == 0) return;
  const double compute_s = busy_seconds(trace, [](const Event& event) { return is_compute(event.kind); });
  report.whole_graphs_share = compute_s > 0 ? busy_seconds(trace, is_graph) / compute_s : 0;
}

void add_lone_collectives(TraceReport& report, const Trace& trace) {
  const int device = profiler::lone_communicator(trace);
  if (device < 0) return;
  std::vector<profiler::TimeInterval> times, windows;
  for (const Event& event : trace.events) {
    if (!profiler::is_collective_of_nccl(trace, event)) continue;
    ++report.lone_collectives;
    times.push_back({event.start, event.end()});
  }
  for (const StepWindow& step : profiler::windows_of(trace)) windows.push_back({step.start, step.end});
  windows = profiler::merge(std::move(windows));
  const double all_s = seconds(profiler::total(windows));
  const double collectives_s = seconds(profiler::total(profiler::intersect(profiler::merge(std::move(times)), windows)));
  report.lone_collectives_share = all_s > 0 ? collectives_s / all_s : 0;
}

void add_timeline(TraceReport& report, const Trace& trace) {
  const StepWindow window = typical_step(trace);
  report.timeline = boxes_of(trace, window);
  report.idle_spans = idle_spans(trace, window);
  report.timeline_s = seconds(window.end - window.start);
}

}  // namespace

TraceReport build_trace_report(const Trace& trace, const std::vector<std::int64_t>& peak_bytes, const std::string& title) {
  TraceReport report;
  report.title = title;
  report.quality = trace.quality;
  report.implausible = trace.implausible;
  report.objection = profiler::quality_objection(trace);
  add_whole_graphs(report, trace);
  add_lone_collectives(report, trace);
  report.breakdown = profiler::break_down(trace);
  std::vector<double> lengths;
  for (const profiler::StepBreakdown& step : report.breakdown.steps)
    lengths.push_back(step.devices.empty() ? 0 : seconds(step.devices.front().window));
  report.steps_s = samples_of(lengths);
  report.step_s = lengths.empty() ? 0 : median(lengths);
  report.bubble = profiler::bubble(report.breakdown);
  const std::vector<std::int64_t> peaks = peak_bytes.empty() ? known_peaks(trace) : peak_bytes;
  for (std::size_t i = 0; i < trace.devices.size(); ++i) {
    const profiler::DeviceBreakdown mean = profiler::mean_over_steps(report.breakdown, static_cast<int>(i));
    report.devices.push_back({.device = trace.devices[i].name,
                              .description = trace.devices[i].description,
                              .window_s = seconds(mean.window),
                              .compute_s = seconds(mean.compute),
                              .copy_s = seconds(mean.copy),
                              .overlap_s = seconds(mean.overlap),
                              .idle_s = seconds(mean.idle),
                              .idle = mean.causes,
                              .peak_bytes = i < peaks.size() ? peaks[i] : 0});
  }
  add_steps(report, trace);
  if (report.has_stages) add_timeline(report, trace);
  report.links = link_rows(trace);
  report.memory = memory_rows(trace, report.devices);
  report.clock_error_s = seconds(profiler::worst_violation(trace));
  report.recompute_s = mean_per_device(trace, EventKind::recompute);
  report.reduce_s = mean_per_device(trace, EventKind::reduce);
  return report;
}

void add_contents(TraceReport& report, const Plan& plan, const CostModel& cost) {
  const std::vector<planner::PeakContents> contents = planner::peak_contents(plan, cost);
  for (MemoryRow& row : report.memory) {
    const auto device = std::ranges::find(plan.devices, row.device);
    if (device != plan.devices.end()) row.contents = contents[as_index(device - plan.devices.begin())];
  }
}

void add_plan(TraceReport& report, const Plan& plan, const Profile* profile) {
  report.bubble_theory = planner::theoretical_bubble(plan);
  if (profile == nullptr || !planner::has_costs_of(*profile, plan)) return;
  const CostModel cost(*profile, plan);
  add_contents(report, plan, cost);
  if (!report.objection) {
    const std::vector<planner::Advice> changes = planner::advise(plan, cost);
    report.advice.insert(report.advice.end(), changes.begin(), changes.end());
    put_seconds(report);
    std::ranges::stable_sort(report.advice, std::ranges::greater{}, &planner::Advice::saves_s);
  }
}

}  // namespace mptune::reports

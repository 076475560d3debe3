#include "profiler/trace/formats/kineto_steps.h"

#include <algorithm>
#include <iterator>
#include <map>

#include "profiler/base/index.h"
#include "profiler/trace/formats/kineto_rows.h"
#include "profiler/trace/formats/kineto_times.h"
#include "profiler/trace/values/settle.h"
#include "profiler/trace/values/stream_lanes.h"

namespace mptune::profiler {
namespace {

constexpr std::uint8_t kLastLane = 255;

}  // namespace

// When no lane is free, streams share the last one and settle_lanes shortens events that overlap there.
void assign_lanes(Trace& trace, const std::vector<std::int64_t>& streams) {
  using Lanes = StreamLanes<std::int64_t>;
  std::map<Lanes::OfDevice, double> compute;
  for (std::size_t i = 0; i < trace.events.size(); ++i) {
    const Event& event = trace.events[i];
    if (is_compute(event.kind)) compute[{event.device, streams[i]}] += static_cast<double>(event.duration.count());
  }
  Lanes lanes(compute);
  for (std::size_t i = 0; i < trace.events.size(); ++i) {
    Event& event = trace.events[i];
    event.lane = lanes.take({event.device, streams[i]}, event.start + kKinetoRounding, event.end()).value_or(kLastLane);
  }
}

// The last kernels that a step launched may lie after the recording: then its length is not known.
void leave_out_cut_step(Trace& trace) {
  if (trace.steps.empty()) return;
  const StepWindow last = trace.steps.back();
  std::int64_t missing = 0;
  for (auto call = trace.launches.rbegin(); call != trace.launches.rend() && call->event < 0 && call->start >= last.start; ++call)
    if (call->start < last.end && launches_kernels(trace.names[as_index(call->name)])) ++missing;
  if (missing == 0) return;
  const bool has_others = trace.steps.size() > 1;
  (has_others ? trace.quality.cut_off : trace.quality.unmatched) += missing;
  if (has_others) trace.steps.pop_back();
}

// Makes a step last until the work that it launched has ended, at most until the next step.
void end_steps(Trace& trace) {
  settle_steps(trace);
  const std::vector<StepWindow> marks = trace.steps;
  for (const Launch& launch : trace.launches) {
    if (launch.event < 0) continue;
    const auto after = std::partition_point(marks.begin(), marks.end(), [&](const StepWindow& mark) { return mark.start <= launch.start; });
    if (after == marks.begin() || launch.start >= std::prev(after)->end) continue;
    const Nanoseconds next = after == marks.end() ? Nanoseconds::max() : after->start;
    StepWindow& step = trace.steps[as_index(after - marks.begin()) - 1];
    step.end = std::max(step.end, std::min(trace.events[as_index(launch.event)].end(), next));
  }
}

}  // namespace mptune::profiler

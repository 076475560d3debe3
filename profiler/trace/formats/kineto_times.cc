#include "profiler/trace/formats/kineto_times.h"

#include <algorithm>
#include <limits>
#include <map>
#include <string_view>
#include <tuple>
#include <unordered_map>
#include <utility>

#include "profiler/base/index.h"
#include "profiler/trace/formats/kineto_devices.h"
#include "profiler/trace/formats/kineto_rows.h"
#include "profiler/trace/values/overruns.h"
#include "profiler/trace/values/plausible_times.h"

namespace mptune::profiler {
namespace {

using Fault = ImplausibleTime::Fault;

template <class Value>
void remove(const std::vector<bool>& wrong, std::vector<Value>& values) {
  std::size_t next = 0;
  std::erase_if(values, [&](const Value&) { return wrong[next++]; });
}

void remove_events(const KinetoRecords& records, const std::vector<bool>& wrong) {
  remove(wrong, records.trace.events);
  remove(wrong, records.streams);
  remove(wrong, records.contexts);
  remove(wrong, records.correlations);
}

// Tells streams apart by context, too, since streams of two contexts may have the same number.
std::vector<TimedRecord> timed(const KinetoRecords& records) {
  std::map<std::tuple<int, std::int64_t, std::int64_t>, int> streams;
  std::vector<TimedRecord> result;
  for (std::size_t i = 0; i < records.trace.events.size(); ++i) {
    const Event& event = records.trace.events[i];
    TimedRecord record{.start = event.start, .end = event.end(), .call = records.correlations[i]};
    if (is_launched(records.trace, event))
      record.stream =
          streams.try_emplace({event.device, records.contexts[i], records.streams[i]}, static_cast<int>(streams.size())).first->second;
    result.push_back(record);
  }
  return result;
}

void note_event(const KinetoRecords& records, std::size_t index, Fault fault, const std::string& more = "") {
  const Event& event = records.trace.events[index];
  const std::string& name = records.trace.names[as_index(event.name)];
  const bool kernel = event.kind == EventKind::kernel || event.kind == EventKind::collective;
  note_implausible(records.trace, {.fault = fault,
                                   .what = (kernel ? "kernel '" : "'") + name + "'",
                                   .where = records.trace.devices[as_index(event.device)].name + ", stream " +
                                            std::to_string(number_of_stream(records.streams[index])),
                                   .times = kineto_times(event.start, event.duration) + more});
}

void note_far(const KinetoRecords& records, const std::string& what, int thread, Nanoseconds start, Nanoseconds end) {
  note_implausible(
      records.trace,
      {.fault = Fault::far, .what = what, .where = records.trace.threads[as_index(thread)], .times = kineto_times(start, end - start)});
}

void leave_out_far_calls(const KinetoRecords& records, Nanoseconds middle) {
  std::erase_if(records.calls, [&](const Launch& call) {
    if (is_near(middle, call.start, call.end)) return false;
    note_far(records, "call '" + records.trace.names[as_index(call.name)] + "'", call.thread, call.start, call.end);
    return true;
  });
}

void leave_out_far_ranges(const KinetoRecords& records, Nanoseconds middle) {
  Trace& trace = records.trace;
  std::vector<bool> wrong;
  for (std::size_t i = 0; i < trace.ranges.size(); ++i) {
    const Event& range = trace.ranges[i];
    wrong.push_back(!is_near(middle, range.start, range.end()));
    if (!wrong.back()) continue;
    if (range.kind == EventKind::step)
      note_far(records, "'" + trace.names[as_index(range.name)] + "'", records.range_threads[i], range.start, range.end());
    else
      ++trace.quality.dropped;
  }
  remove(wrong, trace.ranges);
  remove(wrong, records.range_threads);
  std::erase_if(trace.steps, [&](const StepWindow& step) { return !is_near(middle, step.start, step.end); });
}

// Returns the time from the first to the last call or range.
TimeInterval span_of_host(const KinetoRecords& records) {
  TimeInterval span{Nanoseconds::max(), Nanoseconds::min()};
  const auto add = [&](Nanoseconds start, Nanoseconds end) { span = {std::min(span.start, start), std::max(span.end, end)}; };
  for (const Launch& call : records.calls) add(call.start, call.end);
  for (const Event& range : records.trace.ranges) add(range.start, range.end());
  return span.start <= span.end ? span : TimeInterval{};
}

}  // namespace

void leave_out_implausible(const KinetoRecords& records) {
  Trace& trace = records.trace;
  const std::vector<TimedRecord> work = timed(records);
  const Nanoseconds middle = middle_start(work);
  leave_out_far_calls(records, middle);
  leave_out_far_ranges(records, middle);
  std::vector<StepWindow> steps = trace.steps;
  std::ranges::stable_sort(steps, {}, &StepWindow::start);
  const TimeFaults faults = implausible_times(work, steps, kKinetoRounding, [&] { return span_of_host(records); });
  std::vector<bool> wrong(trace.events.size(), false);
  for (const auto& [index, fault] : faults) {
    wrong[index] = true;
    note_event(records, index, fault);
  }
  remove_events(records, wrong);
}

void leave_out_zero_stamped(const KinetoRecords& records) {
  std::unordered_map<std::int64_t, Nanoseconds> launched;
  for (const Launch& call : records.calls)
    if (call.correlation > 0) launched.try_emplace(call.correlation, call.start);
  std::vector<bool> wrong;
  for (std::size_t i = 0; i < records.trace.events.size(); ++i) {
    const auto call = launched.find(records.correlations[i]);
    const bool at_zero = records.trace.events[i].start == Nanoseconds{0};
    wrong.push_back(at_zero && call != launched.end() && call->second > kMostClockSkew);
    if (wrong.back()) ++records.trace.quality.zero_stamped;
  }
  remove_events(records, wrong);
}

void cut_overruns(const KinetoRecords& records) {
  const std::vector<Overrun> found = overruns(timed(records));
  if (found.empty()) return;
  std::unordered_map<std::int64_t, std::string_view> calls;
  for (const Launch& call : records.calls)
    if (call.correlation > 0) calls.try_emplace(call.correlation, records.trace.names[as_index(call.name)]);
  for (const Overrun& overrun : found) {
    const auto call = calls.find(records.correlations[overrun.next]);
    if (!is_wrong(overrun, call == calls.end() ? "" : call->second)) continue;
    Event& event = records.trace.events[overrun.record];
    const Event& next = records.trace.events[overrun.next];
    note_event(records, overrun.record, Fault::overrun, "; the next has " + kineto_times(next.start, next.duration));
    event.duration = next.start - event.start;
  }
}

}  // namespace mptune::profiler

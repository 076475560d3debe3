#include <algorithm>
#include <map>
#include <set>

#include "profiler/base/index.h"
#include "profiler/trace/store/nsight_leaves.h"
#include "profiler/trace/store/rows.h"
#include "profiler/trace/store/tables.h"
#include "profiler/trace/values/overruns.h"

namespace mptune::profiler {

// A graph whose nodes are recorded, too, adds only the gaps between them.
void NsightLeaves::leave_out_known_graphs() {
  if (std::ranges::none_of(leaves_, &Leaf::whole_graph)) return;
  std::set<Correlation> of_graphs, of_nodes;
  for (const Leaf& leaf : leaves_)
    if (leaf.whole_graph) of_graphs.insert(call_of(leaf));
  for (const Leaf& leaf : leaves_)
    if (!leaf.whole_graph && !leaf.on_host && leaf.correlation > 0 && of_graphs.contains(call_of(leaf))) of_nodes.insert(call_of(leaf));
  leave_out([&](std::size_t i) { return leaves_[i].whole_graph && of_nodes.contains(call_of(leaves_[i])); });
}

// Copies of unified memory run beside each other, so none is too long and none overruns another.
std::vector<TimedRecord> NsightLeaves::timed() const {
  std::vector<TimedRecord> records;
  records.reserve(leaves_.size());
  for (std::size_t i = 0; i < leaves_.size(); ++i) {
    const Event& event = trace_.events[i];
    TimedRecord record{.start = event.start, .end = event.end(), .call = leaves_[i].correlation};
    const bool in_order = !leaves_[i].on_host && is_launched(trace_, event);
    if (in_order) record.stream = leaves_[i].stream;
    records.push_back(record);
  }
  return records;
}

void NsightLeaves::leave_out_implausible() {
  const std::vector<TimedRecord> records = timed();
  if (!records.empty()) middle_ = middle_start(records);
  const TimeFaults faults = implausible_times(records, {}, Nanoseconds{0}, [this] { return span_of_host(); });
  if (faults.empty()) return;
  std::vector<bool> wrong(leaves_.size(), false);
  for (const auto& [index, fault] : faults) {
    const Event& event = trace_.events[index];
    wrong[index] = true;
    note(fault, event, leaves_[index], {event.start.count(), event.end().count()});
  }
  leave_out([&](std::size_t i) { return wrong[i]; });
}

// An overrunning record is cut where the next one of its stream starts: it can't have lasted longer.
void NsightLeaves::cut_overruns() {
  const std::vector<Overrun> found = overruns(timed());
  if (found.empty()) return;
  std::set<Correlation> of_next;
  for (const Overrun& overrun : found) of_next.insert(call_of(leaves_[overrun.next]));
  const std::map<Correlation, int> calls = names_of_calls(of_next);
  for (const Overrun& overrun : found) {
    Event& event = trace_.events[overrun.record];
    const Event& next = trace_.events[overrun.next];
    const auto call = calls.find(call_of(leaves_[overrun.next]));
    if (!is_wrong(overrun, call == calls.end() ? "" : trace_.names[as_index(call->second)])) continue;
    const RowTimes times{event.start.count(), event.end().count()};
    note(ImplausibleTime::Fault::overrun, event, leaves_[overrun.record], times,
         "; the next starts at " + std::to_string(next.start.count()));
    event.duration = next.start - event.start;
  }
}

std::map<Correlation, int> NsightLeaves::names_of_calls(const std::set<Correlation>& calls) {
  std::map<Correlation, int> names;
  if (!has_table(database_, kCalls)) return names;
  Rows rows(database_, "SELECT " + selection(database_, kCalls, {"globalTid", "correlationId", "nameId"}) + " FROM " + kCalls);
  while (rows.next()) {
    const Correlation call{rows.integer_or(0, 0) & kProcessBits, rows.integer_or(1, 0)};
    if (call.second > 0 && !rows.null(2) && calls.contains(call)) names.try_emplace(call, names_.of_string(rows.integer(2)));
  }
  return names;
}

void NsightLeaves::note(ImplausibleTime::Fault fault, const Event& event, const Leaf& leaf, const RowTimes& times,
                        const std::string& more) {
  const std::string name = trace_.names[as_index(event.name)];
  const bool kernel = event.kind == EventKind::kernel || event.kind == EventKind::collective;
  note_implausible(trace_,
                   {.fault = fault,
                    .what = kernel ? "kernel '" + name + "'" : name,
                    .where = trace_.devices[as_index(event.device)].name + ", stream " + std::to_string(std::get<2>(stream_of(leaf))),
                    .times = times.text() + more});
}

// From the first to the last call or range that lies near the work. Requires: middle_.
TimeInterval NsightLeaves::span_of_host() {
  TimeInterval span;
  bool found = false;
  const std::string least = std::to_string((*middle_ - kLongestRecording).count());
  const std::string most = std::to_string((*middle_ + kLongestRecording).count());
  for (const char* table : {kCalls, "NVTX_EVENTS"}) {
    const std::set<std::string> columns = columns_of(database_, table);
    if (!columns.contains("start") || !columns.contains("end")) continue;
    Rows rows(database_, std::string("SELECT min(start), max(end) FROM ") + table + " WHERE start >= " + least + " AND end <= " + most +
                             " AND start <= end AND end != 0");
    if (!rows.next() || rows.null(0)) continue;
    const TimeInterval here{Nanoseconds{rows.integer(0)}, Nanoseconds{rows.integer(1)}};
    span = found ? TimeInterval{std::min(span.start, here.start), std::max(span.end, here.end)} : here;
    found = true;
  }
  return span;
}

}  // namespace mptune::profiler

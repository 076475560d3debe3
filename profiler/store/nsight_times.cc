#include <algorithm>
#include <map>
#include <set>

#include "profiler/base/index.h"
#include "profiler/store/nsight_leaves.h"
#include "profiler/store/rows.h"
#include "profiler/store/tables.h"
#include "profiler/trace/overruns.h"

namespace mptune::profiler {

// A graph whose nodes are recorded, too, adds only the gaps between them.
void NsightLeaves::leave_out_known_graphs() {
  std::set<Correlation> of_nodes;
  for (const Leaf& leaf : leaves_)
    if (!leaf.whole_graph && !leaf.on_host && leaf.call.second > 0) of_nodes.insert(leaf.call);
  std::erase_if(leaves_, [&](const Leaf& leaf) { return leaf.whole_graph && of_nodes.contains(leaf.call); });
}

// Copies of unified memory run beside each other, so none is too long and none overruns another.
std::vector<TimedRecord> NsightLeaves::timed() const {
  std::map<StreamKey, int> streams;
  std::vector<TimedRecord> records;
  for (const Leaf& leaf : leaves_) {
    TimedRecord record{.start = leaf.event.start, .end = leaf.event.end(), .call = leaf.call.second};
    const bool in_order = !leaf.on_host && is_launched(trace_, leaf.event);
    if (in_order) record.stream = streams.try_emplace(leaf.stream, static_cast<int>(streams.size())).first->second;
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
    const Leaf& leaf = leaves_[index];
    wrong[index] = true;
    note(fault, leaf, {leaf.event.start.count(), leaf.event.end().count()});
  }
  std::size_t next = 0;
  std::erase_if(leaves_, [&](const Leaf&) { return wrong[next++]; });
}

// An overrunning record is cut where the next one of its stream starts: it can't have lasted longer.
void NsightLeaves::cut_overruns() {
  const std::vector<Overrun> found = overruns(timed());
  if (found.empty()) return;
  const std::map<Correlation, int> calls = names_of_calls();
  for (const Overrun& overrun : found) {
    Leaf& leaf = leaves_[overrun.record];
    const Leaf& next = leaves_[overrun.next];
    const auto call = calls.find(next.call);
    if (!is_wrong(overrun, call == calls.end() ? "" : trace_.names[as_index(call->second)])) continue;
    const RowTimes times{leaf.event.start.count(), leaf.event.end().count()};
    note(ImplausibleTime::Fault::overrun, leaf, times, "; the next starts at " + std::to_string(next.event.start.count()));
    leaf.event.duration = next.event.start - leaf.event.start;
  }
}

// Indices of names. Those of calls without a name are not known.
std::map<Correlation, int> NsightLeaves::names_of_calls() {
  std::map<Correlation, int> names;
  if (!has_table(database_, kCalls)) return names;
  Rows rows(database_, "SELECT " + selection(database_, kCalls, {"globalTid", "correlationId", "nameId"}) + " FROM " + kCalls);
  while (rows.next())
    if (rows.integer_or(1, 0) > 0 && !rows.null(2))
      names.try_emplace({rows.integer_or(0, 0) & kProcessBits, rows.integer(1)}, names_.of_string(rows.integer(2)));
  return names;
}

void NsightLeaves::note(ImplausibleTime::Fault fault, const Leaf& leaf, const RowTimes& times, const std::string& more) {
  const std::string name = trace_.names[as_index(leaf.event.name)];
  const bool kernel = leaf.event.kind == EventKind::kernel || leaf.event.kind == EventKind::collective;
  note_implausible(trace_,
                   {.fault = fault,
                    .what = kernel ? "kernel '" + name + "'" : name,
                    .where = trace_.devices[as_index(leaf.event.device)].name + ", stream " + std::to_string(std::get<2>(leaf.stream)),
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

#include <algorithm>
#include <charconv>
#include <map>

#include "profiler/base/index.h"
#include "profiler/trace/store/nsight_leaves.h"
#include "profiler/trace/store/rows.h"
#include "profiler/trace/store/tables.h"

namespace mptune::profiler {
namespace {

// Schema 3 renamed the meta table. A file without a version is accepted; missing tables and columns are tolerated.
void require_known_version(SQLite::Database& database) {
  constexpr int kNewestMajor = 3;
  for (const char* table : {"META_DATA_EXPORT", "EXPORT_META_DATA"}) {
    if (!has_table(database, table)) continue;
    Rows rows(database, std::string("SELECT value FROM ") + table + " WHERE name = 'EXPORT_SCHEMA_VERSION' AND value IS NOT NULL");
    if (!rows.next()) continue;
    const std::string version = rows.text(0);
    int major = 0;
    std::from_chars(version.data(), version.data() + version.size(), major);
    if (major > kNewestMajor) throw BadContent("its Nsight schema is version " + version + "; this mptune reads up to version 3");
  }
}

class NsightReader {
 public:
  explicit NsightReader(SQLite::Database& database) : database_(database), names_(database, trace_), leaves_(database, names_, trace_) {}

  Trace read() {
    require_known_version(database_);
    leaves_.read();
    read_calls();
    add_event_waits(database_, leaves_, trace_);
    if (has_table(database_, "NVTX_EVENTS")) read_ranges();
    read_session();
    trace_.quality.untagged = static_cast<std::int64_t>(trace_.events.size());
    return std::move(trace_);
  }

 private:
  int thread_of(std::int64_t global_tid) {
    const auto [place, is_new] = threads_.try_emplace(global_tid, static_cast<int>(trace_.threads.size()));
    if (is_new) trace_.threads.push_back("thread " + std::to_string(global_tid & ~kProcessBits));
    return place->second;
  }

  void read_calls() {
    std::vector<bool> has_launch(trace_.events.size(), false);
    if (has_table(database_, kCalls)) {
      Rows rows(database_, "SELECT " + selection(database_, kCalls, {"start", "end", "globalTid", "correlationId", "nameId"}) + " FROM " +
                               kCalls + " ORDER BY start, end, globalTid, correlationId");
      while (rows.next())
        if (!rows.null(2)) read_call(rows, has_launch);
    }
    if (!trace_.launches.empty()) count_unmatched(has_launch);  // else launches were not recorded, so none is missing
  }

  void count_unmatched(const std::vector<bool>& has_launch) {
    std::vector<bool> cut_off(has_launch.size(), false);
    for (const StartedBy& one : leaves_.started()) cut_off[as_index(one.event)] = before_recording(one.call);
    for (std::size_t i = 0; i < has_launch.size(); ++i)
      if (!has_launch[i] && is_launched(trace_, trace_.events[i])) ++(cut_off[i] ? trace_.quality.cut_off : trace_.quality.unmatched);
  }

  // Correlation ids number the calls of a process, so a lower one than all recorded belongs to a call before the recording.
  bool before_recording(const Correlation& call) const {
    const auto first = first_call_.find(call.first);
    return first != first_call_.end() && call.second > 0 && call.second < first->second;
  }

  // Returns false for a call without times, and for one with times that can't be right, which is noted.
  bool take_times(Rows& rows, Event& event, int name, std::int64_t tid) {
    const RowTimes times = read_times(rows);
    if (times.missing()) {
      ++trace_.quality.zero_stamped;
      return false;
    }
    std::optional<ImplausibleTime::Fault> fault = times.fault();
    if (!fault) times.put(event);
    if (!fault && !leaves_.near_work(event)) fault = ImplausibleTime::Fault::far;
    if (!fault) return true;
    note_implausible(trace_, {.fault = *fault,
                              .what = name < 0 ? "call" : "call '" + trace_.names[as_index(name)] + "'",
                              .where = trace_.threads[as_index(thread_of(tid))],
                              .times = times.text()});
    return false;
  }

  void read_call(Rows& rows, std::vector<bool>& has_launch) {
    const std::int64_t tid = rows.integer(2);
    Event times;
    if (!take_times(rows, times, rows.null(4) ? -1 : names_.of_string(rows.integer(4)), tid)) return;
    Launch launch{.thread = thread_of(tid),
                  .name = rows.null(4) ? -1 : names_.of_string(rows.integer(4)),
                  .start = times.start,
                  .end = times.end(),
                  .correlation = static_cast<std::int64_t>(trace_.launches.size()) + 1};
    const Correlation call{tid & kProcessBits, rows.integer_or(3, 0)};
    if (call.second > 0) {
      const auto [first, is_new] = first_call_.try_emplace(call.first, call.second);
      first->second = std::min(first->second, call.second);
    }
    const auto started = leaves_.started_by(call);
    for (const StartedBy& one : started) {
      const Event& event = trace_.events[as_index(one.event)];
      if (event.start + kMostClockSkew >= launch.start) has_launch[as_index(one.event)] = true;
    }
    if (!started.empty()) {
      launch.event = started.front().event;
      device_of_thread_.try_emplace(tid, trace_.events[as_index(launch.event)].device);
    }
    trace_.launches.push_back(launch);
  }

  // Returns the device of a thread's ranges: the one it launches on, else the one its process launches on, else -1.
  std::int16_t device_of(std::int64_t tid) const {
    const auto found = device_of_thread_.find(tid);
    return found == device_of_thread_.end() ? leaves_.device_of_process(tid & kProcessBits) : found->second;
  }

  void read_ranges() {
    // 59 and 60 are push/pop and start/end ranges as recorded, 70 and 71 are the same ranges imported from NVTXT.
    Rows rows(
        database_,
        "SELECT " + selection(database_, "NVTX_EVENTS", {"start", "end", "globalTid", "text", "textId"}) +
            " FROM NVTX_EVENTS WHERE eventType IN (59, 60, 70, 71) AND end IS NOT NULL ORDER BY start, end DESC, globalTid, text, textId");
    while (rows.next()) {
      Event range;
      const RowTimes times = read_times(rows);
      if (!times.fault()) times.put(range);
      // Ranges change no number of the analysis, so odd ones are only counted.
      if (times.missing() || times.fault() || !leaves_.near_work(range)) {
        ++(times.missing() ? trace_.quality.zero_stamped : trace_.quality.dropped);
        continue;
      }
      range.kind = EventKind::action;
      range.device = device_of(rows.integer_or(2, 0));
      range.name = !rows.null(3) ? names_.of(rows.text(3)) : rows.null(4) ? names_.of("") : names_.of_string(rows.integer(4));
      trace_.ranges.push_back(range);
    }
  }

  void read_session() {
    if (!has_table(database_, "TARGET_INFO_SESSION_START_TIME")) return;
    Rows rows(database_, "SELECT utcEpochNs FROM TARGET_INFO_SESSION_START_TIME");
    if (rows.next()) trace_.started_utc_ns = rows.integer_or(0, 0);
  }

  SQLite::Database& database_;
  Trace trace_;
  NsightNames names_;
  NsightLeaves leaves_;
  std::map<std::int64_t, int> threads_;
  std::map<std::int64_t, std::int16_t> device_of_thread_;
  std::map<std::int64_t, std::int64_t> first_call_;  // by process: the lowest correlation of its recorded calls
};

}  // namespace

Trace read_nsight(SQLite::Database& database) {
  Trace trace = NsightReader(database).read();
  if (const std::string fault = inconsistency(trace); !fault.empty()) throw BadContent(fault);
  return trace;
}

}  // namespace mptune::profiler

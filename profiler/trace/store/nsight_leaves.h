#pragma once

#include <SQLiteCpp/SQLiteCpp.h>

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <vector>

#include "profiler/trace/store/nsight_devices.h"
#include "profiler/trace/store/rows.h"
#include "profiler/trace/values/plausible_times.h"
#include "profiler/trace/values/stream_lanes.h"
#include "profiler/trace/values/trace.h"
#include "profiler/trace/values/trace_builder.h"

namespace mptune::profiler {

/// Table of waits of streams and host threads.
inline constexpr const char* kWaits = "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION";

/// Table of records of events, which waits wait for.
inline constexpr const char* kEventRecords = "CUPTI_ACTIVITY_KIND_CUDA_EVENT";

/// Table of calls of CUDA.
inline constexpr const char* kCalls = "CUPTI_ACTIVITY_KIND_RUNTIME";

/// The process part of a globalTid or globalPid.
inline constexpr std::int64_t kProcessBits = ~std::int64_t{0xFFFFFF};

/// Process and correlation: correlationId is unique within a process only.
using Correlation = std::pair<std::int64_t, std::int64_t>;

/// Process, context and stream.
using StreamKey = std::tuple<std::int64_t, std::int64_t, std::int64_t>;

/// Names of the columns of a table; empty if there is no such table.
[[nodiscard]] std::set<std::string> columns_of(SQLite::Database& database, const std::string& table);

/// "a, b, NULL AS c": the wanted columns, NULL for those that the table lacks because an older version wrote it.
[[nodiscard]] std::string selection(SQLite::Database& database, const std::string& table, const std::vector<std::string>& wanted);

/// Adds strings of an export to the trace's names.
class NsightNames {
 public:
  NsightNames(SQLite::Database& database, Trace& trace);

  [[nodiscard]] int of(const std::string& text);
  /// Name for a StringIds.id; "string 17" if the table has no row with id 17.
  [[nodiscard]] int of_string(std::int64_t id);

 private:
  Trace& trace_;
  std::unordered_map<std::int64_t, std::string> strings_;
  std::unordered_map<std::string, int> names_;
};

/// Start and end of a row as the file has them.
struct RowTimes {
  std::int64_t start = 0;
  std::int64_t end = 0;

  /// The profiler's mark for work whose times it could not get.
  [[nodiscard]] bool missing() const { return start == 0 && end == 0; }
  /// Set if no trace can hold them.
  [[nodiscard]] std::optional<ImplausibleTime::Fault> fault() const;
  /// "start 5000, end 4000 [ns]"
  [[nodiscard]] std::string text() const;
  /// Writes them into an event. Requires: no fault.
  void put(Event& event) const;
};

/// The first two columns of a row.
[[nodiscard]] RowTimes read_times(Rows& rows);

/// An event and the call that launched it.
struct StartedBy {
  Correlation call;
  int event = -1;
  auto operator<=>(const StartedBy&) const = default;  // NOLINT(modernize-use-nullptr): clang-tidy 14 takes it for a null pointer
};

/// Reads the leaves of an export (device work, waits and profiler overhead; not ranges) into a trace. Database, names and trace must
/// outlive it.
class NsightLeaves {
 public:
  NsightLeaves(SQLite::Database& database, NsightNames& names, Trace& trace) : database_(database), names_(names), trace_(trace) {}

  /// Reads devices, kernels, copies, memsets, graphs recorded as a whole, waits and the profiler's own work into events sorted by start,
  /// whatever the order of the rows. What has implausible times (plausible_times.h) is noted in the trace and left out; what overruns the
  /// next record of its stream and can't be right (overruns.h) is noted and cut there.
  void read();

  /// False for times far from those of the device work.
  [[nodiscard]] bool near_work(const Event& event) const { return !middle_ || is_near(*middle_, event.start, event.end()); }

  /// Events that this call launched, ordered by index.
  [[nodiscard]] std::span<const StartedBy> started_by(const Correlation& call) const;
  /// Every event that names its call, ordered by call.
  [[nodiscard]] std::span<const StartedBy> started() const { return started_; }
  /// Work of a stream that a call launched, in the order of the calls.
  [[nodiscard]] std::span<const StartedBy> of_stream(const StreamKey& stream) const;
  /// Device of the process' first work; -1 if it has no work.
  [[nodiscard]] std::int16_t device_of_process(std::int64_t process) const;

 private:
  // Waits and overhead are timed on the host and may overlap the stream's work, so they count as a stream of their own.
  using Lanes = StreamLanes<std::pair<StreamKey, bool>>;
  /// What is known of an event beside it: traces have millions.
  struct Leaf {
    std::int64_t correlation = 0;
    std::int32_t stream = -1;  ///< index into stream_keys_
    bool on_host = false;
    bool whole_graph = false;
    bool is_explained = true;  ///< the file says which GPU its device is
  };

  [[nodiscard]] const StreamKey& stream_of(const Leaf& leaf) const { return stream_keys_[static_cast<std::size_t>(leaf.stream)]; }
  [[nodiscard]] std::int64_t process_of(const Leaf& leaf) const { return std::get<0>(stream_of(leaf)); }
  [[nodiscard]] Correlation call_of(const Leaf& leaf) const { return {process_of(leaf), leaf.correlation}; }
  [[nodiscard]] Lanes::OfDevice lanes_of(std::size_t index) const;
  [[nodiscard]] std::int32_t index_of_stream(const StreamKey& key);
  void add(const Event& event, const Leaf& leaf);
  void leave_out(const std::function<bool(std::size_t index)>& is_out);
  void reserve();
  void read_devices();
  void read_table(const std::string& table);
  void read_overhead(const std::string& table, const std::string& condition);
  void leave_out_known_graphs();
  [[nodiscard]] std::vector<TimedRecord> timed() const;
  void leave_out_implausible();
  void cut_overruns();
  /// Indices of names of these calls. Those without a name are left out.
  [[nodiscard]] std::map<Correlation, int> names_of_calls(const std::set<Correlation>& calls);
  void note(ImplausibleTime::Fault fault, const Event& event, const Leaf& leaf, const RowTimes& times, const std::string& more = "");
  [[nodiscard]] TimeInterval span_of_host();
  void sort_leaves();
  /// Work of several processes under one number of a device that the file does not explain.
  void count_ambiguous();
  void place_leaves();
  [[nodiscard]] int device_or_none(Rows& rows, int column) const;
  [[nodiscard]] std::int32_t add_copy(Rows& rows, int device);
  [[nodiscard]] std::int32_t add_kernel(Rows& rows);
  void set_kind(const std::string& table, Rows& rows, Event& event);

  SQLite::Database& database_;
  NsightNames& names_;
  Trace& trace_;
  KernelIndex kernels_{trace_.kernels};
  std::vector<Leaf> leaves_;  // of each event of the trace, until all are placed
  std::vector<StreamKey> stream_keys_;
  std::map<StreamKey, std::int32_t> streams_by_key_;
  std::optional<Nanoseconds> middle_;  // median start of the work, if there is any
  NsightDevices devices_;
  std::vector<StartedBy> started_;                                // sorted
  std::vector<std::vector<StartedBy>> streams_;                   // by index, where the file has waits that need them
  std::map<std::int64_t, std::vector<std::int16_t>> devices_of_;  // by process, in the order of their first work
};

/// Adds an event_wait edge for every stream's wait on an event: from the last work before the event's record to the next work after the
/// wait. No edge is added if one of them does not exist or the consumer started first.
void add_event_waits(SQLite::Database& database, const NsightLeaves& leaves, Trace& trace);

}  // namespace mptune::profiler

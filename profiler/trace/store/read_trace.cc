#include <algorithm>
#include <map>
#include <utility>

#include "profiler/base/index.h"
#include "profiler/trace/store/placement.h"
#include "profiler/trace/store/rows.h"
#include "profiler/trace/store/schema.h"
#include "profiler/trace/store/tables.h"
#include "profiler/trace/values/plausible_times.h"

namespace mptune::profiler {
namespace {

// Files hold these numbers.
static_assert(static_cast<int>(EventKind::forward) == 0 && static_cast<int>(EventKind::copy) == 7 &&
              static_cast<int>(EventKind::step) == 13 && static_cast<int>(EventKind::kernel) == 14 &&
              static_cast<int>(EventKind::profiler) == 15);

Nanoseconds time_of(std::int64_t stored, std::int64_t shift) {
  if (stored > kFurthest || stored < -kFurthest) throw BadContent("a time is out of range");
  const Nanoseconds time{stored - shift};
  if (time > kLongestRecording || time < -kLongestRecording)
    throw BadContent("the time " + std::to_string(stored) + " ns is further from the start than any recording is long");
  return time;
}

// Rows whose first column counts from 0 without gaps.
class Numbered : public Rows {
 public:
  using Rows::Rows;
  bool next() {
    if (!Rows::next()) return false;
    if (integer(0) != row_++) throw BadContent("a row is missing before row " + std::to_string(integer(0)));
    return true;
  }

 private:
  std::int64_t row_ = 0;
};

// Start and end of the rows of one of the layout's tables, in the order they were written.
class Times {
 public:
  Times(SQLite::Database& database, const std::string& table, std::int64_t shift, const std::string& more = "")
      : table_(table), rows_(database, "SELECT start, end" + more + " FROM " + table + " ORDER BY rowid"), shift_(shift) {}

  void take(Nanoseconds& start, Nanoseconds& end) {
    if (!rows_.next()) throw BadContent(table_ + " has too few rows");
    start = time_of(rows_.integer(0), shift_);
    end = time_of(rows_.integer(1), shift_);
  }

  void take(Event& event) {
    Nanoseconds end{0};
    take(event.start, end);
    event.duration = end - event.start;
  }

  /// The current row; the columns of `more` begin at 2.
  [[nodiscard]] Rows& row() { return rows_; }

  void require_end() {
    if (rows_.next()) throw BadContent(table_ + " has too many rows");
  }

 private:
  std::string table_;
  Rows rows_;
  std::int64_t shift_;
};

// Puts kernels into the order of their own index; rows arrive in the order of the events.
class KernelCollector {
 public:
  explicit KernelCollector(std::vector<Kernel>& kernels) : kernels_(kernels) {}

  // Columns from `first` on: context, stream, grid, block, registers, static and dynamic shared memory.
  void add(std::int32_t index, Rows& rows, int first) {
    Kernel kernel;
    kernel.context = rows.as<int>(first);
    kernel.stream = rows.as<int>(first + 1);
    for (int i = 0; i < 3; ++i) kernel.grid[as_index(i)] = rows.as<int>(first + 2 + i);
    for (int i = 0; i < 3; ++i) kernel.block[as_index(i)] = rows.as<int>(first + 5 + i);
    kernel.registers_per_thread = rows.as<int>(first + 8);
    kernel.static_shared_bytes = rows.as<int>(first + 9);
    kernel.dynamic_shared_bytes = rows.as<int>(first + 10);
    if (index < static_cast<std::int64_t>(kernels_.size()))
      kernels_[as_index(index)] = kernel;  // of an earlier event, too
    else if (index == static_cast<std::int64_t>(kernels_.size()))
      kernels_.push_back(kernel);
    else
      others_.try_emplace(index, kernel);
  }

  void place_others() {
    for (const auto& [index, kernel] : others_) {
      const auto i = as_index(index);
      if (i > kernels_.size()) throw BadContent("the details of a kernel are missing");
      if (i == kernels_.size()) kernels_.emplace_back();
      kernels_[i] = kernel;
    }
  }

 private:
  std::vector<Kernel>& kernels_;
  std::map<std::int32_t, Kernel> others_;
};

EventKind what_of(std::int64_t number) {
  if (number < 0 || number >= kEventKindCount) throw BadContent("an event has the unknown kind " + std::to_string(number));
  return static_cast<EventKind>(number);
}

EdgeKind edge_kind_of(std::int64_t number) {
  if (number < 0 || number > static_cast<int>(EdgeKind::event_wait)) throw BadContent("an edge has an unknown kind");
  return static_cast<EdgeKind>(number);
}

// Columns 1 .. 6 of MPTUNE_EVENT and MPTUNE_RANGE.
Event event_of(Rows& rows) {
  Event event;
  event.kind = what_of(rows.integer(1));
  event.device = rows.as<std::int16_t>(2);
  event.lane = rows.as<std::uint8_t>(3);
  event.name = rows.as<std::int32_t>(4);
  event.tag = rows.as<std::int32_t>(5);
  event.detail = rows.as<std::int32_t>(6);
  return event;
}

void read_names(SQLite::Database& database, Trace& trace) {
  const std::int64_t count = read_meta_integer(database, "names");
  Rows rows(database, "SELECT id, value FROM StringIds WHERE id >= 1 AND id <= " + std::to_string(count) + " ORDER BY id");
  while (rows.next()) {
    trace.names.push_back(rows.text(1));
    if (rows.integer(0) != static_cast<std::int64_t>(trace.names.size())) break;
  }
  if (static_cast<std::int64_t>(trace.names.size()) != count) throw BadContent("StringIds lacks names");
}

// 13 days. The times of thousands of traces add up to what a number holds.
constexpr std::int64_t kMostUnmatchedNs = std::int64_t{1} << 50;

void read_quality(SQLite::Database& database, int minor, Trace& trace) {
  const std::string newer = minor >= 5   ? ", zero_stamped, unmatched, cut_off, ambiguous, unmatched_ns"
                            : minor >= 4 ? ", zero_stamped, unmatched, cut_off, 0, 0"
                            : minor >= 1 ? ", zero_stamped, unmatched, 0, 0, 0"
                                         : ", 0, 0, 0, 0, 0";
  Rows quality(database, "SELECT dropped, untagged, out_of_window" + newer + " FROM MPTUNE_QUALITY");
  if (!quality.next()) throw BadContent("MPTUNE_QUALITY has no row");
  trace.quality = {quality.integer(0), quality.integer(1), quality.integer(2), quality.integer(3),
                   quality.integer(4), quality.integer(5), quality.integer(6), std::min(quality.integer(7), kMostUnmatchedNs)};
}

// Files of earlier versions have none.
void read_device_peaks(SQLite::Database& database, std::vector<TraceDevice>& devices) {
  if (!has_table(database, "MPTUNE_DEVICE_PEAK")) return;
  Rows peak(database, "SELECT device, peak_bytes FROM MPTUNE_DEVICE_PEAK ORDER BY 1");
  while (peak.next()) {
    const auto device = peak.as<std::int32_t>(0);
    if (device < 0 || as_index(device) >= devices.size()) throw BadContent("a peak has a device that does not exist");
    devices[as_index(device)].peak_bytes = peak.integer(1);
  }
}

void read_who(SQLite::Database& database, Trace& trace) {
  Numbered device(database, "SELECT device, name, description, cores, memory_bytes FROM MPTUNE_DEVICE ORDER BY 1");
  while (device.next()) trace.devices.push_back({device.text(1), device.text(2), device.as<int>(3), device.integer(4)});
  read_device_peaks(database, trace.devices);
  Numbered thread(database, "SELECT thread, name FROM MPTUNE_THREAD ORDER BY 1");
  while (thread.next()) trace.threads.push_back(thread.text(1));
  Numbered tag(database, "SELECT tag, step, stage, microbatch, layer, replica FROM MPTUNE_TAG ORDER BY 1");
  while (tag.next()) trace.tags.push_back({tag.as<int>(1), tag.as<int>(2), tag.as<int>(3), tag.as<int>(4), tag.as<int>(5)});
}

constexpr const char* kKernelColumns =
    ", contextId, streamId, gridX, gridY, gridZ, blockX, blockY, blockZ, registersPerThread, staticSharedMemory, dynamicSharedMemory";

// Files of minor version 0 hold neither recorded kernels nor the recorder's own work.
void read_events(SQLite::Database& database, int minor, std::int64_t shift, Trace& trace) {
  Times nvtx(database, "NVTX_EVENTS", shift);
  Numbered range(database, "SELECT range, what, device, lane, name, tag, detail FROM MPTUNE_RANGE ORDER BY 1");
  while (range.next()) nvtx.take(trace.ranges.emplace_back(event_of(range)));

  Times kernels(database, "CUPTI_ACTIVITY_KIND_KERNEL", shift, kKernelColumns);
  Times copies(database, "CUPTI_ACTIVITY_KIND_MEMCPY", shift);
  Times memsets(database, "CUPTI_ACTIVITY_KIND_MEMSET", shift);
  Times waits(database, "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION", shift);
  std::optional<Times> overheads;
  if (minor >= 1) overheads.emplace(database, "PROFILER_OVERHEAD", shift);
  KernelCollector details(trace.kernels);
  Numbered rows(database, "SELECT event, what, device, lane, name, tag, detail FROM MPTUNE_EVENT ORDER BY 1");
  while (rows.next()) {
    Event& event = trace.events.emplace_back(event_of(rows));
    Times& times = event.kind == EventKind::copy                    ? copies
                   : event.kind == EventKind::memset                ? memsets
                   : event.kind == EventKind::sync                  ? waits
                   : event.kind == EventKind::host                  ? nvtx
                   : event.kind == EventKind::profiler && overheads ? *overheads
                                                                    : kernels;
    times.take(event);
    if (has_kernel_row(event.kind) && event.detail >= 0) details.add(event.detail, kernels.row(), 2);
  }
  for (Times* times : {&kernels, &copies, &memsets, &waits}) times->require_end();
  if (!overheads) return details.place_others();
  overheads->require_end();
  Rows grid(database, "SELECT * FROM MPTUNE_GRID ORDER BY detail");
  while (grid.next()) details.add(grid.as<std::int32_t>(0), grid, 1);
  details.place_others();
}

void read_launches(SQLite::Database& database, std::int64_t shift, Trace& trace) {
  Times times(database, "CUPTI_ACTIVITY_KIND_RUNTIME", shift, ", correlationId, nameId");
  const auto names = static_cast<std::int64_t>(trace.names.size());
  Numbered rows(database, "SELECT launch, event, thread FROM MPTUNE_LAUNCH ORDER BY 1");
  while (rows.next()) {
    Launch& launch = trace.launches.emplace_back(Launch{.event = rows.as<int>(1), .thread = rows.as<int>(2)});
    times.take(launch.start, launch.end);
    launch.correlation = times.row().integer(2);
    // Ids above the trace's names belong to placeholders for calls without a name.
    const std::int64_t name = times.row().integer(3);
    launch.name = name >= 1 && name <= names ? static_cast<int>(name - 1) : -1;
  }
  times.require_end();
}

void read_small_tables(SQLite::Database& database, std::int64_t shift, Trace& trace) {
  Numbered copy(database, "SELECT copy, bytes, source, destination FROM MPTUNE_COPY ORDER BY 1");
  while (copy.next()) trace.copies.push_back({copy.integer(1), copy.as<int>(2), copy.as<int>(3)});
  Numbered edge(database, "SELECT edge, producer, consumer, kind FROM MPTUNE_EDGE ORDER BY 1");
  while (edge.next()) trace.edges.push_back({edge.as<int>(1), edge.as<int>(2), edge_kind_of(edge.integer(3))});
  Numbered memory(database, "SELECT sample, time, device, current_bytes FROM MPTUNE_MEMORY ORDER BY 1");
  while (memory.next()) trace.memory.push_back({time_of(memory.integer(1), shift), memory.as<int>(2), memory.integer(3)});
  Numbered step(database, "SELECT position, step, start, end FROM MPTUNE_STEP ORDER BY 1");
  while (step.next()) trace.steps.push_back({step.as<int>(1), time_of(step.integer(2), shift), time_of(step.integer(3), shift)});
}

// Requires: consistent.
void mark_copies(Trace& trace) {
  std::vector<bool> gradients;
  std::vector<bool> unified;
  for (const std::string& name : trace.names) {
    gradients.push_back(names_gradients(name));
    unified.push_back(name == kUnifiedCopyName);
  }
  for (const Event& event : trace.events) {
    if (event.kind != EventKind::copy || event.detail < 0) continue;
    Copy& copy = trace.copies[as_index(event.detail)];
    copy.gradient = copy.gradient || gradients[as_index(event.name)];
    copy.unified = copy.unified || unified[as_index(event.name)];
  }
}

}  // namespace

Trace read_trace(SQLite::Database& database) {
  Trace trace;
  const std::int64_t shift = read_meta_integer(database, "time_shift_ns");
  if (shift > kFurthest || shift < -kFurthest) throw BadContent("the time shift is out of range");
  trace.simulated = read_meta_integer(database, "simulated") != 0;
  trace.started_utc_ns = read_meta_integer(database, "started_utc_ns");
  read_names(database, trace);
  read_who(database, trace);
  const auto minor = static_cast<int>(std::clamp<std::int64_t>(read_meta_integer(database, "schema_minor"), 0, kSchemaMinor));
  read_quality(database, minor, trace);
  read_events(database, minor, shift, trace);
  read_launches(database, shift, trace);
  read_small_tables(database, shift, trace);
  if (const std::string fault = inconsistency(trace); !fault.empty()) throw BadContent(fault);
  mark_copies(trace);
  const auto meets = [](const StepWindow& a, const StepWindow& b) { return b.start < a.end; };
  if (std::ranges::adjacent_find(trace.steps, meets) != trace.steps.end()) throw BadContent("steps overlap or are out of order");
  return trace;
}

}  // namespace mptune::profiler

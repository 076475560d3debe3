#include "mptune/profiler/store/rows.h"
#include "mptune/profiler/store/tables.h"

namespace mptune {
namespace {

// These numbers are in files.
static_assert(static_cast<int>(What::forward) == 0 && static_cast<int>(What::copy) == 7 && static_cast<int>(What::step) == 13 &&
              static_cast<int>(What::kernel) == 14);

// Further from 0 no time of a recording lies; sums of two stay in range.
constexpr std::int64_t kFurthest = std::int64_t{1} << 61;

Nanoseconds time_of(std::int64_t stored, std::int64_t shift) {
  if (stored > kFurthest || stored < -kFurthest) throw BadContent("a time is out of range");
  return Nanoseconds{stored - shift};
}

// Rows whose first column numbers them from 0.
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
  Times(SQLite::Database& database, const std::string& table, std::int64_t shift)
      : table_(table), rows_(database, "SELECT start, end FROM " + table + " ORDER BY rowid"), shift_(shift) {}

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

  void require_end() {
    if (rows_.next()) throw BadContent(table_ + " has too many rows");
  }

 private:
  std::string table_;
  Rows rows_;
  std::int64_t shift_;
};

What what_of(std::int64_t number) {
  if (number < 0 || number >= kWhatCount) throw BadContent("an event of the unknown kind " + std::to_string(number));
  return static_cast<What>(number);
}

EdgeKind edge_kind_of(std::int64_t number) {
  if (number < 0 || number > static_cast<int>(EdgeKind::event_wait)) throw BadContent("an edge of an unknown kind");
  return static_cast<EdgeKind>(number);
}

// Columns 1 .. 6 of MPTUNE_EVENT and MPTUNE_RANGE.
Event event_of(Rows& rows) {
  Event event;
  event.what = what_of(rows.integer(1));
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

void read_who(SQLite::Database& database, Trace& trace) {
  Numbered device(database, "SELECT device, name, description, cores, memory_bytes FROM MPTUNE_DEVICE ORDER BY 1");
  while (device.next()) trace.devices.push_back({device.text(1), device.text(2), device.as<int>(3), device.integer(4)});
  Numbered thread(database, "SELECT thread, name FROM MPTUNE_THREAD ORDER BY 1");
  while (thread.next()) trace.threads.push_back(thread.text(1));
  Numbered tag(database, "SELECT tag, step, stage, microbatch, layer, replica FROM MPTUNE_TAG ORDER BY 1");
  while (tag.next()) trace.tags.push_back({tag.as<int>(1), tag.as<int>(2), tag.as<int>(3), tag.as<int>(4), tag.as<int>(5)});
  Rows quality(database, "SELECT dropped, untagged, out_of_window FROM MPTUNE_QUALITY");
  if (!quality.next()) throw BadContent("MPTUNE_QUALITY has no row");
  trace.quality = {quality.integer(0), quality.integer(1), quality.integer(2)};
}

void read_events(SQLite::Database& database, std::int64_t shift, Trace& trace) {
  Times nvtx(database, "NVTX_EVENTS", shift);
  Numbered range(database, "SELECT range, what, device, lane, name, tag, detail FROM MPTUNE_RANGE ORDER BY 1");
  while (range.next()) nvtx.take(trace.ranges.emplace_back(event_of(range)));

  Times kernels(database, "CUPTI_ACTIVITY_KIND_KERNEL", shift);
  Times copies(database, "CUPTI_ACTIVITY_KIND_MEMCPY", shift);
  Times memsets(database, "CUPTI_ACTIVITY_KIND_MEMSET", shift);
  Times waits(database, "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION", shift);
  Numbered rows(database, "SELECT event, what, device, lane, name, tag, detail FROM MPTUNE_EVENT ORDER BY 1");
  while (rows.next()) {
    Event& event = trace.events.emplace_back(event_of(rows));
    Times& times = event.what == What::copy     ? copies
                   : event.what == What::memset ? memsets
                   : event.what == What::sync   ? waits
                   : event.what == What::host   ? nvtx
                                                : kernels;
    times.take(event);
  }
  for (Times* times : {&kernels, &copies, &memsets, &waits}) times->require_end();
}

void read_launches(SQLite::Database& database, std::int64_t shift, Trace& trace) {
  Times times(database, "CUPTI_ACTIVITY_KIND_RUNTIME", shift);
  Rows correlation(database, "SELECT correlationId FROM CUPTI_ACTIVITY_KIND_RUNTIME ORDER BY rowid");
  Numbered rows(database, "SELECT launch, event, thread FROM MPTUNE_LAUNCH ORDER BY 1");
  while (rows.next()) {
    Launch& launch = trace.launches.emplace_back(Launch{.event = rows.as<int>(1), .thread = rows.as<int>(2)});
    times.take(launch.start, launch.end);
    if (correlation.next()) launch.correlation = correlation.integer(0);
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

}  // namespace

Trace read_trace(SQLite::Database& database) {
  Trace trace;
  const std::int64_t shift = read_meta_integer(database, "time_shift_ns");
  if (shift > kFurthest || shift < -kFurthest) throw BadContent("the time shift is out of range");
  trace.simulated = read_meta_integer(database, "simulated") != 0;
  trace.started_utc_ns = read_meta_integer(database, "started_utc_ns");
  read_names(database, trace);
  read_who(database, trace);
  read_events(database, shift, trace);
  read_launches(database, shift, trace);
  read_small_tables(database, shift, trace);
  if (const std::string fault = inconsistency(trace); !fault.empty()) throw BadContent(fault);
  return trace;
}

}  // namespace mptune

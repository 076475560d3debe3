#include <algorithm>
#include <map>
#include <tuple>

#include "profiler/trace/store/nsight_leaves.h"
#include "profiler/trace/store/schema.h"
#include "profiler/trace/store/tables.h"

namespace mptune::profiler {
namespace {

// Process, eventSyncId and the recording call's correlation -> the stream recorded on.
using EventRecords = std::map<std::tuple<std::int64_t, std::int64_t, std::int64_t>, StreamKey>;

// Both tables: process, context, stream, correlation, eventSyncId.
std::string query(SQLite::Database& database, const char* table) {
  return "SELECT " + selection(database, table, {"globalPid", "contextId", "streamId", "correlationId", "eventSyncId"}) + " FROM " + table;
}

StreamKey stream_of(Rows& rows) {
  return {rows.integer_or(0, 0), rows.integer_or(1, 0), rows.integer_or(2, 0)};
}

EventRecords read_records(SQLite::Database& database) {
  EventRecords records;
  Rows rows(database, query(database, kEventRecords) + " ORDER BY globalPid, contextId, streamId, correlationId");
  while (rows.next())
    if (!rows.null(3) && !rows.null(4)) records[{rows.integer_or(0, 0), rows.integer(4), rows.integer(3)}] = stream_of(rows);
  return records;
}

// Correlation ids number the calls of a process, and a stream runs its work in the order of the calls. So no times are compared.
int last_before(std::span<const StartedBy> work, const Correlation& call) {
  const auto after = std::lower_bound(work.begin(), work.end(), StartedBy{.call = call});
  return after == work.begin() ? -1 : std::prev(after)->event;
}

int first_after(std::span<const StartedBy> work, const Correlation& call) {
  const auto after = std::partition_point(work.begin(), work.end(), [&](const StartedBy& started) { return started.call <= call; });
  return after == work.end() ? -1 : after->event;
}

}  // namespace

void add_event_waits(SQLite::Database& database, const NsightLeaves& leaves, Trace& trace) {
  if (!has_table(database, kWaits) || !has_table(database, kEventRecords)) return;
  if (!columns_of(database, kWaits).contains("syncType")) return;
  const EventRecords records = read_records(database);
  Rows rows(database,
            query(database, kWaits) + " WHERE syncType = " + std::to_string(kStreamWait) + " ORDER BY correlationId, contextId, streamId");
  while (rows.next()) {
    if (rows.null(3) || rows.null(4)) continue;
    const std::int64_t process = rows.integer_or(0, 0);
    const std::int64_t wait = rows.integer(3);
    const auto later = records.lower_bound({process, rows.integer(4), wait});
    if (later == records.begin()) continue;
    const auto& [key, recorded_on] = *std::prev(later);
    const auto& [record_process, sync_id, record] = key;
    if (record_process != process || sync_id != rows.integer(4)) continue;
    const int producer = last_before(leaves.of_stream(recorded_on), {process, record});
    const int consumer = first_after(leaves.of_stream(stream_of(rows)), {process, wait});
    // Events are ordered by start. Only damaged files have edges against that order, and those could form a cycle.
    if (producer >= 0 && producer < consumer) trace.edges.push_back({producer, consumer, EdgeKind::event_wait});
  }
}

}  // namespace mptune::profiler

#include "profiler/trace/store/tables.h"

#include <algorithm>
#include <charconv>
#include <utility>

#include "profiler/base/index.h"
#include "profiler/trace/store/rows.h"
#include "profiler/trace/values/edge_cycle.h"

namespace mptune::profiler {
namespace {

// This is more than any device has; sums of these numbers still fit into 64 bits.
constexpr std::int64_t kMostBytes = std::int64_t{1} << 50;
constexpr std::int64_t kMostCopiedBytes = std::int64_t{1} << 60;  // in all
constexpr std::int64_t kMostLosses = std::int64_t{1} << 50;

// True if `index` is at least `least` and below the size of `container`. With `least` = -1, -1 stands for "none".
template <class Container>
bool within(std::int64_t index, const Container& container, std::int64_t least = 0) {
  return index >= least && index < static_cast<std::int64_t>(container.size());
}

std::string fault_of(const Trace& trace, const Event& event, int least_device) {
  if (event.duration.count() < 0) return "an event ends before it starts";
  if (!within(event.name, trace.names)) return "an event has no name";
  if (!within(event.tag, trace.tags, -1)) return "an event has a tag that does not exist";
  if (!within(event.device, trace.devices, least_device)) return "an event is on a device that does not exist";
  if (event.kind == EventKind::copy && !within(event.detail, trace.copies, -1)) return "a copy has no details";
  if (is_compute(event.kind) && !within(event.detail, trace.kernels, -1)) return "compute has details that do not exist";
  return {};
}

std::string fault_of(const Trace& trace, const Launch& launch) {
  if (!within(launch.event, trace.events, -1)) return "a launch has an event that does not exist";
  if (!within(launch.thread, trace.threads)) return "a launch is on a thread that does not exist";
  if (!within(launch.name, trace.names, -1)) return "a launch has a name that does not exist";
  if (launch.end < launch.start) return "a launch ends before it starts";
  return launch.correlation > 0 ? std::string{} : "a launch has no correlation";
}

std::string fault_of_events(const Trace& trace) {
  for (const Event& event : trace.events) {
    if (event.kind == EventKind::action || event.kind == EventKind::step) return "an event is a range";
    if (std::string fault = fault_of(trace, event, 0); !fault.empty()) return fault;
  }
  for (const Event& range : trace.ranges)
    if (std::string fault = fault_of(trace, range, -1); !fault.empty()) return fault;
  return {};
}

// Recorders number calls in ascending order; checking that needs no memory.
bool share_a_correlation(const std::vector<Launch>& launches) {
  const auto not_ascending = [](const Launch& a, const Launch& b) { return a.correlation >= b.correlation; };
  if (std::adjacent_find(launches.begin(), launches.end(), not_ascending) == launches.end()) return false;
  std::vector<std::int64_t> correlations;
  correlations.reserve(launches.size());
  for (const Launch& launch : launches) correlations.push_back(launch.correlation);
  std::sort(correlations.begin(), correlations.end());
  return std::adjacent_find(correlations.begin(), correlations.end()) != correlations.end();
}

std::string fault_of_links(const Trace& trace) {
  for (const Launch& launch : trace.launches)
    if (std::string fault = fault_of(trace, launch); !fault.empty()) return fault;
  if (share_a_correlation(trace.launches)) return "two launches share a correlation";
  for (const Edge& edge : trace.edges)
    if (!within(edge.producer, trace.events) || !within(edge.consumer, trace.events)) return "an edge has an event that does not exist";
  return form_a_cycle(trace.edges, trace.events.size()) ? "the edges form a cycle" : std::string{};
}

std::string fault_of_sizes(const Trace& trace) {
  std::int64_t copied = 0;
  for (const Copy& copy : trace.copies) {
    if (copy.bytes < 0) return "a copy has a negative size";
    if (copy.bytes > kMostBytes || (copied += copy.bytes) > kMostCopiedBytes) return "a copy is too large, or all copies together are";
    if (!within(copy.source, trace.devices, -1) || !within(copy.destination, trace.devices, -1))
      return "a copy has a device that does not exist";
  }
  for (const MemorySample& sample : trace.memory) {
    if (!within(sample.device, trace.devices)) return "a memory sample has a device that does not exist";
    if (sample.current_bytes < 0 || sample.current_bytes > kMostBytes) return "a memory sample is negative or too large";
  }
  for (const TraceDevice& device : trace.devices)
    if (device.cores < 0 || device.memory_bytes < 0 || device.memory_bytes > kMostBytes || device.peak_bytes < 0 ||
        device.peak_bytes > kMostBytes)
      return "a device's cores or memory are negative or too large";
  const TraceQuality& lost = trace.quality;
  for (const std::int64_t count :
       {lost.dropped, lost.untagged, lost.out_of_window, lost.zero_stamped, lost.unmatched, lost.cut_off, lost.ambiguous})
    if (count < 0 || count > kMostLosses) return "a count of losses is negative or too large";
  if (lost.unmatched_ns < 0) return "the time of communications without counterpart is negative";
  return {};
}

}  // namespace

std::string inconsistency(const Trace& trace) {
  if (std::string fault = fault_of_events(trace); !fault.empty()) return fault;
  if (std::string fault = fault_of_links(trace); !fault.empty()) return fault;
  if (std::string fault = fault_of_sizes(trace); !fault.empty()) return fault;
  for (const StepWindow& step : trace.steps)
    if (step.end < step.start) return "a step ends before it starts";
  return {};
}

bool has_table(SQLite::Database& database, const std::string& table) {
  SQLite::Statement query(database, "SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = ? COLLATE NOCASE");
  query.bind(1, table);
  return query.executeStep();
}

bool has_column(SQLite::Database& database, const std::string& table, const std::string& column) {
  SQLite::Statement query(database, "SELECT 1 FROM pragma_table_info(?) WHERE name = ? COLLATE NOCASE");
  query.bind(1, table);
  query.bind(2, column);
  return query.executeStep();
}

void write_meta(SQLite::Database& database, const std::string& name, const std::string& value) {
  Insert(database, "INSERT INTO MPTUNE_META VALUES (?, ?)")(name, value);
}

std::string read_meta(SQLite::Database& database, const std::string& name) {
  SQLite::Statement query(database, "SELECT value FROM MPTUNE_META WHERE name = ?");
  query.bind(1, name);
  return query.executeStep() ? query.getColumn(0).getString() : std::string{};
}

std::int64_t read_meta_integer(SQLite::Database& database, const std::string& name) {
  const std::string text = read_meta(database, name);
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size()) throw BadContent("MPTUNE_META has no number '" + name + "'");
  return value;
}

}  // namespace mptune::profiler

#include "profiler/trace/store/nsight_leaves.h"

#include <algorithm>
#include <numeric>

#include "profiler/base/index.h"
#include "profiler/trace/store/schema.h"
#include "profiler/trace/store/tables.h"
#include "profiler/trace/values/kernel_names.h"

namespace mptune::profiler {
namespace {

constexpr const char* kKernels = "CUPTI_ACTIVITY_KIND_KERNEL";
constexpr const char* kCopies = "CUPTI_ACTIVITY_KIND_MEMCPY";
constexpr const char* kMemsets = "CUPTI_ACTIVITY_KIND_MEMSET";
constexpr const char* kGraphs = "CUPTI_ACTIVITY_KIND_GRAPH_TRACE";
constexpr int kProcessColumn = 5;  // of the columns of columns_for
constexpr const char* kLeafTables[] = {kKernels, kCopies, kMemsets, kGraphs, kWaits};
// Exports hold rows in any order. This one leaves nothing to chance but rows that are equal.
constexpr const char* kInOrder = " ORDER BY start, end, deviceId, contextId, streamId, globalPid, correlationId";

// Columns of a table of device work: the common ones, then its own.
std::vector<std::string> columns_for(const std::string& table) {
  std::vector<std::string> columns{"start", "end", "deviceId", "contextId", "streamId", "globalPid", "correlationId"};
  if (table == kKernels)
    columns.insert(columns.end(), {"shortName", "gridX", "gridY", "gridZ", "blockX", "blockY", "blockZ", "registersPerThread",
                                   "staticSharedMemory", "dynamicSharedMemory"});
  if (table == kCopies) columns.insert(columns.end(), {"bytes", "copyKind", "srcDeviceId", "dstDeviceId"});
  return columns;
}

/// Puts what has index order[i] at i, without a second vector of it.
template <typename Item>
void reorder(std::vector<Item>& items, const std::vector<std::int32_t>& order) {
  std::vector<bool> done(items.size(), false);
  for (std::size_t first = 0; first < items.size(); ++first) {
    if (done[first]) continue;
    const Item moved = items[first];
    std::size_t to = first;
    for (std::size_t from = as_index(order[to]); from != first; to = from, from = as_index(order[to])) {
      items[to] = items[from];
      done[to] = true;
    }
    items[to] = moved;
    done[to] = true;
  }
}

int number_or_0(Rows& rows, int column) {
  return rows.null(column) ? 0 : rows.as<int>(column);
}

}  // namespace

std::set<std::string> columns_of(SQLite::Database& database, const std::string& table) {
  std::set<std::string> columns;
  Rows rows(database, "SELECT name FROM pragma_table_info('" + table + "')");
  while (rows.next()) columns.insert(rows.text(0));
  return columns;
}

std::string selection(SQLite::Database& database, const std::string& table, const std::vector<std::string>& wanted) {
  const std::set<std::string> present = columns_of(database, table);
  std::string text;
  for (const std::string& column : wanted) {
    if (!text.empty()) text += ", ";
    text += present.contains(column) ? column : "NULL AS " + column;
  }
  return text;
}

NsightNames::NsightNames(SQLite::Database& database, Trace& trace) : trace_(trace) {
  if (!has_table(database, "StringIds")) return;
  Rows rows(database, "SELECT id, value FROM StringIds");
  while (rows.next()) strings_[rows.integer(0)] = rows.text(1);
}

int NsightNames::of(const std::string& text) {
  const auto [place, is_new] = names_.try_emplace(text, static_cast<int>(trace_.names.size()));
  if (is_new) trace_.names.push_back(text);
  return place->second;
}

int NsightNames::of_string(std::int64_t id) {
  const auto found = strings_.find(id);
  return of(found == strings_.end() ? "string " + std::to_string(id) : found->second);
}

std::optional<ImplausibleTime::Fault> RowTimes::fault() const {
  if (std::max(start, end) > kFurthest || std::min(start, end) < -kFurthest) return ImplausibleTime::Fault::far;
  if (end < start) return ImplausibleTime::Fault::backward;
  return std::nullopt;
}

std::string RowTimes::text() const {
  return "start " + std::to_string(start) + ", end " + std::to_string(end) + " [ns]";
}

void RowTimes::put(Event& event) const {
  event.start = Nanoseconds{start};
  event.duration = Nanoseconds{end - start};
}

RowTimes read_times(Rows& rows) {
  return {rows.integer(0), rows.integer(1)};
}

void NsightLeaves::read() {
  read_devices();
  reserve();
  for (const char* table : kLeafTables)
    if (has_table(database_, table)) read_table(table);
  leave_out_known_graphs();
  leave_out_implausible();
  cut_overruns();
  count_ambiguous();
  sort_leaves();
  for (std::size_t i = 0; i < leaves_.size(); ++i) {
    std::vector<std::int16_t>& devices = devices_of_[process_of(leaves_[i])];
    const std::int16_t device = trace_.events[i].device;
    if (std::find(devices.begin(), devices.end(), device) == devices.end()) devices.push_back(device);
  }
  read_overhead("PROFILER_OVERHEAD", "1");
  // The other overhead types are work of the driver inside an API call: the call's duration contains it.
  read_overhead("CUPTI_ACTIVITY_KIND_OVERHEAD", "overheadType IN (3, 4, 5)");
  sort_leaves();
  place_leaves();
}

// A vector that grows holds up to three times what it needs for a moment.
void NsightLeaves::reserve() {
  std::size_t rows = 0;
  for (const char* table : kLeafTables) {
    if (!has_table(database_, table)) continue;
    Rows count(database_, std::string("SELECT count(*) FROM ") + table);
    if (count.next()) rows += as_index(count.integer(0));
  }
  trace_.events.reserve(rows);
  leaves_.reserve(rows);
}

std::int32_t NsightLeaves::index_of_stream(const StreamKey& key) {
  const auto [place, is_new] = streams_by_key_.try_emplace(key, static_cast<std::int32_t>(stream_keys_.size()));
  if (is_new) stream_keys_.push_back(key);
  return place->second;
}

NsightLeaves::Lanes::OfDevice NsightLeaves::lanes_of(std::size_t index) const {
  const Leaf& leaf = leaves_[index];
  return {trace_.events[index].device, {stream_of(leaf), leaf.on_host}};
}

void NsightLeaves::add(const Event& event, const Leaf& leaf) {
  trace_.events.push_back(event);
  leaves_.push_back(leaf);
}

void NsightLeaves::leave_out(const std::function<bool(std::size_t)>& is_out) {
  std::size_t kept = 0;
  for (std::size_t i = 0; i < leaves_.size(); ++i) {
    if (is_out(i)) continue;
    trace_.events[kept] = trace_.events[i];
    leaves_[kept++] = leaves_[i];
  }
  trace_.events.resize(kept);
  leaves_.resize(kept);
}

void NsightLeaves::read_devices() {
  std::set<LocalDevice> used;
  for (const char* table : kLeafTables) {
    if (!has_table(database_, table)) continue;
    Rows rows(database_, "SELECT DISTINCT " + selection(database_, table, {"globalPid", "deviceId"}) + " FROM " + table);
    while (rows.next()) used.insert({rows.integer_or(0, 0), rows.integer(1)});
  }
  devices_ = NsightDevices(database_, used);
  trace_.devices = devices_.all();
}

void NsightLeaves::count_ambiguous() {
  std::set<std::int16_t> unexplained;
  for (std::size_t i = 0; i < leaves_.size(); ++i)
    if (!leaves_[i].on_host && !leaves_[i].is_explained) unexplained.insert(trace_.events[i].device);
  for (const std::int16_t device : unexplained) {
    std::vector<ProcessWork> works;
    for (std::size_t i = 0; i < leaves_.size(); ++i)
      if (const Event& event = trace_.events[i]; !leaves_[i].on_host && event.device == device)
        works.push_back({process_of(leaves_[i]), {event.start, event.end()}});
    trace_.quality.ambiguous += overlapping_between_processes(works);
  }
}

void NsightLeaves::read_table(const std::string& table) {
  Rows rows(database_, "SELECT " + selection(database_, table, columns_for(table)) + " FROM " + table + kInOrder);
  while (rows.next()) {
    const RowTimes times = read_times(rows);
    if (times.missing()) {
      ++trace_.quality.zero_stamped;
      continue;
    }
    const std::int64_t process = rows.integer_or(5, 0);
    const Leaf leaf{.correlation = rows.integer_or(6, 0),
                    .stream = index_of_stream({process, rows.integer_or(3, 0), rows.integer_or(4, 0)}),
                    .on_host = table == kWaits,
                    .whole_graph = table == kGraphs,
                    .is_explained = devices_.is_explained({process, rows.integer(2)})};
    Event event;
    event.device = static_cast<std::int16_t>(devices_.index_of({process, rows.integer(2)}));
    set_kind(table, rows, event);
    if (const auto fault = times.fault()) {
      note(*fault, event, leaf, times);
      continue;
    }
    times.put(event);
    add(event, leaf);
  }
}

// Profiler overhead counts on every device of its process: the export does not say which device it delayed.
void NsightLeaves::read_overhead(const std::string& table, const std::string& condition) {
  if (!has_table(database_, table)) return;
  Rows rows(database_, "SELECT " + selection(database_, table, {"start", "end", "globalTid", "nameId", "overheadType"}) + " FROM " + table +
                           " WHERE " + condition + " ORDER BY start, end, globalTid, nameId");
  while (rows.next()) {
    Event event{.kind = EventKind::profiler};
    const RowTimes times = read_times(rows);
    if (!times.fault()) times.put(event);
    if (times.missing() || times.fault() || !near_work(event)) {
      ++(times.missing() ? trace_.quality.zero_stamped : trace_.quality.dropped);
      continue;
    }
    const std::int64_t tid = rows.integer_or(2, 0);
    const std::int64_t type = rows.integer_or(4, kOverheadUnknown);
    const bool labelled = type >= 0 && type < static_cast<std::int64_t>(kOverheadLabels.size());
    const std::string label(kOverheadLabels[as_index(labelled ? type : kOverheadUnknown)]);
    const Leaf leaf{.stream = index_of_stream({tid & kProcessBits, -1, tid}), .on_host = true};
    event.name = rows.null(3) ? names_.of(label) : names_.of_string(rows.integer(3));
    const auto devices = devices_of_.find(tid & kProcessBits);
    if (devices == devices_of_.end()) continue;
    for (const std::int16_t device : devices->second) {
      event.device = device;
      add(event, leaf);
    }
  }
}

void NsightLeaves::sort_leaves() {
  const auto starts_before = [](const Event& a, const Event& b) { return a.start < b.start; };
  if (std::is_sorted(trace_.events.begin(), trace_.events.end(), starts_before)) return;
  std::vector<std::int32_t> order(leaves_.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(),
                   [&](std::int32_t a, std::int32_t b) { return starts_before(trace_.events[as_index(a)], trace_.events[as_index(b)]); });
  reorder(trace_.events, order);
  reorder(leaves_, order);
}

void NsightLeaves::place_leaves() {
  std::map<Lanes::OfDevice, double> compute;
  for (std::size_t i = 0; i < leaves_.size(); ++i)
    if (is_compute(trace_.events[i].kind)) compute[lanes_of(i)] += static_cast<double>(trace_.events[i].duration.count());
  Lanes lanes(compute);
  const bool has_event_waits = has_table(database_, kWaits) && has_table(database_, kEventRecords);
  if (has_event_waits) streams_.resize(stream_keys_.size());
  started_.reserve(as_index(std::ranges::count_if(leaves_, [](const Leaf& leaf) { return leaf.correlation != 0; })));
  for (std::size_t i = 0; i < leaves_.size(); ++i) {
    const Leaf& leaf = leaves_[i];
    Event& event = trace_.events[i];
    const auto lane = lanes.take(lanes_of(i), event.start, event.end());
    if (!lane) throw BadContent("a device runs more than 256 events at once");
    event.lane = *lane;
    if (leaf.correlation == 0) continue;
    started_.push_back({call_of(leaf), static_cast<int>(i)});
    if (has_event_waits && event.kind != EventKind::sync) streams_[as_index(leaf.stream)].push_back(started_.back());
  }
  leaves_ = {};
  std::sort(started_.begin(), started_.end());
  for (std::vector<StartedBy>& work : streams_) std::sort(work.begin(), work.end());
}

int NsightLeaves::device_or_none(Rows& rows, int column) const {
  return rows.null(column) ? -1 : devices_.index_of({rows.integer_or(kProcessColumn, 0), rows.integer(column)});
}

std::int32_t NsightLeaves::add_copy(Rows& rows, int device) {
  Copy copy{.bytes = rows.integer(7), .source = device, .destination = device};
  const std::int64_t kind = rows.integer(8);
  if (kind == kCopyHostToDevice) copy.source = -1;
  if (kind == kCopyDeviceToHost) copy.destination = -1;
  if (kind == kCopyPeer) copy = {copy.bytes, device_or_none(rows, 9), device_or_none(rows, 10)};
  copy.unified = kind >= kCopyUnifiedHostToDevice && kind <= kCopyUnifiedWithin;
  if (kind == kCopyUnifiedHostToDevice) copy.source = -1;
  if (kind == kCopyUnifiedDeviceToHost) copy.destination = -1;
  // Not every version fills in both ends; the copy ran on `device`, so one that is not named is that one.
  if (kind == kCopyUnifiedWithin && !rows.null(9)) copy.source = device_or_none(rows, 9);
  if (kind == kCopyUnifiedWithin && !rows.null(10)) copy.destination = device_or_none(rows, 10);
  if (copy.bytes < 0) throw BadContent("a copy has a negative size");
  trace_.copies.push_back(copy);
  return static_cast<std::int32_t>(trace_.copies.size()) - 1;
}

std::int32_t NsightLeaves::add_kernel(Rows& rows) {
  Kernel kernel;
  kernel.context = number_or_0(rows, 3);
  kernel.stream = number_or_0(rows, 4);
  for (int i = 0; i < 3; ++i) kernel.grid[as_index(i)] = number_or_0(rows, 8 + i);
  for (int i = 0; i < 3; ++i) kernel.block[as_index(i)] = number_or_0(rows, 11 + i);
  kernel.registers_per_thread = number_or_0(rows, 14);
  kernel.static_shared_bytes = number_or_0(rows, 15);
  kernel.dynamic_shared_bytes = number_or_0(rows, 16);
  return kernels_.of(kernel);
}

void NsightLeaves::set_kind(const std::string& table, Rows& rows, Event& event) {
  if (table == kKernels) {
    event.name = names_.of_string(rows.integer(7));
    const bool collective = is_nccl_kernel(trace_.names[as_index(event.name)]);
    event.kind = collective ? EventKind::collective : EventKind::kernel;
    event.detail = add_kernel(rows);
  } else if (table == kCopies) {
    event.kind = EventKind::copy;
    event.detail = add_copy(rows, event.device);
    event.name = names_.of(trace_.copies[as_index(event.detail)].unified ? kUnifiedCopyName : "copy");
  } else if (table == kGraphs) {
    event.kind = EventKind::kernel;
    event.name = names_.of(kWholeGraphName);
  } else {
    event.kind = table == kMemsets ? EventKind::memset : EventKind::sync;
    event.name = names_.of(to_string(event.kind));
  }
}

std::span<const StartedBy> NsightLeaves::started_by(const Correlation& call) const {
  const auto less = [](const auto& a, const auto& b) { return a.call < b.call; };
  const auto [first, last] = std::equal_range(started_.begin(), started_.end(), StartedBy{.call = call}, less);
  return {first, last};
}

std::span<const StartedBy> NsightLeaves::of_stream(const StreamKey& stream) const {
  const auto found = streams_by_key_.find(stream);
  return found == streams_by_key_.end() || streams_.empty() ? std::span<const StartedBy>{} : std::span(streams_[as_index(found->second)]);
}

std::int16_t NsightLeaves::device_of_process(std::int64_t process) const {
  const auto found = devices_of_.find(process);
  return found == devices_of_.end() ? std::int16_t{-1} : found->second.front();
}

}  // namespace mptune::profiler

#include <algorithm>
#include <map>
#include <set>
#include <tuple>
#include <unordered_map>

#include "mptune/profiler/store/rows.h"
#include "mptune/profiler/store/schema.h"
#include "mptune/profiler/store/tables.h"

namespace mptune {
namespace {

constexpr std::int64_t kFurthest = std::int64_t{1} << 61;
constexpr std::int64_t kProcessBits = ~std::int64_t{0xFFFFFF};
constexpr const char* kLeafTables[] = {"CUPTI_ACTIVITY_KIND_KERNEL", "CUPTI_ACTIVITY_KIND_MEMCPY", "CUPTI_ACTIVITY_KIND_MEMSET",
                                       "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION"};

// correlationId is unique within a process only.
using Correlation = std::pair<std::int64_t, std::int64_t>;

struct Leaf {
  Event event;
  Correlation correlation;
};

class NsightReader {
 public:
  explicit NsightReader(SQLite::Database& database) : database_(database) {}

  Trace read() {
    read_strings();
    read_devices();
    for (const char* table : kLeafTables) {
      if (has_table(database_, table)) read_leaves(table);
    }
    place_leaves();
    if (has_table(database_, "CUPTI_ACTIVITY_KIND_RUNTIME")) read_launches();
    if (has_table(database_, "NVTX_EVENTS")) read_ranges();
    read_session();
    trace_.quality.untagged = static_cast<std::int64_t>(trace_.events.size());
    return std::move(trace_);
  }

 private:
  void read_strings() {
    if (!has_table(database_, "StringIds")) return;
    Rows rows(database_, "SELECT id, value FROM StringIds");
    while (rows.next()) strings_[rows.integer(0)] = rows.text(1);
  }

  int name(const std::string& text) {
    const auto [place, is_new] = names_.try_emplace(text, static_cast<int>(trace_.names.size()));
    if (is_new) trace_.names.push_back(text);
    return place->second;
  }

  int name_of_string(std::int64_t id) {
    const auto found = strings_.find(id);
    return name(found == strings_.end() ? "string " + std::to_string(id) : found->second);
  }

  void read_devices() {
    std::set<std::int64_t> ids;
    for (const char* table : kLeafTables) {
      if (!has_table(database_, table)) continue;
      Rows rows(database_, std::string("SELECT DISTINCT deviceId FROM ") + table);
      while (rows.next()) ids.insert(rows.integer(0));
    }
    if (ids.size() > 4096) throw BadContent("it has more than 4096 devices");
    for (const std::int64_t id : ids) {
      devices_[id] = static_cast<std::int16_t>(trace_.devices.size());
      trace_.devices.push_back({.name = "cuda:" + std::to_string(id), .description = "CUDA device"});
    }
    if (!has_table(database_, "TARGET_INFO_GPU")) return;
    Rows gpu(database_, "SELECT id, name, totalMemory FROM TARGET_INFO_GPU");
    while (gpu.next()) {
      const auto found = devices_.find(gpu.integer_or(0, -1));
      if (found == devices_.end()) continue;
      TraceDevice& device = trace_.devices[static_cast<std::size_t>(found->second)];
      if (!gpu.null(1)) device.description = gpu.text(1);
      device.memory_bytes = gpu.integer_or(2, 0);
    }
  }

  // Streams become lanes in the order they are met. More than a byte can number share the last.
  std::uint8_t lane_of(std::int64_t device, std::int64_t context, std::int64_t stream, std::int64_t process) {
    const auto [place, is_new] = lanes_.try_emplace({device, context, stream, process}, std::uint8_t{0});
    if (is_new) place->second = static_cast<std::uint8_t>(std::min(255, lanes_on_[device]++));
    return place->second;
  }

  int device_or_none(Rows& rows, int column) {
    const auto found = devices_.find(rows.integer_or(column, -1));
    return found == devices_.end() ? -1 : found->second;
  }

  std::int32_t add_copy(Rows& rows, int device) {
    constexpr int kHostToDevice = 1;
    constexpr int kDeviceToHost = 2;
    Copy copy{.bytes = rows.integer(7), .source = device, .destination = device};
    const std::int64_t kind = rows.integer(8);
    if (kind == kHostToDevice) copy.source = -1;
    if (kind == kDeviceToHost) copy.destination = -1;
    if (kind == kCopyPeer) copy = {copy.bytes, device_or_none(rows, 9), device_or_none(rows, 10)};
    trace_.copies.push_back(copy);
    return static_cast<std::int32_t>(trace_.copies.size()) - 1;
  }

  void set_what(const std::string& table, Rows& rows, Event& event) {
    if (table == kLeafTables[0]) {
      event.name = name_of_string(rows.integer(7));
      const bool collective = trace_.names[static_cast<std::size_t>(event.name)].starts_with("nccl");
      event.what = collective ? What::collective : What::kernel;
    } else if (table == kLeafTables[1]) {
      event.what = What::copy;
      event.detail = add_copy(rows, event.device);
      event.name = name("copy");
    } else {
      event.what = table == kLeafTables[2] ? What::memset : What::sync;
      event.name = name(to_string(event.what));
    }
  }

  bool set_times(Rows& rows, Event& event) {
    const std::int64_t start = rows.integer(0);
    const std::int64_t end = rows.integer(1);
    if (start > kFurthest || start < -kFurthest || end > kFurthest) throw BadContent("a time is out of range");
    event.start = Nanoseconds{start};
    event.duration = Nanoseconds{end - start};
    if (end < start) ++trace_.quality.dropped;
    return end >= start;
  }

  void read_leaves(const std::string& table) {
    const std::string more = table == kLeafTables[0]   ? ", shortName"
                             : table == kLeafTables[1] ? ", bytes, copyKind, srcDeviceId, dstDeviceId"
                                                       : "";
    Rows rows(database_, "SELECT start, end, deviceId, contextId, streamId, globalPid, correlationId" + more + " FROM " + table);
    while (rows.next()) {
      Leaf leaf;
      if (!set_times(rows, leaf.event)) continue;
      const std::int64_t process = rows.integer_or(5, 0);
      leaf.correlation = {process, rows.integer_or(6, 0)};
      leaf.event.device = devices_.at(rows.integer(2));
      leaf.event.lane = lane_of(rows.integer(2), rows.integer(3), rows.integer(4), process);
      set_what(table, rows, leaf.event);
      leaves_.push_back(leaf);
    }
  }

  void place_leaves() {
    std::stable_sort(leaves_.begin(), leaves_.end(), [](const Leaf& a, const Leaf& b) { return a.event.start < b.event.start; });
    for (const Leaf& leaf : leaves_) {
      const int index = static_cast<int>(trace_.events.size());
      trace_.events.push_back(leaf.event);
      if (leaf.correlation.second != 0) by_correlation_.try_emplace(leaf.correlation, index);
      device_of_process_.try_emplace(leaf.correlation.first, leaf.event.device);
    }
  }

  int thread_of(std::int64_t global_tid) {
    const auto [place, is_new] = threads_.try_emplace(global_tid, static_cast<int>(trace_.threads.size()));
    if (is_new) trace_.threads.push_back("thread " + std::to_string(global_tid & ~kProcessBits));
    return place->second;
  }

  void read_launches() {
    Rows rows(database_, "SELECT start, end, globalTid, correlationId FROM CUPTI_ACTIVITY_KIND_RUNTIME ORDER BY start");
    while (rows.next()) {
      if (rows.null(2) || rows.null(3)) continue;
      const std::int64_t tid = rows.integer(2);
      const auto found = by_correlation_.find({tid & kProcessBits, rows.integer(3)});
      Event times;
      if (found == by_correlation_.end() || !set_times(rows, times)) continue;
      device_of_thread_.try_emplace(tid, trace_.events[static_cast<std::size_t>(found->second)].device);
      trace_.launches.push_back({.event = found->second,
                                 .thread = thread_of(tid),
                                 .start = times.start,
                                 .end = times.end(),
                                 .correlation = static_cast<std::int64_t>(trace_.launches.size()) + 1});
    }
  }

  // A range belongs to a thread; its device is the one that thread launches on, else the one its process does, else none.
  std::int16_t device_of(std::int64_t tid) const {
    if (const auto found = device_of_thread_.find(tid); found != device_of_thread_.end()) return found->second;
    if (const auto found = device_of_process_.find(tid & kProcessBits); found != device_of_process_.end()) return found->second;
    return -1;
  }

  void read_ranges() {
    // Push/pop and start/end ranges, as recorded and as imported from NVTXT.
    Rows rows(
        database_,
        "SELECT start, end, globalTid, text, textId FROM NVTX_EVENTS WHERE eventType IN (59, 60, 70, 71) AND end IS NOT NULL ORDER BY "
        "start, end DESC");
    while (rows.next()) {
      Event range;
      if (!set_times(rows, range)) continue;
      range.what = What::action;
      range.device = device_of(rows.integer_or(2, 0));
      range.name = !rows.null(3) ? name(rows.text(3)) : rows.null(4) ? name("") : name_of_string(rows.integer(4));
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
  std::vector<Leaf> leaves_;
  std::unordered_map<std::int64_t, std::string> strings_;
  std::unordered_map<std::string, int> names_;
  std::map<std::int64_t, std::int16_t> devices_;
  std::map<std::tuple<std::int64_t, std::int64_t, std::int64_t, std::int64_t>, std::uint8_t> lanes_;
  std::map<std::int64_t, int> lanes_on_;
  std::map<Correlation, int> by_correlation_;
  std::map<std::int64_t, int> threads_;
  std::map<std::int64_t, std::int16_t> device_of_thread_;
  std::map<std::int64_t, std::int16_t> device_of_process_;
};

}  // namespace

Trace read_nsight(SQLite::Database& database) {
  return NsightReader(database).read();
}

}  // namespace mptune

#include <algorithm>
#include <array>
#include <ctime>
#include <set>
#include <unordered_map>

#include "mptune/profiler/store/rows.h"
#include "mptune/profiler/store/schema.h"
#include "mptune/profiler/store/tables.h"

namespace mptune {
namespace {

// Readers of the layout drop rows that start at 0 or earlier.
constexpr std::int64_t kFirstStart = 1;

std::int64_t context_of(int device) {
  return device + 1;
}

// Stream 7 is the default stream of a first context in real exports; lanes fit a byte, so no two share a stream.
std::int64_t stream_of(int device, int lane) {
  return 7 + 256 * static_cast<std::int64_t>(device) + lane;
}

std::int64_t global_tid(int thread) {
  return kGlobalPid | (thread + 1);
}

bool is_cuda(const TraceDevice& device) {
  return device.name.starts_with("cuda:");
}

std::string honest_name(const TraceDevice& device) {
  if (device.name.starts_with("cpu:")) return "CPU core set " + device.name;
  if (device.name.starts_with("sleep:")) return "sleeping device " + device.name;
  return device.description.empty() ? device.name : device.description + " " + device.name;
}

std::optional<std::string> utc_text(std::int64_t nanoseconds) {
  const std::time_t seconds = nanoseconds / 1'000'000'000;
  std::tm parts{};
  std::array<char, 32> text{};
  if (nanoseconds <= 0 || gmtime_r(&seconds, &parts) == nullptr) return std::nullopt;
  std::strftime(text.data(), text.size(), "%Y-%m-%dT%H:%M:%S", &parts);
  return text.data();
}

// StringIds: the trace's names keep their places (id = index + 1), other strings follow.
class Strings {
 public:
  Strings(SQLite::Database& database, const std::vector<std::string>& names) : insert_(database, "INSERT INTO StringIds VALUES (?, ?)") {
    for (const std::string& name : names) insert_(++last_, name);
  }

  std::int64_t id(const std::string& text) {
    const auto [place, is_new] = ids_.try_emplace(text, last_ + 1);
    if (is_new) insert_(++last_, text);
    return place->second;
  }

 private:
  Insert insert_;
  std::unordered_map<std::string, std::int64_t> ids_;
  std::int64_t last_ = 0;
};

class TraceWriter {
 public:
  TraceWriter(SQLite::Database& database, const Trace& trace)
      : database_(database), trace_(trace), strings_(database, trace.names), shift_(kFirstStart - earliest()) {
    correlations_.resize(trace.events.size());
    for (const Launch& launch : trace.launches) {
      auto& correlation = correlations_[static_cast<std::size_t>(launch.event)];
      if (!correlation) correlation = launch.correlation;
    }
  }

  void write() {
    write_meta_rows();
    write_threads();
    write_devices();
    write_small_tables();
    write_ranges();
    write_events();
    write_step_ranges();
    write_launches();
    write_session();
  }

 private:
  std::int64_t earliest() const {
    Nanoseconds first{0};
    const auto consider = [&](const auto& rows, auto start) {
      for (const auto& row : rows) first = std::min(first, row.*start);
    };
    consider(trace_.events, &Event::start);
    consider(trace_.ranges, &Event::start);
    consider(trace_.launches, &Launch::start);
    consider(trace_.memory, &MemorySample::time);
    consider(trace_.steps, &StepWindow::start);
    return first.count();
  }

  std::int64_t at(Nanoseconds time) {
    const std::int64_t shifted = time.count() + shift_;
    last_ = std::max(last_, shifted);
    return shifted;
  }

  void write_meta_rows() {
    write_meta(database_, "names", std::to_string(trace_.names.size()));
    write_meta(database_, "time_shift_ns", std::to_string(shift_));
    write_meta(database_, "simulated", trace_.simulated ? "1" : "0");
    write_meta(database_, "started_utc_ns", std::to_string(trace_.started_utc_ns));
    Insert what(database_, "INSERT INTO MPTUNE_WHAT VALUES (?, ?, ?)");
    for (int i = 0; i < kWhatCount; ++i) what(i, std::string(to_string(static_cast<What>(i))), is_compute(static_cast<What>(i)));
    const TraceQuality& quality = trace_.quality;
    Insert(database_, "INSERT INTO MPTUNE_QUALITY VALUES (?, ?, ?)")(quality.dropped, quality.untagged, quality.out_of_window);
  }

  // The thread that launches a device's work; -1 where the trace names none.
  int launching_thread(int device) const {
    for (const Launch& launch : trace_.launches) {
      if (trace_.events[static_cast<std::size_t>(launch.event)].device == device) return launch.thread;
    }
    return -1;
  }

  void write_threads() {
    Insert thread(database_, "INSERT INTO MPTUNE_THREAD VALUES (?, ?, ?)");
    Insert name(database_, "INSERT INTO ThreadNames VALUES (?, NULL, ?)");
    Insert(database_, "INSERT INTO PROCESSES VALUES (?, ?, ?)")(kGlobalPid, kProcess, std::string("mptune"));
    int next = 0;
    for (const std::string& thread_name : trace_.threads) {
      thread(next, thread_name, global_tid(next));
      name(strings_.id(thread_name), global_tid(next++));
    }
    for (std::size_t d = 0; d < trace_.devices.size(); ++d) {
      int launching = launching_thread(static_cast<int>(d));
      if (launching < 0) {
        launching = next++;
        name(strings_.id("device " + trace_.devices[d].name), global_tid(launching));
      }
      device_tids_.push_back(global_tid(launching));
    }
  }

  void write_devices() {
    Insert own(database_, "INSERT INTO MPTUNE_DEVICE VALUES (?, ?, ?, ?, ?)");
    Insert gpu(
        database_,
        "INSERT INTO TARGET_INFO_GPU (vmId, id, name, busLocation, isDiscrete, l2CacheSize, totalMemory, memoryBandwidth, clockRate, "
        "smCount, cuDevice, computeMajor, computeMinor, smMajor, smMinor) VALUES (?, ?, ?, '', ?, 0, ?, 0, 0, ?, ?, 0, 0, 0, 0)");
    Insert cuda(database_, "INSERT INTO TARGET_INFO_CUDA_DEVICE VALUES (?, ?, ?, NULL, ?)");
    Insert context(database_, "INSERT INTO TARGET_INFO_CUDA_CONTEXT_INFO VALUES (?, 0, 1, ?, ?, ?, NULL, 0, NULL)");
    for (int d = 0; d < static_cast<int>(trace_.devices.size()); ++d) {
      const TraceDevice& device = trace_.devices[static_cast<std::size_t>(d)];
      own(d, device.name, device.description, device.cores, device.memory_bytes);
      gpu(kGlobalVid, d, honest_name(device), is_cuda(device), device.memory_bytes, device.cores, d);
      cuda(d, d, kProcess, device.cores);
      context(stream_of(d, kComputeLane), kProcess, d, context_of(d));
    }
    write_streams();
  }

  void write_streams() {
    std::set<std::pair<int, int>> lanes;
    for (int d = 0; d < static_cast<int>(trace_.devices.size()); ++d) lanes.emplace(d, kComputeLane);
    for (const Event& event : trace_.events) lanes.emplace(event.device, event.lane);
    constexpr int kDefaultStream = 1;
    constexpr int kNonBlockingStream = 2;
    Insert stream(database_, "INSERT INTO TARGET_INFO_CUDA_STREAM VALUES (?, 0, 1, ?, ?, 0, ?)");
    for (const auto& [device, lane] : lanes)
      stream(stream_of(device, lane), kProcess, context_of(device), lane == kComputeLane ? kDefaultStream : kNonBlockingStream);
  }

  void write_small_tables() {
    int row = 0;
    Insert tag(database_, "INSERT INTO MPTUNE_TAG VALUES (?, ?, ?, ?, ?, ?)");
    for (const Tag& t : trace_.tags) tag(row++, t.step, t.stage, t.microbatch, t.layer, t.replica);
    row = 0;
    Insert copy(database_, "INSERT INTO MPTUNE_COPY VALUES (?, ?, ?, ?)");
    for (const Copy& c : trace_.copies) copy(row++, c.bytes, c.source, c.destination);
    row = 0;
    Insert edge(database_, "INSERT INTO MPTUNE_EDGE VALUES (?, ?, ?, ?)");
    for (const Edge& e : trace_.edges) edge(row++, e.producer, e.consumer, static_cast<int>(e.kind));
    row = 0;
    Insert memory(database_, "INSERT INTO MPTUNE_MEMORY VALUES (?, ?, ?, ?)");
    for (const MemorySample& m : trace_.memory) memory(row++, at(m.time), m.device, m.current_bytes);
    row = 0;
    Insert step(database_, "INSERT INTO MPTUNE_STEP VALUES (?, ?, ?, ?)");
    for (const StepWindow& s : trace_.steps) step(row++, s.step, at(s.start), at(s.end));
  }

  std::int64_t tid_of(int device) const {
    return device >= 0 && static_cast<std::size_t>(device) < device_tids_.size() ? device_tids_[static_cast<std::size_t>(device)]
                                                                                 : global_tid(0);
  }

  const std::string& name_of(const Event& event) const { return trace_.names[static_cast<std::size_t>(event.name)]; }

  static constexpr const char* kInsertNvtx =
      "INSERT INTO NVTX_EVENTS (start, end, eventType, text, globalTid, textId, domainId) VALUES (?, ?, 59, ?, ?, ?, 0)";

  void write_ranges() {
    Insert nvtx(database_, kInsertNvtx);
    Insert own(database_, "INSERT INTO MPTUNE_RANGE VALUES (?, ?, ?, ?, ?, ?, ?)");
    int row = 0;
    for (const Event& range : trace_.ranges) {
      nvtx(at(range.start), at(range.end()), name_of(range), tid_of(range.device), range.name + 1);
      own(row++, static_cast<int>(range.what), range.device, range.lane, range.name, range.tag, range.detail);
    }
  }

  void write_events();

  // Readers look for the step on the thread that launches a device's work, so every such thread gets it.
  void write_step_ranges() {
    std::set<std::int64_t> have_steps;
    for (const Event& range : trace_.ranges) {
      if (range.what == What::step) have_steps.insert(tid_of(range.device));
    }
    Insert nvtx(database_, kInsertNvtx);
    for (const std::int64_t tid : std::set<std::int64_t>(device_tids_.begin(), device_tids_.end())) {
      if (have_steps.contains(tid)) continue;
      for (const StepWindow& step : trace_.steps) {
        const std::string name = "step " + std::to_string(step.step);
        nvtx(at(step.start), at(step.end), name, tid, strings_.id(name));
      }
    }
  }

  void write_launches() {
    const std::int64_t name = strings_.id("launch");
    Insert runtime(database_, "INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES (?, ?, 0, ?, ?, ?, 0, NULL)");
    Insert own(database_, "INSERT INTO MPTUNE_LAUNCH VALUES (?, ?, ?)");
    int row = 0;
    for (const Launch& launch : trace_.launches) {
      runtime(at(launch.start), at(launch.end), global_tid(launch.thread), launch.correlation, name);
      own(row++, launch.event, launch.thread);
    }
  }

  void write_session() {
    std::optional<std::int64_t> utc;
    if (trace_.started_utc_ns != 0) utc = trace_.started_utc_ns - shift_;
    Insert(database_, "INSERT INTO TARGET_INFO_SESSION_START_TIME VALUES (?, ?, NULL, 0)")(utc, utc_text(trace_.started_utc_ns));
    Insert(database_, "INSERT INTO ANALYSIS_DETAILS VALUES (?, ?, 0, ?)")(kGlobalVid, last_, last_);
  }

  SQLite::Database& database_;
  const Trace& trace_;
  Strings strings_;
  std::int64_t shift_;
  std::int64_t last_ = 0;
  std::vector<std::optional<std::int64_t>> correlations_;  // of the events
  std::vector<std::int64_t> device_tids_;
};

// The rows of one event in the layout's tables. Constant columns stand in the statement: binding them costs half of the insert rate.
class LeafInserts {
 public:
  LeafInserts(SQLite::Database& database, const Trace& trace)
      : trace_(trace),
        kernel_(database, "INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (?, ?, ?, ?, 0, ?, ?, " + std::to_string(kGlobalPid) +
                              ", ?7, ?7, NULL, 1, 1, 0, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0, ?8, "
                              "NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, '[]')"),
        memcpy_(database, "INSERT INTO CUPTI_ACTIVITY_KIND_MEMCPY VALUES (?, ?, ?, ?, 0, ?, ?, " + std::to_string(kGlobalPid) +
                              ", ?, ?, NULL, ?, ?, ?, ?, ?, ?, NULL, NULL, NULL, 1)"),
        memset_(database,
                "INSERT INTO CUPTI_ACTIVITY_KIND_MEMSET VALUES (?, ?, ?, ?, 0, ?, ?, " + std::to_string(kGlobalPid) + ", 0, 0, NULL, ?)"),
        wait_(database, "INSERT INTO CUPTI_ACTIVITY_KIND_SYNCHRONIZATION VALUES (?, ?, ?, ?, 0, ?, ?, " + std::to_string(kGlobalPid) +
                            ", NULL, " + std::to_string(kStreamWait) + ", ?, NULL)") {}

  void operator()(std::int64_t start, std::int64_t end, const Event& event, std::size_t index,
                  const std::optional<std::int64_t>& correlation) {
    const std::int64_t context = context_of(event.device);
    const std::int64_t stream = stream_of(event.device, event.lane);
    if (event.what == What::copy) {
      copy(start, end, event, correlation);
    } else if (event.what == What::memset) {
      memset_(start, end, event.device, context, stream, correlation, memory_kind(event.device));
    } else if (event.what == What::sync) {
      wait_(start, end, event.device, context, stream, correlation, index);
    } else {
      kernel_(start, end, event.device, context, stream, correlation, event.name + 1, index);
    }
  }

 private:
  int memory_kind(int device) const {
    return device >= 0 && is_cuda(trace_.devices[static_cast<std::size_t>(device)]) ? kMemoryDevice : kMemoryPageable;
  }

  void copy(std::int64_t start, std::int64_t end, const Event& event, const std::optional<std::int64_t>& correlation) {
    const Copy copy = event.detail < 0 ? Copy{} : trace_.copies[static_cast<std::size_t>(event.detail)];
    const bool known = copy.source >= 0 && copy.destination >= 0;
    const bool peer = known && copy.source != copy.destination;
    const int kind = peer ? kCopyPeer : known ? kCopyWithinDevice : kCopyUnknown;
    // Only peer copies name their ends: real exports leave them NULL otherwise.
    const auto end_of = [&](std::int64_t value) { return peer ? std::optional<std::int64_t>(value) : std::nullopt; };
    memcpy_(start, end, event.device, context_of(event.device), stream_of(event.device, event.lane), correlation, copy.bytes, kind,
            memory_kind(copy.source), memory_kind(copy.destination), end_of(copy.source), end_of(context_of(copy.source)),
            end_of(copy.destination), end_of(context_of(copy.destination)));
  }

  const Trace& trace_;
  Insert kernel_;
  Insert memcpy_;
  Insert memset_;
  Insert wait_;
};

void TraceWriter::write_events() {
  LeafInserts leaf(database_, trace_);
  Insert nvtx(database_, kInsertNvtx);
  Insert own(database_, "INSERT INTO MPTUNE_EVENT VALUES (?, ?, ?, ?, ?, ?, ?)");
  for (std::size_t i = 0; i < trace_.events.size(); ++i) {
    const Event& event = trace_.events[i];
    own(i, static_cast<int>(event.what), event.device, event.lane, event.name, event.tag, event.detail);
    // Host work does not occupy the device: as compute it would make every reader call the device busy.
    if (event.what == What::host) {
      nvtx(at(event.start), at(event.end()), name_of(event), tid_of(event.device), event.name + 1);
    } else {
      leaf(at(event.start), at(event.end()), event, i, correlations_[i]);
    }
  }
}

}  // namespace

void write_trace(SQLite::Database& database, const Trace& trace) {
  TraceWriter(database, trace).write();
}

}  // namespace mptune

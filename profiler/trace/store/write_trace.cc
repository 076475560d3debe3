#include <algorithm>
#include <array>
#include <ctime>
#include <set>
#include <tuple>
#include <unordered_map>

#include "profiler/base/device_spec.h"
#include "profiler/base/index.h"
#include "profiler/trace/store/leaf_rows.h"
#include "profiler/trace/store/placement.h"
#include "profiler/trace/store/rows.h"
#include "profiler/trace/store/schema.h"
#include "profiler/trace/store/tables.h"

namespace mptune::profiler {
namespace {

// Readers of the Nsight layout drop rows that start at 0 or earlier.
constexpr std::int64_t kFirstStart = 1;

// Threads are numbered over all processes, so that no two have the same number.
std::int64_t global_tid(std::int64_t process, int thread) {
  return global_pid(process) | (thread + 1);
}

std::string display_name(const TraceDevice& device) {
  const auto kind = device_kind(device.name);
  if (kind == DeviceSpec::Kind::cpu) return "CPU core set " + device.name;
  if (kind == DeviceSpec::Kind::sleep) return "sleeping device " + device.name;
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

// "cuLaunchKernel" is a call of the driver API, "cudaLaunchKernel" of the runtime API.
int call_class(const std::string& name) {
  const bool driver = name.size() > 2 && name.starts_with("cu") && name[2] >= 'A' && name[2] <= 'Z';
  return driver ? kDriverCall : kRuntimeCall;
}

// Rows of StringIds: first the trace's names (id = index + 1), then other strings.
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
      : database_(database), trace_(trace), placement_(trace), strings_(database, trace.names), shift_(kFirstStart - earliest()) {
    launch_of_.assign(trace.events.size(), -1);
    for (std::size_t i = 0; i < trace.launches.size(); ++i) {
      if (trace.launches[i].event < 0) continue;
      std::int32_t& launch = launch_of_[as_index(trace.launches[i].event)];
      if (launch < 0) launch = static_cast<std::int32_t>(i);
    }
  }

  void write() {
    write_meta_rows();
    write_threads();
    write_devices();
    write_small_tables();
    write_kernels();
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
    for (int i = 0; i < kEventKindCount; ++i)
      what(i, std::string(to_string(static_cast<EventKind>(i))), is_compute(static_cast<EventKind>(i)));
    const TraceQuality& quality = trace_.quality;
    Insert(database_, "INSERT INTO MPTUNE_QUALITY VALUES (?, ?, ?, ?, ?, ?, ?, ?)")(
        quality.dropped, quality.untagged, quality.out_of_window, quality.zero_stamped, quality.unmatched, quality.cut_off,
        quality.ambiguous, quality.unmatched_ns);
  }

  // Returns, by device, the thread that launches its work, -1 if unknown.
  std::vector<int> launching_threads() const {
    std::vector<int> threads(trace_.devices.size(), -1);
    for (const Launch& launch : trace_.launches) {
      if (launch.event < 0) continue;
      int& thread = threads[as_index(trace_.events[as_index(launch.event)].device)];
      if (thread < 0) thread = launch.thread;
    }
    return threads;
  }

  // A thread that launches work is in the process of the device; for others, the name says the process.
  std::vector<std::int64_t> processes_of_threads(const std::vector<int>& launching_threads_of) const {
    std::vector<std::int64_t> processes;
    for (const std::string& name : trace_.threads) processes.push_back(process_of_rank(rank_of_thread(name)));
    for (std::size_t d = 0; d < trace_.devices.size(); ++d)
      if (launching_threads_of[d] >= 0) processes[as_index(launching_threads_of[d])] = process_of(trace_.devices[d]);
    return processes;
  }

  void write_threads() {
    Insert thread(database_, "INSERT INTO MPTUNE_THREAD VALUES (?, ?, ?)");
    Insert name(database_, "INSERT INTO ThreadNames VALUES (?, NULL, ?)");
    const std::vector<int> launching_threads_of = launching_threads();
    const std::vector<std::int64_t> processes = processes_of_threads(launching_threads_of);
    int next = 0;
    for (const std::string& thread_name : trace_.threads) {
      thread_tids_.push_back(global_tid(processes[as_index(next)], next));
      thread(next++, thread_name, thread_tids_.back());
      name(strings_.id(thread_name), thread_tids_.back());
    }
    for (std::size_t d = 0; d < trace_.devices.size(); ++d) {
      const int launching = launching_threads_of[d];
      device_tids_.push_back(launching < 0 ? global_tid(process_of(trace_.devices[d]), next++) : thread_tids_[as_index(launching)]);
      if (launching < 0) name(strings_.id("device " + trace_.devices[d].name), device_tids_.back());
    }
    write_processes();
  }

  void write_processes() {
    std::set<std::int64_t> processes{process_of_rank(0)};
    for (const std::vector<std::int64_t>* tids : {&thread_tids_, &device_tids_})
      for (const std::int64_t tid : *tids) processes.insert((tid - kGlobalVid) >> 24);
    for (const TraceDevice& device : trace_.devices) processes.insert(process_of(device));
    Insert insert(database_, "INSERT INTO PROCESSES VALUES (?, ?, ?)");
    for (const std::int64_t process : processes)
      insert(global_pid(process), process,
             processes.size() == 1 ? "mptune" : "mptune rank " + std::to_string(process - process_of_rank(0)));
  }

  void write_devices() {
    Insert own(database_, "INSERT INTO MPTUNE_DEVICE VALUES (?, ?, ?, ?, ?)");
    Insert peak(database_, "INSERT INTO MPTUNE_DEVICE_PEAK VALUES (?, ?)");
    Insert gpu(
        database_,
        "INSERT INTO TARGET_INFO_GPU (vmId, id, name, busLocation, isDiscrete, l2CacheSize, totalMemory, memoryBandwidth, clockRate, "
        "smCount, cuDevice, computeMajor, computeMinor, smMajor, smMinor) VALUES (?, ?, ?, '', ?, 0, ?, 0, 0, ?, ?, 0, 0, 0, 0)");
    Insert cuda(database_, "INSERT INTO TARGET_INFO_CUDA_DEVICE VALUES (?, ?, ?, NULL, ?)");
    for (int d = 0; d < static_cast<int>(trace_.devices.size()); ++d) {
      const TraceDevice& device = trace_.devices[as_index(d)];
      own(d, device.name, device.description, device.cores, device.memory_bytes);
      if (device.peak_bytes != 0) peak(d, device.peak_bytes);
      gpu(kGlobalVid, d, display_name(device), device_kind(device.name) == DeviceSpec::Kind::cuda, device.memory_bytes, device.cores, d);
      cuda(d, d, process_of(device), device.cores);
    }
    write_streams();
  }

  std::int64_t process_of_place(const Place& place) const {
    const bool known = place.device >= 0 && as_index(place.device) < trace_.devices.size();
    return known ? process_of(trace_.devices[as_index(place.device)]) : process_of_rank(0);
  }

  void write_streams() {
    constexpr int kDefaultStream = 1;
    constexpr int kNonBlockingStream = 2;
    Insert context(database_, "INSERT INTO TARGET_INFO_CUDA_CONTEXT_INFO VALUES (?, 0, 1, ?, ?, ?, NULL, 0, NULL)");
    Insert stream(database_, "INSERT INTO TARGET_INFO_CUDA_STREAM VALUES (?, 0, 1, ?, ?, 0, ?)");
    std::set<std::pair<std::int64_t, std::int64_t>> contexts;
    std::set<std::tuple<std::int64_t, std::int64_t, std::int64_t>> streams;  // two processes may have contexts of one number
    for (const Place& place : placement_.all()) {
      const std::int64_t process = process_of_place(place);
      // The smallest stream of a context comes first and is its default stream: CUDA creates both together.
      const bool first = contexts.emplace(place.device, place.context).second;
      if (first) context(place.stream, process, place.device, place.context);
      if (streams.emplace(process, place.context, place.stream).second)
        stream(place.stream, process, place.context, first ? kDefaultStream : kNonBlockingStream);
    }
  }

  void write_small_tables() {
    int row = 0;
    BulkInsert tag(database_, "INSERT INTO MPTUNE_TAG", "(?, ?, ?, ?, ?, ?)");
    for (const Tag& t : trace_.tags) tag(row++, t.step, t.stage, t.microbatch, t.layer, t.replica);
    tag.flush();
    row = 0;
    BulkInsert copy(database_, "INSERT INTO MPTUNE_COPY", "(?, ?, ?, ?)");
    for (const Copy& c : trace_.copies) copy(row++, c.bytes, c.source, c.destination);
    copy.flush();
    row = 0;
    BulkInsert edge(database_, "INSERT INTO MPTUNE_EDGE", "(?, ?, ?, ?)");
    for (const Edge& e : trace_.edges) edge(row++, e.producer, e.consumer, static_cast<int>(e.kind));
    edge.flush();
    row = 0;
    BulkInsert memory(database_, "INSERT INTO MPTUNE_MEMORY", "(?, ?, ?, ?)");
    for (const MemorySample& m : trace_.memory) memory(row++, at(m.time), m.device, m.current_bytes);
    memory.flush();
    row = 0;
    Insert step(database_, "INSERT INTO MPTUNE_STEP VALUES (?, ?, ?, ?)");
    for (const StepWindow& s : trace_.steps) step(row++, s.step, at(s.start), at(s.end));
  }

  // Recorded kernels without a row in CUPTI_ACTIVITY_KIND_KERNEL.
  void write_kernels() {
    std::vector<bool> shown(trace_.kernels.size(), false);
    for (const Event& event : trace_.events)
      if (has_kernel_row(event.kind) && event.detail >= 0) shown[as_index(event.detail)] = true;
    Insert grid(database_, "INSERT INTO MPTUNE_GRID VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)");
    for (std::size_t i = 0; i < shown.size(); ++i) {
      const Kernel& k = trace_.kernels[i];
      if (!shown[i])
        grid(i, k.context, k.stream, k.grid[0], k.grid[1], k.grid[2], k.block[0], k.block[1], k.block[2], k.registers_per_thread,
             k.static_shared_bytes, k.dynamic_shared_bytes, 0);
    }
  }

  std::int64_t tid_of(int device) const {
    return device >= 0 && as_index(device) < device_tids_.size() ? device_tids_[as_index(device)] : global_tid(process_of_rank(0), 0);
  }

  std::int64_t tid_of_thread(int thread) const {
    return thread < 0 ? global_tid(process_of_rank(0), thread) : thread_tids_[as_index(thread)];
  }

  const std::string& name_of(const Event& event) const { return trace_.names[as_index(event.name)]; }

  static constexpr const char* kInsertNvtx =
      "INSERT INTO NVTX_EVENTS (start, end, eventType, text, globalTid, textId, domainId) VALUES (?, ?, 59, ?, ?, ?, 0)";

  void write_ranges() {
    Insert nvtx(database_, kInsertNvtx);
    Insert own(database_, "INSERT INTO MPTUNE_RANGE VALUES (?, ?, ?, ?, ?, ?, ?)");
    int row = 0;
    for (const Event& range : trace_.ranges) {
      nvtx(at(range.start), at(range.end()), name_of(range), tid_of(range.device), range.name + 1);
      own(row++, static_cast<int>(range.kind), range.device, range.lane, range.name, range.tag, range.detail);
    }
  }

  void write_events();

  // Readers look for steps on the thread that launches a device's work, so every launching thread gets a range per step.
  void write_step_ranges() {
    std::set<std::int64_t> have_steps;
    for (const Event& range : trace_.ranges)
      if (range.kind == EventKind::step) have_steps.insert(tid_of(range.device));
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
    const std::int64_t unknown = strings_.id("launch");
    std::vector<int> classes;
    for (const std::string& name : trace_.names) classes.push_back(call_class(name));
    BulkInsert runtime(database_, "INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME", "(?, ?, ?, ?, ?, ?, 0, NULL)");
    BulkInsert own(database_, "INSERT INTO MPTUNE_LAUNCH", "(?, ?, ?)");
    int row = 0;
    for (const Launch& launch : trace_.launches) {
      const int call = launch.name < 0 ? kRuntimeCall : classes[as_index(launch.name)];
      const std::int64_t name = launch.name < 0 ? unknown : launch.name + 1;
      runtime(at(launch.start), at(launch.end), call, tid_of_thread(launch.thread), launch.correlation, name);
      own(row++, launch.event, launch.thread);
    }
    runtime.flush();
    own.flush();
  }

  void write_session() {
    std::optional<std::int64_t> utc;
    if (trace_.started_utc_ns != 0) utc = trace_.started_utc_ns - shift_;
    Insert(database_, "INSERT INTO TARGET_INFO_SESSION_START_TIME VALUES (?, ?, NULL, 0)")(utc, utc_text(trace_.started_utc_ns));
    Insert(database_, "INSERT INTO ANALYSIS_DETAILS VALUES (?, ?, 0, ?)")(kGlobalVid, last_, last_);
  }

  SQLite::Database& database_;
  const Trace& trace_;
  Placement placement_;
  Strings strings_;
  std::int64_t shift_;
  std::int64_t last_ = 0;
  std::vector<std::int32_t> launch_of_;    // by event: its first launch, -1: none
  std::vector<std::int64_t> thread_tids_;  // by thread of the trace
  std::vector<std::int64_t> device_tids_;  // by device: the thread that launches its work
};

void TraceWriter::write_events() {
  LeafRows leaf(database_, trace_, placement_);
  Insert nvtx(database_, kInsertNvtx);
  BulkInsert own(database_, "INSERT INTO MPTUNE_EVENT", "(?, ?, ?, ?, ?, ?, ?)");
  for (std::size_t i = 0; i < trace_.events.size(); ++i) {
    const Event& event = trace_.events[i];
    own(i, static_cast<int>(event.kind), event.device, event.lane, event.name, event.tag, event.detail);
    // Host work is a range: as a kernel it would make the device look busy.
    if (event.kind == EventKind::host) {
      nvtx(at(event.start), at(event.end()), name_of(event), tid_of(event.device), event.name + 1);
    } else {
      std::optional<std::int64_t> correlation;
      if (launch_of_[i] >= 0) correlation = trace_.launches[as_index(launch_of_[i])].correlation;
      leaf(at(event.start), at(event.end()), i, correlation, tid_of(event.device));
    }
  }
  own.flush();
  leaf.flush();
}

}  // namespace

void write_trace(SQLite::Database& database, const Trace& trace) {
  TraceWriter(database, trace).write();
}

}  // namespace mptune::profiler

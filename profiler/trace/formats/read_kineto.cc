#include <algorithm>
#include <compare>
#include <map>
#include <memory>
#include <span>
#include <string_view>
#include <unordered_map>

#include "profiler/base/device_spec.h"
#include "profiler/base/error.h"
#include "profiler/base/index.h"
#include "profiler/base/text.h"
#include "profiler/trace/formats/chrome_events.h"
#include "profiler/trace/formats/kineto.h"
#include "profiler/trace/formats/kineto_communications.h"
#include "profiler/trace/formats/kineto_devices.h"
#include "profiler/trace/formats/kineto_operators.h"
#include "profiler/trace/formats/kineto_processes.h"
#include "profiler/trace/formats/kineto_rows.h"
#include "profiler/trace/formats/kineto_steps.h"
#include "profiler/trace/formats/kineto_times.h"
#include "profiler/trace/formats/traced_processes.h"
#include "profiler/trace/values/kernel_names.h"
#include "profiler/trace/values/plausible_times.h"
#include "profiler/trace/values/settle.h"
#include "profiler/trace/values/trace_builder.h"

namespace mptune::profiler {
namespace {

constexpr std::int64_t kSyncStream = -1;
// Unix time in 2001 [ns]. In files without a base time, larger times are Unix times, smaller ones count from an unknown start.
constexpr std::int64_t kUnixTimes = 1'000'000'000'000'000'000;

/// An event and the correlation of the call that it names. Traces have millions.
struct NamedWork {
  std::int64_t call = 0;
  int event = -1;
  auto operator<=>(const NamedWork&) const = default;
};

class KinetoReader {
 public:
  explicit KinetoReader(TextInput& input) : input_(input), builder_(trace_) {}

  RankRecording read() {
    const ChromeHeader header = read_chrome_events(input_, [this](ChromeEvent& event) {
      take(event);
      return true;
    });
    return finish(header);
  }

  /// What is made of the rows that were taken.
  RankRecording finish(const ChromeHeader& header) {
    const bool of_gpus = !trace_.events.empty() || !trace_.implausible.empty() || lost_work_;
    const std::vector<ChromeEvent> xla = of_gpus ? std::vector<ChromeEvent>{} : sources_.work_of_xla();
    for (const ChromeEvent& event : xla) take_work(event, kineto_row(event), *event.duration);
    if (!of_gpus && xla.empty()) take_host_work();
    require_work();
    if (of_gpus || !xla.empty()) devices_.number(trace_, header, xla.empty() ? sources_.device_family() : "gpu");
    leave_out_wrong_times();
    require_work();
    rebase(header);
    order();
    trace_.quality.ambiguous = processes_.overlapping(trace_, streams_);
    assign_lanes(trace_, streams_);
    add_launches();
    end_steps(trace_);
    leave_out_cut_step(trace_);
    count_unmatched();
    place_ranges();
    add_host_communications();
    settle_lanes(trace_);
    trace_.quality.untagged = static_cast<std::int64_t>(trace_.events.size());
    return as_rank(header);
  }

  void take(const ChromeEvent& event) {
    communications_.take(event);
    sources_.take(event);
    if (trace_.events.empty()) operators_.take(event);
    const KinetoRow row = kineto_row(event);
    if (row == KinetoRow::ignored) return;
    const Nanoseconds duration = event.duration.value_or(Nanoseconds{0});
    const bool on_host = row == KinetoRow::launch || row == KinetoRow::annotation;
    if (!event.time || (!on_host && *event.time == Nanoseconds{0} && duration == Nanoseconds{0})) {
      ++trace_.quality.zero_stamped;
      lost_work_ = lost_work_ || !on_host;
      return;
    }
    if (!event.out_of_range.empty()) return leave_out(event, row, ImplausibleTime::Fault::far);
    if (duration < Nanoseconds{0}) return leave_out(event, row, ImplausibleTime::Fault::backward);
    if (row == KinetoRow::launch) return take_launch(event, duration);
    if (row == KinetoRow::annotation) return take_annotation(event, duration);
    take_work(event, row, duration);
  }

 private:
  void leave_out_wrong_times() {
    const KinetoRecords records{trace_, calls_, correlations_, streams_, contexts_, range_threads_};
    const std::int64_t before = trace_.quality.zero_stamped;
    leave_out_zero_stamped(records);
    lost_work_ = lost_work_ || trace_.quality.zero_stamped > before;
    leave_out_implausible(records);
    cut_overruns(records);
  }

  RankRecording as_rank(const ChromeHeader& header) {
    RankRecording recording{.file = input_.where(), .trace = {}, .communications = with_waits(communications_.by_launch(), waits_)};
    for (Communication& one : recording.communications) {
      const Launch& launch = trace_.launches[as_index(one.event)];
      one.step = step_at(trace_.steps, launch.start);
      one.event = launch.event;
    }
    std::erase_if(recording.communications, [](const Communication& one) { return one.event < 0; });
    if (header.rank >= 0 && header.rank < kMostRanks) recording.rank = static_cast<int>(header.rank);
    if (header.ranks > recording.rank && header.ranks <= kMostRanks) recording.ranks = static_cast<int>(header.ranks);
    if (!waits_.empty()) trace_.launches.clear();
    if (trace_.started_utc_ns == 0) recording.origin = origin_;
    recording.trace = std::move(trace_);
    return recording;
  }

  void require_work() const {
    if (std::ranges::any_of(trace_.events, is_device_work, &Event::kind)) return;
    if (trace_.implausible.empty() && lost_work_)
      throw Error("its work has no times: the profiler stamped them 0", input_.where(), "record again, fewer steps at a time");
    if (trace_.implausible.empty()) sources_.refuse(input_.where(), !trace_.events.empty());
    const ImplausibleTime& first = trace_.implausible.front();
    throw Error("all its work has times that can't be right, first " + first.what + " on " + first.where + ": " + first.times,
                input_.where(), "give a trace as its profiler wrote it");
  }

  // Ranges other than steps change no number of the analysis, so odd ones are counted only.
  void leave_out(const ChromeEvent& event, KinetoRow row, ImplausibleTime::Fault fault) {
    if (row == KinetoRow::annotation && !event.name.starts_with(kStepName)) {
      ++trace_.quality.dropped;
      return;
    }
    const std::optional<std::int64_t> device = event[ChromeArg::device] ? event[ChromeArg::device] : integer(event.process);
    const bool on_host = row == KinetoRow::launch || row == KinetoRow::annotation || !device;
    note_implausible(trace_, {.fault = fault,
                              .what = what_of(event),
                              .where = on_host ? "thread " + event.thread : place_of(*device, event[ChromeArg::stream].value_or(0)),
                              .times = times_of(event)});
  }

  static std::string place_of(std::int64_t device, std::int64_t stream) { return gpu_name(device) + ", stream " + std::to_string(stream); }

  void take_work(const ChromeEvent& event, KinetoRow row, Nanoseconds duration) {
    const std::optional<std::int64_t> given = event[ChromeArg::device] ? event[ChromeArg::device] : integer(event.process);
    if (!given) {
      ++trace_.quality.dropped;
      return;
    }
    const std::int64_t device = *given;
    const std::int64_t stream = stream_of(event);
    Event work;
    work.start = *event.time;
    work.duration = duration;
    work.device = device_of(device);
    work.name = builder_.name(event.name);
    if (row == KinetoRow::kernel) add_kernel(event, stream, work);
    if (row == KinetoRow::copy) add_copy(event, device, work);
    if (row == KinetoRow::memset) work.kind = EventKind::memset;
    if (row == KinetoRow::sync) work.kind = EventKind::sync;
    if (trace_.events.empty()) operators_.clear();
    trace_.events.push_back(work);
    streams_.push_back(row == KinetoRow::sync ? kSyncStream
                                              : processes_.stream_of(device, event.process, std::max<std::int64_t>(stream, 0)));
    contexts_.push_back(event[ChromeArg::context].value_or(0));
    correlations_.push_back(row == KinetoRow::sync ? -1 : event[ChromeArg::correlation].value_or(-1));
  }

  void add_kernel(const ChromeEvent& event, std::int64_t stream, Event& work) {
    const auto small = [](const std::optional<std::int64_t>& value) {
      return static_cast<int>(std::clamp<std::int64_t>(value.value_or(0), 0, std::numeric_limits<int>::max()));
    };
    work.kind = is_nccl_kernel(event.name) ? EventKind::collective : EventKind::kernel;
    work.detail = kernels_.of({.context = small(event[ChromeArg::context]),
                               .stream = small(stream),
                               .grid = event.grid,
                               .block = event.block,
                               .registers_per_thread = small(event[ChromeArg::registers]),
                               .dynamic_shared_bytes = small(event[ChromeArg::shared_memory])});
  }

  void add_copy(const ChromeEvent& event, std::int64_t device, Event& work) {
    const auto [source, destination] = copy_ends(event, device);
    const std::int64_t bytes = std::max<std::int64_t>(event[ChromeArg::bytes].value_or(0), 0);
    if (bytes > kMostCopiedBytes - copied_bytes_)
      throw Error("the copies add up to too many bytes", input_.where(), "give a trace as its profiler wrote it");
    copied_bytes_ += bytes;
    work.kind = EventKind::copy;
    work.detail = static_cast<std::int32_t>(trace_.copies.size());
    const bool unified = is_unified_copy(event);
    if (unified) work.name = builder_.name(kUnifiedCopyName);
    trace_.copies.push_back({.bytes = bytes,
                             .source = source < 0 ? -1 : device_of(source),
                             .destination = destination < 0 ? -1 : device_of(destination),
                             .unified = unified});
  }

  void take_launch(const ChromeEvent& event, Nanoseconds duration) {
    calls_.push_back({.thread = thread_of(event),
                      .name = builder_.name(event.name),
                      .start = *event.time,
                      .end = *event.time + duration,
                      .correlation = event[ChromeArg::correlation].value_or(-1)});
  }

  void take_annotation(const ChromeEvent& event, Nanoseconds duration) {
    std::optional<std::int64_t> step;
    if (event.name.starts_with(kStepName)) step = integer(std::string_view(event.name).substr(kStepName.size()));
    if (step && *step >= 0 && *step < std::numeric_limits<int>::max())
      trace_.steps.push_back({.step = static_cast<int>(*step), .start = *event.time, .end = *event.time + duration});
    Event range;
    range.start = *event.time;
    range.duration = duration;
    range.name = builder_.name(event.name);
    range.device = -1;
    range.kind = step ? EventKind::step : EventKind::action;
    trace_.ranges.push_back(range);
    range_threads_.push_back(thread_of(event));
  }

  // Threads become devices. Calls of CUDA launched nothing that was recorded.
  void take_host_work() {
    if (sources_.is_of_ascend()) sources_.refuse(input_.where(), false);
    HostThreads host = operators_.threads();
    operators_.clear();
    calls_.clear();
    if (host.devices.size() > kMostDevices)
      throw Error("more than 4096 threads work", input_.where(), "give a trace of one program, as its profiler wrote it");
    trace_.devices = host.devices;
    trace_.quality.dropped += host.dropped;
    for (const HostWork& one : host.work) {
      Event event;
      event.start = one.start;
      event.duration = one.end - one.start;
      event.name = builder_.name(one.name);
      event.device = static_cast<std::int16_t>(one.device);
      event.kind = one.waits ? EventKind::sync : EventKind::kernel;
      trace_.events.push_back(event);
      streams_.push_back(one.waits ? kSyncStream : 0);
      contexts_.push_back(0);
      if (one.waits) waits_.push_back(one);
      correlations_.push_back(one.waits ? static_cast<std::int64_t>(waits_.size()) : -1);
    }
    for (std::size_t thread = 0; thread < thread_keys_.size(); ++thread)
      if (const auto found = host.device_of_thread.find(thread_keys_[thread]); found != host.device_of_thread.end())
        device_of_thread_[static_cast<int>(thread)] = static_cast<std::int16_t>(found->second);
  }

  // Launches stand for communications of the host until the order of events is final: they follow it.
  void add_host_communications() {
    for (std::size_t i = 0; i < waits_.size(); ++i) {
      const auto found = work_of(static_cast<std::int64_t>(i) + 1);
      const int launch = static_cast<int>(trace_.launches.size());
      const Nanoseconds start = waits_[i].start - origin_;
      trace_.launches.push_back({.event = found.empty() ? -1 : found.front().event, .start = start, .end = start});
      communications_.note_launch(-1, waits_[i].thread, waits_[i].start, launch);
    }
  }

  int thread_of(const ChromeEvent& event) {
    const std::string text = event.process + "/" + event.thread;
    const auto [place, is_new] = threads_.try_emplace(text, static_cast<int>(trace_.threads.size()));
    if (is_new) {
      trace_.threads.push_back("thread " + event.thread);
      thread_keys_.push_back(text);
    }
    return place->second;
  }

  std::int16_t device_of(std::int64_t id) { return devices_.index_of(id, input_.where()); }

  template <class Visit>
  void for_all_times(Visit visit) {
    for (Event& event : trace_.events) visit(event.start, event.end());
    for (Event& event : trace_.ranges) visit(event.start, event.end());
    for (Launch& launch : calls_) visit(launch.start, launch.end);
    for (StepWindow& step : trace_.steps) visit(step.start, step.end);
  }

  void rebase(const ChromeHeader& header) {
    Nanoseconds first = Nanoseconds::max();
    Nanoseconds last = Nanoseconds::min();
    for_all_times([&](Nanoseconds start, Nanoseconds end) {
      first = std::min(first, start);
      last = std::max(last, end);
    });
    if (last - first > kLongestRecording)
      throw Error("the trace spans more than 14 months", input_.where(), "give a trace of one run, as its profiler wrote it");
    origin_ = first;
    for (Event& event : trace_.events) event.start -= first;
    for (Event& event : trace_.ranges) event.start -= first;
    const auto shift = [&](auto& row) { row.start -= first, row.end -= first; };
    std::ranges::for_each(calls_, shift);
    std::ranges::for_each(trace_.steps, shift);
    if (header.base_time_ns > 0 || first.count() > kUnixTimes) trace_.started_utc_ns = header.base_time_ns + first.count();
  }

  void order() {
    std::vector<int> by_start(trace_.events.size());
    for (std::size_t i = 0; i < by_start.size(); ++i) by_start[i] = static_cast<int>(i);
    const auto start = [&](int i) { return trace_.events[as_index(i)].start; };
    std::stable_sort(by_start.begin(), by_start.end(), [&](int a, int b) { return start(a) < start(b); });
    std::vector<Event> events;
    events.reserve(by_start.size());
    std::vector<std::int64_t> streams;
    for (const int i : by_start) {
      const std::int64_t correlation = correlations_[as_index(i)];
      if (correlation > 0)
        work_of_.push_back({correlation, static_cast<int>(events.size())});
      else if (is_launched(trace_, trace_.events[as_index(i)]))
        without_launch_.push_back(static_cast<int>(events.size()));
      events.push_back(trace_.events[as_index(i)]);
      streams.push_back(streams_[as_index(i)]);
    }
    trace_.events = std::move(events);
    streams_ = std::move(streams);
    std::ranges::sort(work_of_);
    has_launch_.assign(trace_.events.size(), false);
    std::stable_sort(calls_.begin(), calls_.end(), [](const Launch& a, const Launch& b) { return a.start < b.start; });
  }

  // A call may launch several events (a CUDA graph). If calls share a correlation, the first one is taken as the launch.
  void add_launches() {
    for (Launch call : calls_) {
      if (call.correlation > 0) first_call_ = std::min(first_call_, call.correlation);
      const std::int64_t correlation = call.correlation;
      const auto named = work_of(correlation);
      const bool is_first = !named.empty() && !has_launch_[as_index(named.front().event)];
      const NamedWork nothing[] = {{correlation, -1}};
      for (const auto& [number, event] : is_first ? named : std::span<const NamedWork>(nothing)) {
        call.event = event;
        if (event >= 0) has_launch_[as_index(event)] = true;
        if (event >= 0 && trace_.events[as_index(event)].kind == EventKind::collective)
          communications_.note_launch(correlation, thread_keys_[as_index(call.thread)], call.start + origin_,
                                      static_cast<int>(trace_.launches.size()));
        call.correlation = static_cast<std::int64_t>(trace_.launches.size()) + 1;
        trace_.launches.push_back(call);
        if (event < 0) continue;
        const Event& work = trace_.events[as_index(event)];
        if (work.start + kMostClockSkew < call.start) ++trace_.quality.unmatched;
        device_of_thread_.try_emplace(call.thread, work.device);
      }
    }
  }

  // Correlations number the calls, so a lower one than all recorded belongs to a call before the recording.
  void count_unmatched() {
    if (calls_.empty()) return;  // launches were not recorded, so none is missing
    for (const int event : without_launch_) count_unmatched(event, false);
    for (const auto& [correlation, event] : work_of_)
      if (!has_launch_[as_index(event)] && is_launched(trace_, trace_.events[as_index(event)]))
        count_unmatched(event, correlation < first_call_);
  }

  /// Returns the events that name this call, in the order of their starts.
  [[nodiscard]] std::span<const NamedWork> work_of(std::int64_t call) const {
    return {std::ranges::lower_bound(work_of_, call, {}, &NamedWork::call), std::ranges::upper_bound(work_of_, call, {}, &NamedWork::call)};
  }

  void count_unmatched(int event, bool before_recording) {
    const bool before_steps = !trace_.steps.empty() && trace_.events[as_index(event)].end() <= trace_.steps.front().start;
    ++(before_recording || before_steps ? trace_.quality.cut_off : trace_.quality.unmatched);
  }

  void place_ranges() {
    for (std::size_t i = 0; i < trace_.ranges.size(); ++i) {
      const auto found = device_of_thread_.find(range_threads_[i]);
      if (found != device_of_thread_.end()) trace_.ranges[i].device = found->second;
    }
  }

  TextInput& input_;
  Trace trace_;
  TraceBuilder builder_;
  KernelIndex kernels_{trace_.kernels};
  std::vector<Launch> calls_;               // with the file's correlations
  std::vector<std::int64_t> correlations_;  // by event, in the file's order
  std::vector<std::int64_t> streams_;       // by event
  std::vector<std::int64_t> contexts_;      // by event, in the file's order
  std::vector<int> range_threads_;
  std::int64_t copied_bytes_ = 0;
  KinetoDevices devices_;
  DeviceProcesses processes_;
  TracedProcesses sources_;
  bool lost_work_ = false;  // a GPU's work without times
  std::unordered_map<std::string, int> threads_;
  std::vector<std::string> thread_keys_;  // by thread
  KinetoCommunications communications_;
  KinetoOperators operators_;                                           // as long as no GPU has worked
  std::vector<HostWork> waits_;                                         // in a trace without GPUs: those for other processes
  Nanoseconds origin_{0};                                               // time 0 of the trace in the file
  std::vector<NamedWork> work_of_;                                      // ordered
  std::vector<bool> has_launch_;                                        // by event: its call is recorded
  std::vector<int> without_launch_;                                     // events that name no call
  std::int64_t first_call_ = std::numeric_limits<std::int64_t>::max();  // lowest correlation of a recorded call
  std::unordered_map<int, std::int16_t> device_of_thread_;
};

}  // namespace

RankRecording read_kineto_rank(const std::string& path) {
  TextInput input = open_text(path);
  return KinetoReader(input).read();
}

RankRecording read_kineto_rank(TextInput& input) {
  return KinetoReader(input).read();
}

std::vector<RankRecording> read_kineto_ranks(const std::string& path) {
  TextInput looked_at = open_text(path);
  const KinetoProcesses processes = kineto_processes(looked_at);
  const std::vector<std::string> labels = processes.labels();
  if (labels.empty()) return {read_kineto_rank(path)};
  TextInput input = open_text(path);
  std::map<std::string, std::unique_ptr<KinetoReader>> readers;
  for (const std::string& label : labels) readers[label] = std::make_unique<KinetoReader>(input);
  std::map<std::string, KinetoProcesses::Process> known;
  const ChromeHeader header = read_chrome_events(input, [&](ChromeEvent& event) {
    const auto [place, is_new] = known.try_emplace(event.process);
    KinetoProcesses::Process& process = place->second;
    if (is_new) process = processes.of(event.process);
    event.process = process.own;
    if (const auto reader = readers.find(process.label); reader != readers.end()) reader->second->take(event);
    return true;
  });
  const std::map<std::string, int> ranks = ranks_of_labels(labels);
  std::vector<RankRecording> recordings;
  for (const auto& [label, reader] : readers) {
    recordings.push_back(reader->finish(header));
    recordings.back().file = path + ", " + label;
    recordings.back().rank = ranks.at(label);
    recordings.back().merged_file = path;
  }
  return recordings;
}

}  // namespace mptune::profiler

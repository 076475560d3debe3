#include <algorithm>
#include <map>
#include <set>
#include <string_view>
#include <unordered_map>

#include "profiler/base/device_spec.h"
#include "profiler/base/error.h"
#include "profiler/base/index.h"
#include "profiler/base/text.h"
#include "profiler/formats/chrome_events.h"
#include "profiler/formats/kineto.h"
#include "profiler/formats/kineto_communications.h"
#include "profiler/formats/kineto_rows.h"
#include "profiler/formats/kineto_times.h"
#include "profiler/trace/kernel_names.h"
#include "profiler/trace/settle.h"
#include "profiler/trace/stream_lanes.h"
#include "profiler/trace/trace_builder.h"

namespace mptune::profiler {
namespace {

constexpr std::uint8_t kLastLane = 255;
constexpr std::int64_t kSyncStream = -1;
// Unix time in 2001 [ns]. In files without a base time, larger times are Unix times, smaller ones count from an unknown start.
constexpr std::int64_t kUnixTimes = 1'000'000'000'000'000'000;

class KinetoReader {
 public:
  explicit KinetoReader(TextInput& input) : input_(input), builder_(trace_) {}

  RankRecording read() {
    const ChromeHeader header = read_chrome_events(input_, [this](ChromeEvent& event) {
      take(event);
      return true;
    });
    require_work();
    number_devices(header);
    leave_out_implausible({trace_, calls_, correlations_, streams_, range_threads_});
    require_work();
    rebase(header);
    order();
    assign_lanes();
    add_launches();
    add_steps();
    leave_out_cut_step();
    count_unmatched();
    place_ranges();
    settle_lanes(trace_);
    trace_.quality.untagged = static_cast<std::int64_t>(trace_.events.size());
    return as_rank(header);
  }

 private:
  RankRecording as_rank(const ChromeHeader& header) {
    RankRecording recording{.file = input_.where(), .trace = {}, .communications = communications_.by_launch()};
    for (Communication& one : recording.communications) {
      const Launch& launch = trace_.launches[as_index(one.event)];
      one.step = step_at(trace_.steps, launch.start);
      one.event = launch.event;
    }
    std::erase_if(recording.communications, [](const Communication& one) { return one.event < 0; });
    if (header.rank >= 0 && header.rank < kMostRanks) recording.rank = static_cast<int>(header.rank);
    if (header.ranks > recording.rank && header.ranks <= kMostRanks) recording.ranks = static_cast<int>(header.ranks);
    recording.trace = std::move(trace_);
    return recording;
  }

  void require_work() const {
    if (!trace_.events.empty()) return;
    if (trace_.implausible.empty())
      throw Error("it holds no work of a GPU", input_.where(), "record it with the profiler's CUDA activity on");
    const ImplausibleTime& first = trace_.implausible.front();
    throw Error("all its work has times that can't be right, first " + first.what + " on " + first.where + ": " + first.times,
                input_.where(), "give a trace as its profiler wrote it");
  }

  void take(const ChromeEvent& event) {
    communications_.take(event);
    const KinetoRow row = kineto_row(event);
    if (row == KinetoRow::ignored) return;
    const Nanoseconds duration = event.duration.value_or(Nanoseconds{0});
    if (!event.time) ++trace_.quality.zero_stamped;
    if (!event.time) return;
    if (!event.out_of_range.empty()) return leave_out(event, row, ImplausibleTime::Fault::far);
    if (duration < Nanoseconds{0}) return leave_out(event, row, ImplausibleTime::Fault::backward);
    if (row == KinetoRow::launch) return take_launch(event, duration);
    if (row == KinetoRow::annotation) return take_annotation(event, duration);
    take_work(event, row, duration);
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
    const std::int64_t stream = event[ChromeArg::stream].value_or(0);
    Event work;
    work.start = *event.time;
    work.duration = duration;
    work.device = device_of(device);
    work.name = builder_.name(event.name);
    if (row == KinetoRow::kernel) add_kernel(event, stream, work);
    if (row == KinetoRow::copy) add_copy(event, device, work);
    if (row == KinetoRow::memset) work.kind = EventKind::memset;
    if (row == KinetoRow::sync) work.kind = EventKind::sync;
    trace_.events.push_back(work);
    streams_.push_back(row == KinetoRow::sync ? kSyncStream : std::max<std::int64_t>(stream, 0));
    correlations_.push_back(row == KinetoRow::sync ? -1 : event[ChromeArg::correlation].value_or(-1));
  }

  void add_kernel(const ChromeEvent& event, std::int64_t stream, Event& work) {
    const auto small = [](const std::optional<std::int64_t>& value) {
      return static_cast<int>(std::clamp<std::int64_t>(value.value_or(0), 0, std::numeric_limits<int>::max()));
    };
    work.kind = is_nccl_kernel(event.name) ? EventKind::collective : EventKind::kernel;
    work.detail = static_cast<std::int32_t>(trace_.kernels.size());
    trace_.kernels.push_back({.context = small(event[ChromeArg::context]),
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

  int thread_of(const ChromeEvent& event) {
    const std::string text = event.process + "/" + event.thread;
    const auto [place, is_new] = threads_.try_emplace(text, static_cast<int>(trace_.threads.size()));
    if (is_new) {
      trace_.threads.push_back("thread " + event.thread);
      thread_keys_.push_back(text);
    }
    return place->second;
  }

  // Index of a device, in order of first occurrence; number_devices reorders them by id.
  std::int16_t device_of(std::int64_t id) {
    const auto [place, is_new] = devices_.try_emplace(id, static_cast<std::int16_t>(devices_.size()));
    if (devices_.size() > kMostDevices)
      throw Error("the trace has more than 4096 devices", input_.where(), "give a trace of one program, as its profiler wrote it");
    return place->second;
  }

  void number_devices(const ChromeHeader& header) {
    std::vector<std::int16_t> place(devices_.size());
    for (const auto& [id, met] : devices_) {
      place[as_index(met)] = static_cast<std::int16_t>(trace_.devices.size());
      TraceDevice device{.name = gpu_name(id), .description = "CUDA device"};
      for (const ChromeDevice& described : header.devices) {
        if (described.id != id) continue;
        if (!described.name.empty()) device.description = described.name;
        device.memory_bytes = described.memory_bytes;
      }
      trace_.devices.push_back(device);
    }
    for (Event& event : trace_.events) event.device = place[as_index(event.device)];
    for (Copy& copy : trace_.copies) {
      if (copy.source >= 0) copy.source = place[as_index(copy.source)];
      if (copy.destination >= 0) copy.destination = place[as_index(copy.destination)];
    }
  }

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
    for (Launch& launch : calls_) {
      launch.start -= first;
      launch.end -= first;
    }
    for (StepWindow& step : trace_.steps) {
      step.start -= first;
      step.end -= first;
    }
    if (header.base_time_ns > 0 || first.count() > kUnixTimes) trace_.started_utc_ns = header.base_time_ns + first.count();
  }

  // When no lane is free, streams share the last one and settle_lanes shortens events that overlap there.
  void assign_lanes() {
    using Lanes = StreamLanes<std::int64_t>;
    std::map<Lanes::OfDevice, double> compute;
    for (std::size_t i = 0; i < trace_.events.size(); ++i) {
      const Event& event = trace_.events[i];
      if (is_compute(event.kind)) compute[{event.device, streams_[i]}] += static_cast<double>(event.duration.count());
    }
    Lanes lanes(compute);
    for (std::size_t i = 0; i < trace_.events.size(); ++i) {
      Event& event = trace_.events[i];
      event.lane = lanes.take({event.device, streams_[i]}, event.start + kKinetoRounding, event.end()).value_or(kLastLane);
    }
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
        work_of_[correlation].push_back(static_cast<int>(events.size()));
      else if (is_launched(trace_, trace_.events[as_index(i)]))
        without_launch_.push_back(static_cast<int>(events.size()));
      events.push_back(trace_.events[as_index(i)]);
      streams.push_back(streams_[as_index(i)]);
    }
    trace_.events = std::move(events);
    streams_ = std::move(streams);
    std::stable_sort(calls_.begin(), calls_.end(), [](const Launch& a, const Launch& b) { return a.start < b.start; });
  }

  // A call may launch several events (a CUDA graph). If calls share a correlation, the first one is taken as the launch.
  void add_launches() {
    for (Launch call : calls_) {
      if (call.correlation > 0) first_call_ = std::min(first_call_, call.correlation);
      const auto found = work_of_.find(call.correlation);
      const std::vector<int> started = found == work_of_.end() ? std::vector<int>{-1} : std::move(found->second);
      if (found != work_of_.end()) work_of_.erase(found);
      const std::int64_t correlation = call.correlation;
      for (const int event : started) {
        call.event = event;
        if (event >= 0 && trace_.events[as_index(event)].kind == EventKind::collective)
          communications_.note_launch(correlation, thread_keys_[as_index(call.thread)], call.start + origin_,
                                      static_cast<int>(trace_.launches.size()));
        call.correlation = static_cast<std::int64_t>(trace_.launches.size()) + 1;
        trace_.launches.push_back(call);
        if (event < 0) continue;
        const Event& work = trace_.events[as_index(event)];
        if (work.start < call.start) ++trace_.quality.unmatched;
        device_of_thread_.try_emplace(call.thread, work.device);
      }
    }
  }

  // Correlations number the calls, so a lower one than all recorded belongs to a call before the recording.
  void count_unmatched() {
    if (calls_.empty()) return;  // launches were not recorded, so none is missing
    for (const int event : without_launch_) count_unmatched(event, false);
    for (const auto& [correlation, events] : work_of_)
      for (const int event : events)
        if (is_launched(trace_, trace_.events[as_index(event)])) count_unmatched(event, correlation < first_call_);
  }

  void count_unmatched(int event, bool before_recording) {
    const bool before_steps = !trace_.steps.empty() && trace_.events[as_index(event)].end() <= trace_.steps.front().start;
    ++(before_recording || before_steps ? trace_.quality.cut_off : trace_.quality.unmatched);
  }

  // The last kernels that a step launched may lie after the recording: then its length is not known.
  void leave_out_cut_step() {
    if (trace_.steps.empty()) return;
    const StepWindow last = trace_.steps.back();
    std::int64_t missing = 0;
    for (auto call = trace_.launches.rbegin(); call != trace_.launches.rend() && call->event < 0 && call->start >= last.start; ++call)
      if (call->start < last.end && launches_kernels(trace_.names[as_index(call->name)])) ++missing;
    if (missing == 0) return;
    const bool has_others = trace_.steps.size() > 1;
    (has_others ? trace_.quality.cut_off : trace_.quality.unmatched) += missing;
    if (has_others) trace_.steps.pop_back();
  }

  // A step lasts until the work that it launched has ended, at most until the next step.
  void add_steps() {
    settle_steps(trace_);
    const std::vector<StepWindow> marks = trace_.steps;
    for (const Launch& launch : trace_.launches) {
      if (launch.event < 0) continue;
      const auto after =
          std::partition_point(marks.begin(), marks.end(), [&](const StepWindow& mark) { return mark.start <= launch.start; });
      if (after == marks.begin() || launch.start >= std::prev(after)->end) continue;
      const Nanoseconds next = after == marks.end() ? Nanoseconds::max() : after->start;
      StepWindow& step = trace_.steps[as_index(after - marks.begin()) - 1];
      step.end = std::max(step.end, std::min(trace_.events[as_index(launch.event)].end(), next));
    }
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
  std::vector<Launch> calls_;               // with the file's correlations
  std::vector<std::int64_t> correlations_;  // by event, in the file's order
  std::vector<std::int64_t> streams_;       // by event
  std::vector<int> range_threads_;
  std::int64_t copied_bytes_ = 0;
  std::map<std::int64_t, std::int16_t> devices_;
  std::unordered_map<std::string, int> threads_;
  std::vector<std::string> thread_keys_;  // by thread
  KinetoCommunications communications_;
  Nanoseconds origin_{0};                                       // time 0 of the trace in the file
  std::unordered_map<std::int64_t, std::vector<int>> work_of_;  // by correlation; after add_launches those of which no call is recorded
  std::vector<int> without_launch_;                             // events that name no call
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

Trace read_kineto(TextInput& input) {
  return KinetoReader(input).read().trace;
}

Trace read_kineto(const std::string& path) {
  TextInput input = open_text(path);
  return read_kineto(input);
}

}  // namespace mptune::profiler

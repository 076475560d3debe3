#include "profiler/trace/values/merge.h"

#include <algorithm>
#include <map>
#include <tuple>
#include <unordered_map>

#include "profiler/base/device_spec.h"
#include "profiler/base/index.h"
#include "profiler/trace/values/host_view.h"
#include "profiler/trace/values/trace_builder.h"

namespace mptune::profiler {
namespace {

using Indices = std::vector<int>;

template <typename Value>
Value& at(std::vector<Value>& values, int index) {
  return values.at(as_index(index));
}
template <typename Value>
const Value& at(const std::vector<Value>& values, int index) {
  return values.at(as_index(index));
}

int mapped(const Indices& indices, int index) {
  return index < 0 ? index : at(indices, index);
}

using ActionKey = std::tuple<int, int, int, int>;
ActionKey action_of(const Tag& tag) {
  return {tag.step, tag.stage, tag.microbatch, tag.replica};
}

/// True for phases of training. The host knows the phase better than a tag: for example that a forward is a recomputation.
bool is_phase(EventKind kind) {
  return kind <= EventKind::reduce;
}

/// A trace with the host's tables, memory samples and steps, without its events.
Trace tables_of(const Trace& host) {
  Trace trace;
  trace.devices = host.devices;
  trace.names = host.names;
  trace.threads = host.threads;
  trace.tags = host.tags;
  trace.memory = host.memory;
  trace.steps = host.steps;
  trace.started_utc_ns = host.started_utc_ns;
  return trace;
}

class Merger {
 public:
  Merger(const Trace& host, const Trace& gpus, Nanoseconds gpus_started)
      : host_(host),
        gpus_(gpus),
        shift_(gpus_started),
        view_(host, gpus, gpus_started),
        trace_(tables_of(host)),
        builder_(trace_),
        work_of_(host.events.size()) {}

  Trace merge() {
    map_tables();
    find_host_events();
    for (std::size_t i = 0; i < gpus_.events.size(); ++i) add_gpu_event(static_cast<int>(i));
    decide_replaced();
    for (std::size_t i = 0; i < host_.events.size(); ++i) add_host_event(static_cast<int>(i));
    sort_events();
    add_launches();
    add_edges();
    add_ranges();
    count_losses();
    return std::move(trace_);
  }

 private:
  static constexpr int kNone = HostView::kNone;

  /// An event of the result, with its index in the trace that it comes from.
  struct Added {
    Event event;
    int host = kNone;
    int gpu = kNone;
  };

  /// Finds the index in the result of every device, name and thread of the GPUs' trace.
  void map_tables() {
    for (const TraceDevice& gpu : gpus_.devices) {
      const auto known = std::ranges::find(host_.devices, gpu.name, &TraceDevice::name);
      known_.push_back(known == host_.devices.end() ? kNone : static_cast<int>(known - host_.devices.begin()));
    }
    device_ = known_;
    for (const std::string& name : gpus_.names) name_.push_back(builder_.name(name));
    for (const std::string& thread : gpus_.threads) thread_.push_back(builder_.thread(thread));
  }

  /// Finds the host's event of each GPU event, and from those the compute lanes of parts of GPUs.
  void find_host_events() {
    for (std::size_t i = 0; i < gpus_.events.size(); ++i) host_event_.push_back(view_.of(static_cast<int>(i)));
    find_parts_of_lanes();
    for (std::size_t i = 0; i < gpus_.events.size(); ++i) {
      const Event& event = gpus_.events[i];
      const bool computes = event.kind != EventKind::copy && event.kind != EventKind::profiler && !stands_for_message(event);
      if (computes && at(known_, event.device) < 0) compute_lane_.try_emplace(device_of(event, host_event_[i]), event.lane);
    }
  }

  /// A lane is a stream, which belongs to one part: the part that most of its work was launched for. Single copies may look like another
  /// part's, or like no part's, where several run at a time.
  void find_parts_of_lanes() {
    std::map<std::pair<int, int>, std::map<int, int>> votes;
    for (std::size_t i = 0; i < gpus_.events.size(); ++i) {
      const Event& event = gpus_.events[i];
      if (at(known_, event.device) >= 0 || event.kind == EventKind::profiler) continue;
      if (const int part = part_of(event, host_event_[i]); part >= 0) ++votes[{event.device, event.lane}][part];
    }
    const auto fewer = [](const auto& a, const auto& b) { return a.second < b.second; };
    for (const auto& [lane, counts] : votes) part_of_lane_[lane] = std::ranges::max_element(counts, fewer)->first;
  }

  /// True for NCCL's kernels of messages between ranks, which begin to wait long before the message: the host's copies stand for them.
  bool stands_for_message(const Event& gpu_event) const {
    const auto is_of_rank = [](const TraceDevice& device) { return names_rank(device.name); };
    return gpu_event.kind == EventKind::collective && at(gpus_.names, gpu_event.name).find("SendRecv") != std::string::npos &&
           std::ranges::any_of(host_.devices, is_of_rank);
  }

  void add_gpu_event(int index) {
    Event event = at(gpus_.events, index);
    if (stands_for_message(event)) return;
    event.start += shift_;
    event.name = mapped(name_, event.name);
    const int gpu = event.device;
    const int host_event = at(host_event_, index);
    event.device = static_cast<std::int16_t>(device_of(event, host_event));
    event.lane = lane_of(event, gpu);
    if (host_event >= 0 && at(host_.events, host_event).tag >= 0)
      event.tag = at(host_.events, host_event).tag;
    else if (event.tag >= 0)
      event.tag = builder_.tag(at(gpus_.tags, event.tag));
    if (host_event >= 0 && (event.kind == EventKind::kernel || is_phase(event.kind))) event.kind = at(host_.events, host_event).kind;
    if (event.kind == EventKind::copy && host_event >= 0) event.name = name_of_copy(index, at(host_.events, host_event));
    event.detail = event.kind == EventKind::copy ? add_copy(event, host_event) : add_kernel(event.detail);
    if (host_event >= 0) at(work_of_, host_event).push_back(static_cast<int>(added_.size()));
    added_.push_back({event, kNone, index});
  }

  /// The host knows whether a copy carries activations or gradients, which take different times; the GPU knows whether it goes through the
  /// host.
  int name_of_copy(int index, const Event& host_event) {
    const Event& event = at(gpus_.events, index);
    if (host_event.kind != EventKind::copy) return mapped(name_, event.name);
    const std::string &message = at(host_.names, host_event.name), &part = at(gpus_.names, event.name);
    const Copy& copy = at(gpus_.copies, event.detail);
    const bool is_whole = copy.source >= 0 && copy.destination >= 0;
    return is_whole || message == part ? host_event.name : builder_.name(message + ", " + part.substr(part.starts_with("copy ") ? 5 : 0));
  }

  /// Returns the index of a GPU that the host's trace does not name; appends the GPU the first time.
  int appended(int gpu) {
    int& device = at(device_, gpu);
    if (device < 0) {
      device = static_cast<int>(trace_.devices.size());
      trace_.devices.push_back(at(gpus_.devices, gpu));
    }
    return device;
  }

  /// Returns the part of a GPU that did this work: the part the host launched it for, else the part that runs its stage. kNone: neither is
  /// known.
  int part_of(const Event& event, int host_event) const {
    if (host_event < 0) return event.tag < 0 ? kNone : view_.device_of_stage(at(gpus_.tags, event.tag), event.device);
    const Event& launching = at(host_.events, host_event);
    return view_.lies_on(launching.device, event.device) ? launching.device : at(host_.copies, launching.detail).destination;
  }

  /// The recorder's own work goes to the first part.
  int device_of(const Event& event, int host_event) {
    const int gpu = event.device;
    if (at(known_, gpu) >= 0) return at(known_, gpu);
    if (event.kind == EventKind::profiler) {
      const int first = view_.first_device_on(gpu);
      return first >= 0 ? first : appended(gpu);
    }
    const auto lane = part_of_lane_.find({gpu, event.lane});
    const int part = lane != part_of_lane_.end() ? lane->second : part_of(event, host_event);
    return part >= 0 ? part : appended(gpu);
  }

  /// Streams are numbered per GPU, lanes per part. The lane of a part's first work becomes kComputeLane; the two lanes are swapped.
  std::uint8_t lane_of(const Event& event, int gpu) const {
    const auto compute = compute_lane_.find(event.device);
    if (at(known_, gpu) >= 0 || compute == compute_lane_.end()) return event.lane;
    return event.lane == compute->second ? std::uint8_t{kComputeLane} : event.lane == kComputeLane ? compute->second : event.lane;
  }

  /// Takes the source or destination from the host's record if the GPU's record lacks it.
  int add_copy(const Event& event, int host_event) {
    if (event.detail < 0) return event.detail;
    Copy copy = at(gpus_.copies, event.detail);
    const Copy ends = host_event < 0 ? Copy{} : at(host_.copies, at(host_.events, host_event).detail);
    copy.source = end_of(copy.source, ends.source, event.device);
    copy.destination = end_of(copy.destination, ends.destination, event.device);
    trace_.copies.push_back(copy);
    return static_cast<int>(trace_.copies.size()) - 1;
  }

  int end_of(int gpu, int host_device, int device) {
    if (gpu < 0) return view_.on_gpu(host_device) ? kNone : host_device;
    if (at(known_, gpu) >= 0) return at(known_, gpu);
    if (view_.lies_on(host_device, gpu)) return host_device;
    return device < static_cast<int>(host_.devices.size()) && view_.lies_on(device, gpu) ? device : appended(gpu);
  }

  int add_kernel(int detail) {
    if (detail < 0) return detail;
    trace_.kernels.push_back(at(gpus_.kernels, detail));
    return static_cast<int>(trace_.kernels.size()) - 1;
  }

  /// The host's record of GPU work is always replaced; its record of a copy from or to a GPU only if the GPU recorded the copy, too, or if
  /// no other recorder would know it.
  void decide_replaced() {
    for (std::size_t i = 0; i < host_.events.size(); ++i) {
      const Event& event = host_.events[i];
      replaced_.push_back((was_recorded(event.device) && !is_between_ranks(event)) || (view_.is_gpu_work(event) && !work_of_[i].empty()));
    }
  }

  /// If there are several ranks, some may have no recorder.
  bool was_recorded(int device) const {
    if (!view_.on_gpu(device)) return false;
    for (int gpu = 0; gpu < static_cast<int>(gpus_.devices.size()); ++gpu)
      if (view_.lies_on(device, gpu)) return true;
    return !names_rank(at(host_.devices, device).name);
  }

  bool is_between_ranks(const Event& event) const {
    if (event.kind != EventKind::copy || event.detail < 0) return false;
    const Copy& copy = at(host_.copies, event.detail);
    if (copy.source < 0 || copy.destination < 0) return false;
    return parse_device(at(host_.devices, copy.source).name).rank != parse_device(at(host_.devices, copy.destination).name).rank;
  }

  bool is_replaced(int index) const { return replaced_.at(as_index(index)); }

  void add_host_event(int index) {
    if (is_replaced(index)) return;
    Event event = at(host_.events, index);
    if (event.kind == EventKind::copy && event.detail >= 0) {
      trace_.copies.push_back(at(host_.copies, event.detail));
      event.detail = static_cast<int>(trace_.copies.size()) - 1;
    } else if (event.detail >= 0) {
      trace_.kernels.push_back(at(host_.kernels, event.detail));
      event.detail = static_cast<int>(trace_.kernels.size()) - 1;
    }
    at(work_of_, index) = {static_cast<int>(added_.size())};
    added_.push_back({event, index, kNone});
  }

  /// Orders the added events by start. From here on work_of_ and gpu_event_ hold indices into the result's events.
  void sort_events() {
    Indices order(added_.size());
    for (std::size_t i = 0; i < order.size(); ++i) order[i] = static_cast<int>(i);
    std::stable_sort(order.begin(), order.end(), [&](int a, int b) { return at(added_, a).event.start < at(added_, b).event.start; });
    Indices place(added_.size());
    for (std::size_t i = 0; i < order.size(); ++i) at(place, order[i]) = static_cast<int>(i);
    for (Indices& work : work_of_) {
      for (int& index : work) index = at(place, index);
      std::sort(work.begin(), work.end());
    }
    gpu_event_.assign(gpus_.events.size(), kNone);
    for (const int index : order) {
      const Added& one = at(added_, index);
      if (one.gpu >= 0) at(gpu_event_, one.gpu) = static_cast<int>(trace_.events.size());
      trace_.events.push_back(one.event);
    }
  }

  void add_launches() {
    std::int64_t last = 0;
    for (Launch launch : gpus_.launches) {
      launch.event = mapped(gpu_event_, launch.event);
      launch.thread = mapped(thread_, launch.thread);
      launch.name = mapped(name_, launch.name);
      launch.start += shift_;
      launch.end += shift_;
      last = std::max(last, launch.correlation);
      if (launch.event >= 0) launch_of_[launch.event] = launch.start;
      trace_.launches.push_back(launch);
    }
    for (Launch launch : host_.launches) {
      if (launch.event >= 0 && is_replaced(launch.event)) continue;
      if (launch.event >= 0) launch.event = at(work_of_, launch.event).front();
      launch.correlation = ++last;
      trace_.launches.push_back(launch);
    }
    std::stable_sort(trace_.launches.begin(), trace_.launches.end(), [](const Launch& a, const Launch& b) { return a.start < b.start; });
  }

  int last_to_end(const Indices& work) const {
    return *std::max_element(work.begin(), work.end(),
                             [&](int a, int b) { return at(trace_.events, a).end() < at(trace_.events, b).end(); });
  }

  void add_edges() {
    for (const Edge& edge : gpus_.edges) {
      const Edge joined{at(gpu_event_, edge.producer), at(gpu_event_, edge.consumer), edge.kind};
      if (joined.producer >= 0 && joined.consumer >= 0) trace_.edges.push_back(joined);
    }
    join_halves_of_messages();
    for (const Edge& edge : host_.edges) {
      const bool from_gpu = is_replaced(edge.producer), to_gpu = is_replaced(edge.consumer);
      // The GPUs' own recorder knows the order on a GPU's lane and between GPUs, but not what a host thread waited for.
      const bool of_host = is_barrier(edge);
      if ((from_gpu && to_gpu && !of_host) || (edge.kind == EdgeKind::order && (from_gpu || to_gpu))) continue;
      const Indices &producers = at(work_of_, edge.producer), &consumers = at(work_of_, edge.consumer);
      if (producers.empty() || consumers.empty()) continue;
      const Edge joined{last_to_end(producers), consumers.front(), edge.kind};
      if (from_gpu && to_gpu && !was_launched_after(joined)) continue;
      // An edge that runs backwards in time could close a cycle.
      if (joined.producer < joined.consumer) trace_.edges.push_back(joined);
    }
  }

  /// True for edges to updates and reductions, which the host launches when the other devices have ended.
  bool is_barrier(const Edge& edge) const {
    const EventKind kind = at(host_.events, edge.consumer).kind;
    return edge.kind == EdgeKind::data && (kind == EventKind::optimizer || kind == EventKind::reduce);
  }

  bool was_launched_after(const Edge& edge) const {
    const auto launch = launch_of_.find(edge.consumer);
    return launch != launch_of_.end() && at(trace_.events, edge.producer).end() <= launch->second;
  }

  /// A message between ranks through host memory is two copies of GPUs: to the host's memory there, and from it here.
  void join_halves_of_messages() {
    for (std::size_t i = 0; i < host_.events.size(); ++i) {
      const Indices& work = work_of_[i];
      if (!is_between_ranks(host_.events[i]) || work.size() < 2) continue;
      const Event &first = at(trace_.events, work.front()), &last = at(trace_.events, work.back());
      if (first.device != last.device && first.end() <= last.start) trace_.edges.push_back({work.front(), work.back(), EdgeKind::data});
    }
  }

  /// Sets the range of an action on a GPU: from the first to the last work that was launched within it. Returns false if there is none.
  bool fit_to_gpu_work(Event& range, const std::map<std::pair<int, ActionKey>, Indices>& launched) const {
    const auto found = launched.find({range.device, action_of(range.tag < 0 ? Tag{} : at(trace_.tags, range.tag))});
    if (found == launched.end()) return false;
    Nanoseconds first = Nanoseconds::max(), last = Nanoseconds::min();
    for (const int gpu : found->second) {
      const Nanoseconds launch = view_.launch(gpu)->start + shift_;
      if (launch < range.start || launch > range.end()) continue;
      const Event& event = at(trace_.events, at(gpu_event_, gpu));
      first = std::min(first, event.start);
      last = std::max(last, event.end());
    }
    if (first > last) return false;
    range.start = first;
    range.duration = last - first;
    return true;
  }

  void add_ranges() {
    std::map<std::pair<int, ActionKey>, Indices> launched;
    for (std::size_t i = 0; i < gpus_.events.size(); ++i) {
      if (gpu_event_[i] < 0) continue;
      const Event& event = at(trace_.events, gpu_event_[i]);
      if (view_.launch(static_cast<int>(i)) != nullptr && event.tag >= 0)
        launched[{event.device, action_of(at(trace_.tags, event.tag))}].push_back(static_cast<int>(i));
    }
    for (Event range : host_.ranges)
      if (!view_.on_gpu(range.device) || fit_to_gpu_work(range, launched)) trace_.ranges.push_back(range);
    for (Event range : gpus_.ranges) {
      range.start += shift_;
      range.name = mapped(name_, range.name);
      if (range.device >= 0) range.device = static_cast<std::int16_t>(at(device_, range.device));
      if (range.tag >= 0) range.tag = builder_.tag(at(gpus_.tags, range.tag));
      trace_.ranges.push_back(range);
    }
    order_ranges(trace_);
  }

  bool in_a_step(const Event& event) const {
    return std::any_of(trace_.steps.begin(), trace_.steps.end(),
                       [&](const StepWindow& step) { return event.start >= step.start && event.end() <= step.end; });
  }

  void count_losses() {
    const TraceQuality &a = host_.quality, &b = gpus_.quality;
    trace_.quality = {
        .dropped = a.dropped + b.dropped, .zero_stamped = a.zero_stamped + b.zero_stamped, .unmatched = a.unmatched + b.unmatched};
    for (const Added& one : added_) {
      const bool counts = one.event.kind != EventKind::profiler;
      if (counts && one.event.tag < 0) ++trace_.quality.untagged;
      if (counts && !trace_.steps.empty() && !in_a_step(one.event)) ++trace_.quality.out_of_window;
    }
  }

  const Trace& host_;
  const Trace& gpus_;
  const Nanoseconds shift_;
  const HostView view_;
  Trace trace_;
  TraceBuilder builder_;
  Indices known_;          // by device of gpus_: index in host_; kNone: the host does not name it, or names parts of it
  Indices device_;         // by device of gpus_: index in the result
  Indices host_event_;     // by event of gpus_: index of the host's event that launched it
  Indices name_, thread_;  // by name and thread of gpus_: index in the result
  std::map<std::pair<int, int>, int> part_of_lane_;  // by GPU and lane, of GPUs that are divided
  std::map<int, std::uint8_t> compute_lane_;         // by part: lane of its first work, as its GPU numbers lanes
  std::vector<Indices> work_of_;                     // by event of host_: events of the result that stand for it
  std::vector<bool> replaced_;                       // by event of host_: the GPU's record takes its place
  std::vector<Added> added_;
  std::unordered_map<int, Nanoseconds> launch_of_;  // by event of the result, of GPUs: when its launch began
  Indices gpu_event_;                               // by event of gpus_: index in the result
};

}  // namespace

Trace merge_traces(const Trace& host, const Trace& gpus, Nanoseconds gpus_started) {
  return Merger(host, gpus, gpus_started).merge();
}

}  // namespace mptune::profiler

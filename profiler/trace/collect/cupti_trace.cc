#include <cxxabi.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdlib>
#include <limits>
#include <map>
#include <memory>
#include <set>
#include <string_view>

#include "profiler/base/index.h"
#include "profiler/trace/collect/cupti_api.h"
#include "profiler/trace/collect/cupti_edges.h"
#include "profiler/trace/collect/cupti_lanes.h"
#include "profiler/trace/collect/cupti_records.h"
#include "profiler/trace/values/kernel_names.h"
#include "profiler/trace/values/trace_builder.h"

namespace mptune::profiler {
namespace {

std::string demangled(const char* name) {
  if (name == nullptr) return "kernel";
  // The demangler would read a plain name like "f" as a mangled type.
  if (!std::string_view(name).starts_with("_Z")) return name;
  int status = 0;
  const std::unique_ptr<char, decltype(&std::free)> text(abi::__cxa_demangle(name, nullptr, nullptr, &status), &std::free);
  return text == nullptr ? name : text.get();
}

const char* copy_name(CuptiCopy::Ends ends) {
  switch (ends) {
    case CuptiCopy::Ends::host_to_device:
      return "copy host to device";
    case CuptiCopy::Ends::device_to_host:
      return "copy device to host";
    case CuptiCopy::Ends::host_to_host:
      return "copy host to host";
    case CuptiCopy::Ends::within_device:
      return "copy within device";
    case CuptiCopy::Ends::peer:
      return "copy peer to peer";
    case CuptiCopy::Ends::unknown:
      break;
  }
  return "copy";
}

std::string text_of(const CuptiPayload& payload) {
  const auto digits = [](auto value) {
    std::array<char, 32> text{};
    return std::string(text.data(), std::to_chars(text.data(), text.data() + text.size(), value).ptr);
  };
  return std::visit(digits, payload.value);
}

struct Leaf {
  Event event;
  CuptiWork work;
  bool placed_by_stream = true;
};

// CUPTI converts GPU times to the host's clock with some error: work was seen up to 10 us before its launch.
constexpr std::int64_t kMostEarly = 50'000;  // ns

// Rejects records without times or with times of another clock.
class RecordFilter {
 public:
  RecordFilter(const CuptiContext& context, TraceQuality& quality)
      : earliest_((context.origin - kSlack).count()),
        latest_(context.ended == Nanoseconds{0} ? std::numeric_limits<std::int64_t>::max() : (context.ended + kSlack).count()),
        quality_(quality) {}

  void apply(CuptiRecords& records) {
    std::erase_if(records.kernels, [this](const CuptiKernel& kernel) { return !keeps(kernel.work); });
    std::erase_if(records.copies, [this](const CuptiCopy& copy) { return !keeps(copy.work); });
    std::erase_if(records.memsets, [this](const CuptiWork& work) { return !keeps(work); });
    std::erase_if(records.calls, [this](const CuptiCall& call) { return !keeps(call); });
    std::erase_if(records.overheads, [this](const CuptiOverhead& overhead) { return !keeps(overhead); });
    std::erase_if(records.markers, [this](const CuptiMarker& marker) { return !is_within(marker.time, marker.time); });
  }

 private:
  // Far above any conversion error, and far below the distance to another clock.
  static constexpr Nanoseconds kSlack = std::chrono::seconds(1);

  bool is_within(std::int64_t start, std::int64_t end) {
    const bool within = earliest_ <= start && start <= end && end <= latest_;
    if (!within) ++quality_.dropped;
    return within;
  }

  bool keeps(const CuptiWork& work) {
    if (work.start != 0 && work.end != 0) return is_within(work.start, work.end);
    ++quality_.zero_stamped;
    return false;
  }

  bool keeps(const CuptiCall& call) {
    if (call.correlation == 0) return false;
    // A call that had not returned when the recording ended has no end.
    if (call.start != 0 && call.end >= call.start) return is_within(call.start, call.end);
    ++quality_.zero_stamped;
    return false;
  }

  bool keeps(const CuptiOverhead& overhead) {
    return overhead.start != 0 && overhead.end >= overhead.start && is_within(overhead.start, overhead.end);
  }

  std::int64_t earliest_;
  std::int64_t latest_;
  TraceQuality& quality_;
};

class TraceMaker {
 public:
  TraceMaker(const CuptiRecords& records, const CuptiContext& context)
      : records_(records), context_(context), lanes_(records, context.devices, trace_), started_by_(records.calls.size(), -1) {}

  Trace make() {
    trace_.started_utc_ns = context_.started_utc_ns;
    index_calls();
    id_of_.reserve(records_.tags.size());
    for (const CuptiTagged& tagged : records_.tags) id_of_[tagged.correlation] = tagged.id;
    add_kernels();
    add_copies();
    add_memsets();
    sort_leaves();
    find_thread_devices();
    add_overheads();
    sort_leaves();
    place_leaves();
    add_launches();
    add_stream_edges(records_, std::move(submissions_), trace_);
    add_ranges();
    return std::move(trace_);
  }

 private:
  Nanoseconds at(std::int64_t time) const { return Nanoseconds{time} - context_.origin; }

  // All launches of a kernel have the same name pointer, so each name is demangled once.
  int kernel_name(const char* mangled) {
    const auto [place, added] = kernel_names_.try_emplace(mangled, -1);
    if (added) place->second = builder_.name(demangled(mangled));
    return place->second;
  }

  int call_name(const CuptiCall& call) {
    const auto [place, added] = call_names_.try_emplace({call.driver, call.function}, -1);
    if (!added) return place->second;
    const char* text = nullptr;
    const CUpti_CallbackDomain domain = call.driver ? CUPTI_CB_DOMAIN_DRIVER_API : CUPTI_CB_DOMAIN_RUNTIME_API;
    const bool known = cupti_api().cuptiGetCallbackName(domain, call.function, &text) == CUPTI_SUCCESS && text != nullptr;
    place->second = builder_.name(known ? text : "call " + std::to_string(call.function));
    return place->second;
  }

  int thread(std::uint32_t number) {
    const auto [place, added] = threads_.try_emplace(number, static_cast<int>(trace_.threads.size()));
    if (added) trace_.threads.push_back("thread " + std::to_string(number));
    return place->second;
  }

  // A runtime call and the driver calls within it share a correlation; only the outermost is used.
  void index_calls() {
    call_of_.reserve(records_.calls.size());
    for (const CuptiCall& call : records_.calls) {
      const CuptiCall*& known = call_of_[call.correlation];
      if (known == nullptr || std::pair(call.start, -call.end) < std::pair(known->start, -known->end)) known = &call;
    }
  }

  const CuptiCall* call_of(std::uint32_t correlation) const {
    const auto found = call_of_.find(correlation);
    return found == call_of_.end() ? nullptr : found->second;
  }

  const CuptiTag* tag_of(const CuptiWork& work) const {
    const auto id = id_of_.find(work.correlation);
    if (id == id_of_.end()) return nullptr;
    const auto tag = context_.tags.find(id->second);
    return tag == context_.tags.end() ? nullptr : &tag->second;
  }

  void add_leaf(const CuptiWork& work, EventKind kind, int name_index, int detail) {
    Event event{at(work.start), Nanoseconds{work.end - work.start}, name_index};
    const CuptiTag* tag = tag_of(work);
    if (tag != nullptr) event.tag = builder_.tag(tag->tag);
    event.detail = detail;
    event.kind = kind == EventKind::kernel && tag != nullptr ? tag->kind : kind;
    leaves_.push_back({event, work});
  }

  void add_kernels() {
    KernelIndex kernels(trace_.kernels);
    for (const CuptiKernel& kernel : records_.kernels) {
      const int named = kernel_name(kernel.name);
      const bool collective = is_nccl_kernel(trace_.names[as_index(named)]);
      add_leaf(kernel.work, collective ? EventKind::collective : EventKind::kernel, named, kernels.of(kernel.kernel));
    }
  }

  // A peer copy may be recorded twice, as a copy and as a peer copy. The second record has source and destination.
  void add_copies() {
    std::set<std::pair<std::uint32_t, std::uint64_t>> peers;
    for (const CuptiCopy& copy : records_.copies)
      if (copy.both_ends) peers.emplace(copy.work.correlation, copy.graph_node);
    for (const CuptiCopy& copy : records_.copies) {
      if (!copy.both_ends && peers.contains({copy.work.correlation, copy.graph_node})) continue;
      add_leaf(copy.work, EventKind::copy, builder_.name(copy_name(copy.ends)), static_cast<int>(trace_.copies.size()));
      trace_.copies.push_back(ends_of(copy));
    }
  }

  Copy ends_of(const CuptiCopy& copy) {
    using Ends = CuptiCopy::Ends;
    Copy result{.bytes = copy.bytes};
    if (copy.both_ends) return {copy.bytes, lanes_.device(copy.source), lanes_.device(copy.destination)};
    const int here = lanes_.device(copy.work.device);
    if (copy.ends == Ends::device_to_host || copy.ends == Ends::within_device || copy.ends == Ends::peer) result.source = here;
    if (copy.ends == Ends::host_to_device || copy.ends == Ends::within_device) result.destination = here;
    return result;
  }

  void add_memsets() {
    for (const CuptiWork& work : records_.memsets) add_leaf(work, EventKind::memset, builder_.name("memset"), -1);
  }

  void sort_leaves() {
    std::stable_sort(leaves_.begin(), leaves_.end(), [](const Leaf& a, const Leaf& b) { return a.event.start < b.event.start; });
  }

  // A thread belongs to the device that it first launches work on.
  void find_thread_devices() {
    for (Leaf& leaf : leaves_) {
      leaf.event.device = static_cast<std::int16_t>(lanes_.assigned(leaf.work).device);
      if (const CuptiCall* call = call_of(leaf.work.correlation)) device_of_thread_.try_emplace(call->thread, leaf.event.device);
    }
  }

  std::int16_t device_of_thread(std::uint32_t number) const {
    const auto found = device_of_thread_.find(number);
    return found == device_of_thread_.end() ? std::int16_t{-1} : found->second;
  }

  // The recorder's work on a thread without a device delays no device, so it is left out.
  void add_overheads() {
    for (const CuptiOverhead& overhead : records_.overheads) {
      const std::int16_t device = device_of_thread(overhead.thread);
      if (!overhead.recorder || device < 0) continue;
      Event event{at(overhead.start), Nanoseconds{overhead.end - overhead.start}, builder_.name(overhead.name)};
      event.device = device;
      event.kind = EventKind::profiler;
      leaves_.push_back({event, {}, false});
    }
  }

  void place_leaves() {
    for (Leaf& leaf : leaves_) {
      const int wanted = leaf.placed_by_stream ? lanes_.assigned(leaf.work).lane : -1;
      const int lane = lanes_.take(leaf.event.device, wanted, leaf.event.start, leaf.event.end());
      if (lane < 0) {
        ++trace_.quality.dropped;
        continue;
      }
      leaf.event.lane = static_cast<std::uint8_t>(lane);
      if (leaf.placed_by_stream) {
        if (leaf.event.tag < 0) ++trace_.quality.untagged;
        match(leaf);
        submissions_.push_back({leaf.work.correlation, static_cast<int>(trace_.events.size()), {leaf.work.context, leaf.work.stream}});
      }
      trace_.events.push_back(leaf.event);
    }
  }

  void match(const Leaf& leaf) {
    const CuptiCall* call = call_of(leaf.work.correlation);
    if (call == nullptr || leaf.work.start < call->start - kMostEarly) ++trace_.quality.unmatched;
    if (call == nullptr) return;
    int& first = started_by(*call);
    if (first < 0) first = static_cast<int>(trace_.events.size());
  }

  // Returns the first event that a call launched, -1: none.
  int& started_by(const CuptiCall& call) { return started_by_[as_index(&call - records_.calls.data())]; }

  void add_launches() {
    std::int64_t last = 0;
    trace_.launches.reserve(call_of_.size());
    for (const CuptiCall& call : records_.calls) {
      if (call_of(call.correlation) != &call) continue;
      trace_.launches.push_back({.event = started_by(call),
                                 .thread = thread(call.thread),
                                 .name = call_name(call),
                                 .start = at(call.start),
                                 .end = at(call.end),
                                 .correlation = call.correlation});
      last = std::max<std::int64_t>(last, call.correlation);
    }
    for (const CuptiOverhead& overhead : records_.overheads) {
      if (overhead.recorder || overhead.thread == 0) continue;
      trace_.launches.push_back({-1, thread(overhead.thread), builder_.name(overhead.name), at(overhead.start), at(overhead.end), ++last});
    }
    std::sort(trace_.launches.begin(), trace_.launches.end(),
              [](const Launch& a, const Launch& b) { return std::pair(a.start, a.correlation) < std::pair(b.start, b.correlation); });
  }

  std::string range_name(const CuptiMarker& marker, const CuptiPayload* payload) const {
    std::string text = marker.domain == nullptr ? "" : std::string(marker.domain) + ":";
    if (marker.name != nullptr) text += marker.name;
    return payload == nullptr ? text : text + " [" + text_of(*payload) + "]";
  }

  void add_range(const CuptiMarker& marker, const CuptiPayload* payload, std::int64_t end) {
    Event range{at(marker.time), Nanoseconds{std::max<std::int64_t>(0, end - marker.time)}, builder_.name(range_name(marker, payload))};
    range.device = device_of_thread(marker.thread);
    range.kind = EventKind::action;
    trace_.ranges.push_back(range);
  }

  // Returns the time of the last marker or event.
  std::int64_t last_time() const {
    std::int64_t last = 0;
    for (const Event& event : trace_.events) last = std::max(last, (event.end() + context_.origin).count());
    for (const CuptiMarker& marker : records_.markers) last = std::max(last, marker.time);
    return last;
  }

  void add_ranges() {
    std::unordered_map<std::uint32_t, std::int64_t> end_of;
    std::unordered_map<std::uint32_t, const CuptiPayload*> payload_of;
    for (const CuptiPayload& payload : records_.payloads) payload_of[payload.id] = &payload;
    for (const CuptiMarker& marker : records_.markers)
      if (marker.place == CuptiMarker::Place::end) end_of[marker.id] = marker.time;
    const std::int64_t last = last_time();
    for (const CuptiMarker& marker : records_.markers) {
      if (marker.place == CuptiMarker::Place::end) continue;
      const auto end = end_of.find(marker.id);
      const auto payload = payload_of.find(marker.id);
      // An open range ends with the recording.
      const std::int64_t open_end = end == end_of.end() ? last : end->second;
      add_range(marker, payload == payload_of.end() ? nullptr : payload->second,
                marker.place == CuptiMarker::Place::instant ? marker.time : open_end);
    }
    order_ranges(trace_);
  }

  const CuptiRecords& records_;
  const CuptiContext& context_;
  Trace trace_;
  TraceBuilder builder_{trace_};
  CuptiLanes lanes_;
  std::vector<Leaf> leaves_;
  std::vector<CuptiSubmission> submissions_;
  std::unordered_map<std::uint32_t, const CuptiCall*> call_of_;  // by correlation
  std::unordered_map<std::uint32_t, std::uint64_t> id_of_;       // external id by correlation
  std::vector<int> started_by_;                                  // by index in records_.calls
  std::unordered_map<std::uint32_t, std::int16_t> device_of_thread_;
  std::unordered_map<const char*, int> kernel_names_;
  std::map<std::pair<bool, std::uint32_t>, int> call_names_;
  std::unordered_map<std::uint32_t, int> threads_;
};

}  // namespace

Trace make_trace(CuptiRecords records, const CuptiContext& context) {
  TraceQuality lost{.dropped = context.dropped + records.lost};
  RecordFilter(context, lost).apply(records);
  Trace trace = TraceMaker(records, context).make();
  trace.quality.dropped += lost.dropped;
  trace.quality.zero_stamped += lost.zero_stamped;
  return trace;
}

}  // namespace mptune::profiler

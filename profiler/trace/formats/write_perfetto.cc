#include <algorithm>
#include <map>
#include <unordered_map>

#include "profiler/base/index.h"
#include "profiler/base/new_file.h"
#include "profiler/trace/formats/perfetto.h"
#include "profiler/trace/formats/protobuf.h"

namespace mptune::profiler {
namespace {

// Field numbers of Perfetto's protobuf messages.
constexpr int kPacket = 1;
namespace packet {
constexpr int kTimestamp = 8, kSequence = 10, kTrackEvent = 11, kInternedData = 12, kSequenceFlags = 13, kTrackDescriptor = 60;
}
namespace track {
constexpr int kUuid = 1, kName = 2, kProcess = 3, kParent = 5, kCounter = 8;
constexpr int kProcessPid = 1, kProcessName = 6, kCounterUnit = 3, kCounterBytes = 3;
}  // namespace track
namespace event {
constexpr int kCategories = 3, kArgument = 4, kType = 9, kNameId = 10, kTrack = 11, kCounterValue = 30, kFlow = 47, kFlowEnd = 48;
constexpr int kBegin = 1, kEnd = 2, kCounter = 4;
constexpr int kArgumentInteger = 4, kArgumentName = 10;
}  // namespace event
namespace interned {
constexpr int kCategories = 1, kNames = 2, kId = 1, kText = 2;
}
constexpr std::uint64_t kOurSequence = 1;
constexpr std::uint64_t kStateCleared = 1;
constexpr std::uint64_t kNeedsState = 2;

// Track ids: 1 + process * kTracksEach + track. Processes are the devices, then the host.
constexpr std::uint64_t kTracksEach = std::uint64_t{1} << 33;
constexpr std::uint64_t kStepsTrack = std::uint64_t{1} << 32;
constexpr std::uint64_t kActionsTrack = kStepsTrack + 1;
constexpr std::uint64_t kMemoryTrack = kStepsTrack + 2;
constexpr std::uint64_t kFirstLane = 1;

// First packet, the same in every file: it resets the sequence's state and defines mptune's category.
ProtoMessage first_packet() {
  ProtoMessage category;
  category.integer(interned::kId, kEventKindCount + 1);
  category.text(interned::kText, "mptune");
  ProtoMessage data;
  data.message(interned::kCategories, category);
  ProtoMessage one;
  one.integer(packet::kSequenceFlags, kStateCleared | kNeedsState);
  one.message(packet::kInternedData, data);
  return one;
}

// Encodes a packet as a field of the trace.
std::string in_trace(ProtoMessage one) {
  one.integer(packet::kSequence, kOurSequence);
  ProtoMessage outer;
  outer.message(kPacket, one);
  return outer.bytes();
}

struct Slice {
  Nanoseconds start;
  Nanoseconds end;
  int name;
  EventKind kind;
  const Event* event = nullptr;  // null for a launch
  int index = -1;                // of an event, in Trace::events
};

class PerfettoWriter {
 public:
  PerfettoWriter(const Trace& trace, const std::string& path) : trace_(trace), file_(path), shift_(earliest()) {}

  void write() {
    file_ << perfetto_magic();
    write_names();
    write_tracks();
    find_flows();
    for (auto& [uuid, slices] : tracks_) write_slices(uuid, slices);
    write_memory();
    file_.commit();
  }

 private:
  // Returns the earliest time, since timestamps are unsigned.
  Nanoseconds earliest() const {
    Nanoseconds first{0};
    for (const Event& one : trace_.events) first = std::min(first, one.start);
    for (const Event& one : trace_.ranges) first = std::min(first, one.start);
    for (const Launch& one : trace_.launches) first = std::min(first, one.start);
    for (const MemorySample& one : trace_.memory) first = std::min(first, one.time);
    for (const StepWindow& one : trace_.steps) first = std::min(first, one.start);
    return first;
  }

  std::uint64_t at(Nanoseconds time) const { return static_cast<std::uint64_t>((time - shift_).count()); }

  std::uint64_t place(int device) const {
    const bool known = device >= 0 && as_index(device) < trace_.devices.size();
    return 1 + kTracksEach * (known ? static_cast<std::uint64_t>(device) : trace_.devices.size());
  }

  void put(ProtoMessage& one) { file_ << in_trace(one); }

  // Names are written once and referred to by id: index + 1 for the trace's names, then one for launches without a name, then one per step.
  void write_names() {
    ProtoMessage data;
    const auto add = [&](int field, std::uint64_t id, const std::string& text) {
      ProtoMessage entry;
      entry.integer(interned::kId, id);
      entry.text(interned::kText, text);
      data.message(field, entry);
    };
    for (int what = 0; what < kEventKindCount; ++what)
      add(interned::kCategories, static_cast<std::uint64_t>(what) + 1, to_string(static_cast<EventKind>(what)));
    for (std::size_t i = 0; i < trace_.names.size(); ++i) add(interned::kNames, i + 1, trace_.names[i]);
    add(interned::kNames, trace_.names.size() + 1, "launch");
    for (std::size_t i = 0; i < trace_.steps.size(); ++i)
      add(interned::kNames, trace_.names.size() + 2 + i, "step " + std::to_string(trace_.steps[i].step));
    ProtoMessage one;
    one.integer(packet::kSequenceFlags, kNeedsState);
    one.message(packet::kInternedData, data);
    put(one);
  }

  void write_process(int device, const std::string& name) {
    ProtoMessage process;
    process.integer(track::kProcessPid, place(device) / kTracksEach + 1);
    process.text(track::kProcessName, name);
    ProtoMessage descriptor;
    descriptor.integer(track::kUuid, place(device));
    descriptor.message(track::kProcess, process);
    put_descriptor(descriptor);
  }

  void write_track(std::uint64_t parent, std::uint64_t uuid, const std::string& name, bool counts = false) {
    ProtoMessage descriptor;
    descriptor.integer(track::kUuid, uuid);
    descriptor.integer(track::kParent, parent);
    descriptor.text(track::kName, name);
    ProtoMessage counter;
    counter.integer(track::kCounterUnit, track::kCounterBytes);
    if (counts) descriptor.message(track::kCounter, counter);
    put_descriptor(descriptor);
  }

  void put_descriptor(const ProtoMessage& descriptor) {
    ProtoMessage one;
    one.message(packet::kTrackDescriptor, descriptor);
    put(one);
  }

  void write_tracks() {
    for (std::size_t d = 0; d < trace_.devices.size(); ++d) write_process(static_cast<int>(d), trace_.devices[d].name);
    write_process(-1, "host");
    for (std::size_t i = 0; i < trace_.events.size(); ++i) {
      const Event& one = trace_.events[i];
      tracks_[place(one.device) + kFirstLane + one.lane].push_back({one.start, one.end(), one.name, one.kind, &one, static_cast<int>(i)});
    }
    for (const Event& one : trace_.ranges)
      tracks_[place(one.device) + (one.kind == EventKind::step ? kStepsTrack : kActionsTrack)].push_back(
          {one.start, one.end(), one.name, one.kind, &one});
    for (const Launch& one : trace_.launches) {
      const int name = one.name < 0 ? static_cast<int>(trace_.names.size()) : one.name;
      tracks_[place(-1) + kFirstLane + static_cast<std::uint64_t>(one.thread + 1)].push_back({one.start, one.end, name, EventKind::host});
    }
    add_steps();
    for (const auto& [uuid, slices] : tracks_) {
      const std::uint64_t parent = uuid - (uuid - 1) % kTracksEach;
      write_track(parent, uuid, track_name(parent, uuid - parent, slices));
    }
  }

  void add_steps() {
    if (std::ranges::any_of(trace_.ranges, [](const Event& range) { return range.kind == EventKind::step; })) return;
    for (std::size_t i = 0; i < trace_.steps.size(); ++i) {
      const StepWindow& step = trace_.steps[i];
      tracks_[place(-1) + kStepsTrack].push_back({step.start, step.end, static_cast<int>(trace_.names.size() + 1 + i), EventKind::step});
    }
  }

  std::string track_name(std::uint64_t parent, std::uint64_t inside, const std::vector<Slice>& slices) const {
    if (parent == place(-1) && inside != kActionsTrack && inside != kStepsTrack) {
      const auto thread = as_index(inside - kFirstLane);
      return thread >= 1 && thread <= trace_.threads.size() ? trace_.threads[thread - 1] : "thread";
    }
    if (inside == kStepsTrack) return "steps";
    if (inside == kActionsTrack) return "actions";
    const auto lane = static_cast<int>(inside - kFirstLane);
    const int destination = destination_of(*slices.front().event);
    const auto goes_there = [&](const Slice& slice) { return destination_of(*slice.event) == destination; };
    if (destination >= 0 && std::ranges::all_of(slices, goes_there)) return "copy to " + trace_.devices[as_index(destination)].name;
    const bool computes = std::ranges::any_of(slices, [](const Slice& slice) { return is_compute(slice.kind); });
    return lane == kComputeLane && computes ? "compute" : "lane " + std::to_string(lane);
  }

  // Returns the destination of a copy; -1 for other events and for unknown destinations.
  int destination_of(const Event& one) const {
    return one.kind == EventKind::copy && one.detail >= 0 ? trace_.copies[as_index(one.detail)].destination : -1;
  }

  void find_flows() {
    const auto is_copy = [&](int index) { return trace_.events[as_index(index)].kind == EventKind::copy; };
    for (std::size_t i = 0; i < trace_.edges.size(); ++i) {
      const Edge& edge = trace_.edges[i];
      if (edge.producer < 0 || edge.consumer < 0 || edge.kind == EdgeKind::order) continue;
      if (!is_copy(edge.producer) && !is_copy(edge.consumer)) continue;
      flows_[edge.producer].emplace_back(event::kFlow, i + 1);
      flows_[edge.consumer].emplace_back(event::kFlowEnd, i + 1);
    }
  }

  // An end closes the last open slice of its track, so slices of a track must nest.
  void write_slices(std::uint64_t uuid, std::vector<Slice>& slices) {
    std::stable_sort(slices.begin(), slices.end(),
                     [](const Slice& a, const Slice& b) { return a.start != b.start ? a.start < b.start : a.end > b.end; });
    std::vector<Nanoseconds> open;
    for (const Slice& slice : slices) {
      while (!open.empty() && open.back() <= slice.start) {
        write_end(uuid, open.back());
        open.pop_back();
      }
      write_begin(uuid, slice);
      open.push_back(open.empty() ? slice.end : std::min(slice.end, open.back()));
    }
    for (; !open.empty(); open.pop_back()) write_end(uuid, open.back());
  }

  void write_begin(std::uint64_t uuid, const Slice& slice) {
    ProtoMessage body;
    body.integer(event::kType, event::kBegin);
    body.integer(event::kTrack, uuid);
    body.integer(event::kNameId, static_cast<std::uint64_t>(slice.name) + 1);
    body.integer(event::kCategories, static_cast<std::uint64_t>(slice.kind) + 1);
    if (slice.event != nullptr) add_arguments(body, *slice.event);
    if (const auto found = flows_.find(slice.index); slice.index >= 0 && found != flows_.end())
      for (const auto& [field, id] : found->second) body.fixed64(field, id);
    put_event(slice.start, body);
  }

  void write_end(std::uint64_t uuid, Nanoseconds time) {
    ProtoMessage body;
    body.integer(event::kType, event::kEnd);
    body.integer(event::kTrack, uuid);
    put_event(time, body);
  }

  void put_event(Nanoseconds time, const ProtoMessage& body) {
    ProtoMessage one;
    one.integer(packet::kTimestamp, at(time));
    one.integer(packet::kSequenceFlags, kNeedsState);
    one.message(packet::kTrackEvent, body);
    put(one);
  }

  void add_arguments(ProtoMessage& body, const Event& one) const {
    const auto add = [&](const char* name, std::int64_t value) {
      if (value < 0) return;
      ProtoMessage argument;
      argument.text(event::kArgumentName, name);
      argument.integer(event::kArgumentInteger, static_cast<std::uint64_t>(value));
      body.message(event::kArgument, argument);
    };
    if (one.tag >= 0) {
      const Tag& tag = trace_.tags[as_index(one.tag)];
      add("step", tag.step);
      add("stage", tag.stage);
      add("microbatch", tag.microbatch);
      add("layer", tag.layer);
      add("replica", tag.replica);
    }
    if (one.kind == EventKind::copy && one.detail >= 0) add("bytes", trace_.copies[as_index(one.detail)].bytes);
  }

  void write_memory() {
    std::map<int, bool> described;
    for (const MemorySample& sample : trace_.memory) {
      const std::uint64_t uuid = place(sample.device) + kMemoryTrack;
      if (described.try_emplace(sample.device, true).second) write_track(place(sample.device), uuid, "memory", true);
      ProtoMessage body;
      body.integer(event::kType, event::kCounter);
      body.integer(event::kTrack, uuid);
      body.integer(event::kCounterValue, static_cast<std::uint64_t>(sample.current_bytes));
      put_event(sample.time, body);
    }
  }

  const Trace& trace_;
  NewFile file_;
  Nanoseconds shift_;
  std::map<std::uint64_t, std::vector<Slice>> tracks_;
  std::unordered_map<int, std::vector<std::pair<int, std::uint64_t>>> flows_;
};

}  // namespace

std::string perfetto_magic() {
  return in_trace(first_packet());
}

void write_perfetto(const Trace& trace, const std::string& path) {
  PerfettoWriter(trace, path).write();
}

}  // namespace mptune::profiler

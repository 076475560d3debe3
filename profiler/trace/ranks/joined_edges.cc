#include "profiler/trace/ranks/joined_edges.h"

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <utility>

#include "profiler/base/index.h"
#include "profiler/trace/values/trace_builder.h"

namespace mptune::profiler {
namespace {

constexpr std::size_t kMostArrivalEdges = std::size_t{1} << 24;  // 200 MB
constexpr int kMostLanes = 256;

/// The computations of one device, to look up what ran before and after a time.
struct Computations {
  std::vector<int> by_end;              // indices of events
  std::vector<int> by_start;            // indices of events
  std::vector<Nanoseconds> busy_until;  // by place in by_start: latest end of that event and all events before it
};

class MeetingJoiner {
 public:
  MeetingJoiner(JoinedTrace& joined, const std::vector<RankRecording>& recordings, const Meetings& meetings)
      : joined_(joined), trace_(joined.trace), recordings_(recordings), meetings_(meetings), builder_(joined.trace) {
    recorded_ = static_cast<int>(trace_.events.size());
    index_computations();
    for (const Event& event : trace_.events) {
      int& lanes = lanes_[event.device];
      lanes = std::max(lanes, event.lane + 1);
    }
  }

  void join() {
    find_replaced();
    find_arrivals();
    for (const Meeting& meeting : meetings_.all)
      meeting.kind == Communication::Kind::collective ? join_collective(meeting) : join_message(meeting);
    for (const int collective : shortened_) wait_for(collective, collective);
    remove_replaced();
    order_events(trace_);
    erase_backward_edges();
  }

 private:
  const Communication& of(const Member& member) const {
    return recordings_[as_index(member.recording)].communications[as_index(member.communication)];
  }
  int event_of(const Member& member) const { return joined_.event(member.recording, of(member).event); }
  Event& at(int event) { return trace_.events[as_index(event)]; }

  void index_computations() {
    devices_.resize(trace_.devices.size());
    for (int i = 0; i < static_cast<int>(trace_.events.size()); ++i)
      if (computes(at(i))) devices_[as_index(at(i).device)].by_start.push_back(i);
    for (Computations& device : devices_) {
      std::ranges::stable_sort(device.by_start, {}, [&](int i) { return at(i).start; });
      device.by_end = device.by_start;
      std::ranges::stable_sort(device.by_end, {}, [&](int i) { return at(i).end(); });
      Nanoseconds until = Nanoseconds::min();
      for (const int i : device.by_start) device.busy_until.push_back(until = std::max(until, at(i).end()));
    }
  }

  // Returns the last computation of the device that had ended at this time; -1: none.
  int computation_before(int device, Nanoseconds time) {
    const std::vector<int>& ends = devices_[as_index(device)].by_end;
    const auto after = std::partition_point(ends.begin(), ends.end(), [&](int i) { return at(i).end() <= time; });
    return after == ends.begin() ? -1 : *std::prev(after);
  }

  // Returns the first computation that begins at this time or later, if the device computes nothing then; else -1.
  int computation_waiting(int device, Nanoseconds time) {
    const Computations& all = devices_[as_index(device)];
    const auto next = std::partition_point(all.by_start.begin(), all.by_start.end(), [&](int i) { return at(i).start < time; });
    if (next == all.by_start.end()) return -1;
    const bool is_busy = next != all.by_start.begin() && all.busy_until[as_index(next - all.by_start.begin()) - 1] > time;
    return is_busy ? -1 : *next;
  }

  void add_edge(int producer, int consumer, EdgeKind kind) {
    if (producer >= 0 && consumer >= 0 && producer != consumer) trace_.edges.push_back({producer, consumer, kind});
  }

  // Finds kernels of sends and receives that all meet: copies take their place.
  void find_replaced() {
    std::map<int, int> left;  // by event: communications that no copy stands for
    for (std::size_t r = 0; r < recordings_.size(); ++r)
      for (const Communication& one : recordings_[r].communications) ++left[joined_.event(static_cast<int>(r), one.event)];
    for (const Meeting& meeting : meetings_.all)
      if (meeting.kind != Communication::Kind::collective)
        for (const Member& member : meeting.members) --left[event_of(member)];
    for (const auto& [event, count] : left)
      if (count == 0) replaced_.insert(event);
  }

  Nanoseconds last_start(const Meeting& meeting) {
    Nanoseconds last = Nanoseconds::min();
    for (const Member& member : meeting.members) last = std::max(last, started_.at(event_of(member)));
    return last;
  }

  // Returns when the last member came before `left`. A process that a broadcast needs no more leaves it before others have come: it waited
  // only for those that came before.
  Nanoseconds last_start(const Meeting& meeting, Nanoseconds left) {
    Nanoseconds last = Nanoseconds::min();
    for (const Member& member : meeting.members)
      if (const Nanoseconds came = started_.at(event_of(member)); came <= left) last = std::max(last, came);
    return last;
  }

  // Notes when each process came to what it did with others, before any event is shortened.
  void find_arrivals() {
    for (const Meeting& meeting : meetings_.all)
      for (const Member& member : meeting.members) started_[event_of(member)] = at(event_of(member)).start;
  }

  void shorten(int event, Nanoseconds start) {
    const Nanoseconds end = at(event).end();
    at(event).start = std::clamp(start, at(event).start, end);
    at(event).duration = end - at(event).start;
    shortened_.insert(event);
  }

  void join_collective(const Meeting& meeting) {
    const Nanoseconds last = last_start(meeting);
    const std::size_t count = meeting.members.size();
    arrival_edges_ += 2 * count * count;
    const bool all = arrival_edges_ <= kMostArrivalEdges;
    for (const Member& member : meeting.members) {
      const int own = event_of(member);
      const Nanoseconds came = started_.at(own);
      if (!all && came < last) continue;
      const int producer = computation_before(at(own).device, came);
      const int arrival = add_arrival(at(own), came);
      add_edge(producer, arrival, EdgeKind::data);
      for (const Member& other : meeting.members) {
        add_edge(producer, event_of(other), EdgeKind::data);
        if (event_of(other) != own) add_edge(arrival, event_of(other), EdgeKind::data);
      }
    }
    for (const Member& member : meeting.members)
      shorten(event_of(member), meeting.symmetric ? last : last_start(meeting, at(event_of(member)).end()));
  }

  int add_arrival(const Event& collective, Nanoseconds time) {
    const std::uint8_t lane = lane_for(collective.device, -1);
    trace_.events.push_back(
        {.start = time, .name = builder_.name(kArrivalName), .device = collective.device, .lane = lane, .kind = EventKind::sync});
    return static_cast<int>(trace_.events.size()) - 1;
  }

  // Returns a lane beyond those of the recording. If a device has no more lanes, the last one is shared.
  std::uint8_t lane_for(int device, int destination) {
    const auto [place, is_new] = new_lanes_.try_emplace({device, destination}, std::min(lanes_[device], kMostLanes - 1));
    if (is_new) ++lanes_[device];
    return static_cast<std::uint8_t>(place->second);
  }

  void join_message(const Meeting& meeting) {
    const int send = event_of(meeting.members[0]), receive = event_of(meeting.members[1]);
    const int source = at(send).device, destination = at(receive).device;
    const Nanoseconds end = at(receive).end();
    const Nanoseconds start = std::min(last_start(meeting), end);
    const Communication& sent = of(meeting.members[0]);
    trace_.copies.push_back({.bytes = std::max(sent.bytes, of(meeting.members[1]).bytes), .source = source, .destination = destination});
    const int copy = static_cast<int>(trace_.events.size());
    trace_.events.push_back({.start = start,
                             .duration = end - start,
                             .name = builder_.name("send to another rank"),
                             .detail = static_cast<std::int32_t>(trace_.copies.size()) - 1,
                             .device = static_cast<std::int16_t>(source),
                             .lane = lane_for(source, destination),
                             .kind = EventKind::copy});
    add_edge(computation_before(source, started_.at(send)), copy, EdgeKind::data);
    add_edge(computation_before(destination, started_.at(receive)), copy, EdgeKind::order);
    wait_for(copy, receive);
  }

  // Adds the edge to the computation that had to wait for `communication`, which reached the device of `kernel`.
  void wait_for(int communication, int kernel) {
    add_edge(communication, computation_waiting(at(kernel).device, at(communication).end()), EdgeKind::data);
  }

  // Puts the new events first: among events that start at the same time, an arrival comes before its collective.
  void remove_replaced() {
    const int all = static_cast<int>(trace_.events.size());
    std::vector<int> place(trace_.events.size(), -1);
    std::vector<Event> kept;
    for (int n = 0; n < all; ++n) {
      const int i = (n + recorded_) % all;
      if (replaced_.contains(i)) continue;
      place[as_index(i)] = static_cast<int>(kept.size());
      kept.push_back(at(i));
    }
    trace_.events = std::move(kept);
    // Without its kernel, a call would look like one that blocked its thread.
    std::erase_if(trace_.launches, [&](const Launch& launch) { return replaced_.contains(launch.event); });
    for (Launch& launch : trace_.launches)
      if (launch.event >= 0) launch.event = place[as_index(launch.event)];
    for (Edge& edge : trace_.edges) edge = {place[as_index(edge.producer)], place[as_index(edge.consumer)], edge.kind};
    std::erase_if(trace_.edges, [](const Edge& edge) { return edge.producer < 0 || edge.consumer < 0; });
  }

  // Removes edges that lead back: with clocks that are a little off, a process may reach a collective after others have left it.
  void erase_backward_edges() {
    std::erase_if(trace_.edges, [](const Edge& edge) { return edge.producer >= edge.consumer; });
  }

  JoinedTrace& joined_;
  Trace& trace_;
  const std::vector<RankRecording>& recordings_;
  const Meetings& meetings_;
  TraceBuilder builder_;
  std::vector<Computations> devices_;
  std::map<int, int> lanes_;  // by device: first lane that no event has
  std::map<std::pair<int, int>, int> new_lanes_;
  std::map<int, Nanoseconds> started_;  // by event: as recorded
  std::set<int> replaced_;
  std::set<int> shortened_;
  int recorded_ = 0;  // events before new ones
  std::size_t arrival_edges_ = 0;
};

}  // namespace

bool computes(const Event& event) {
  return is_compute(event.kind) && event.kind != EventKind::collective;
}

void join_meetings(JoinedTrace& joined, const std::vector<RankRecording>& recordings, const Meetings& meetings) {
  MeetingJoiner(joined, recordings, meetings).join();
}

}  // namespace mptune::profiler

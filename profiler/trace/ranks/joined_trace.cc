#include "profiler/trace/ranks/joined_trace.h"

#include <algorithm>
#include <map>
#include <string>

#include "profiler/base/error.h"
#include "profiler/base/index.h"
#include "profiler/trace/values/trace_builder.h"

namespace mptune::profiler {
namespace {

constexpr std::size_t kMostJoinedDevices = 4096;

void add_losses(TraceQuality& sum, const TraceQuality& quality) {
  sum.dropped += quality.dropped;
  sum.untagged += quality.untagged;
  sum.out_of_window += quality.out_of_window;
  sum.zero_stamped += quality.zero_stamped;
  sum.unmatched += quality.unmatched;
  sum.cut_off += quality.cut_off;
  sum.ambiguous += quality.ambiguous;
  sum.unmatched_ns += quality.unmatched_ns;
}

class Joiner {
 public:
  Joiner(const std::vector<RankRecording>& recordings, const std::vector<AlignedClock>& clocks, JoinedTags tags)
      : recordings_(recordings), clocks_(clocks), tags_(tags), builder_(joined_.trace) {}

  JoinedTrace join() && {
    for (std::size_t r = 0; r < recordings_.size(); ++r) add(recordings_[r], clocks_[r].clock);
    join_steps();
    begin_at_zero();
    return std::move(joined_);
  }

 private:
  void add(const RankRecording& recording, const Clock& clock) {
    const Trace& from = recording.trace;
    const std::size_t device = trace_.devices.size(), kernel = trace_.kernels.size(), copy = trace_.copies.size();
    if (device + from.devices.size() > kMostJoinedDevices)
      throw Error("the recordings have more than 4096 devices together", recording.file, "give the recordings of fewer ranks");
    joined_.first_event.push_back(static_cast<int>(trace_.events.size()));
    for (TraceDevice one : from.devices) {
      one.name = std::to_string(recording.rank) + "@" + one.name;
      trace_.devices.push_back(one);
      joined_.rank_of.push_back(recording.rank);
    }
    trace_.kernels.insert(trace_.kernels.end(), from.kernels.begin(), from.kernels.end());
    for (Copy one : from.copies) {
      for (int* end : {&one.source, &one.destination})
        if (*end >= 0) *end += static_cast<int>(device);
      trace_.copies.push_back(one);
    }
    const auto moved = [&](Event event) {
      const Nanoseconds end = clock.common(event.end());
      event.start = clock.common(event.start);
      event.duration = end - event.start;
      event.name = builder_.name(from.names[as_index(event.name)]);
      event.tag = event.tag < 0 || tags_ == JoinedTags::none ? -1 : builder_.tag(from.tags[as_index(event.tag)]);
      if (event.device >= 0) event.device = static_cast<std::int16_t>(event.device + static_cast<int>(device));
      if (event.detail >= 0) event.detail += static_cast<int>(event.kind == EventKind::copy ? copy : kernel);
      return event;
    };
    for (const Event& event : from.events) trace_.events.push_back(moved(event));
    for (const Event& range : from.ranges) trace_.ranges.push_back(moved(range));
    add_launches(recording, clock);
    add_samples(from, clock, static_cast<int>(device));
    add_losses(trace_.quality, from.quality);
    for (const ImplausibleTime& odd : from.implausible)
      if (trace_.implausible.size() < kMostImplausible) trace_.implausible.push_back(odd);
  }

  void add_launches(const RankRecording& recording, const Clock& clock) {
    const Trace& from = recording.trace;
    std::vector<int> thread;
    for (const std::string& name : from.threads) thread.push_back(builder_.thread(thread_of_rank(recording.rank, name)));
    for (Launch launch : from.launches) {
      launch.start = clock.common(launch.start);
      launch.end = clock.common(launch.end);
      if (launch.event >= 0) launch.event += joined_.first_event.back();
      if (launch.thread >= 0) launch.thread = thread[as_index(launch.thread)];
      if (launch.name >= 0) launch.name = builder_.name(from.names[as_index(launch.name)]);
      launch.correlation = static_cast<std::int64_t>(trace_.launches.size()) + 1;
      trace_.launches.push_back(launch);
    }
  }

  void add_samples(const Trace& from, const Clock& clock, int device) {
    for (MemorySample sample : from.memory) {
      sample.time = clock.common(sample.time);
      if (sample.device >= 0) sample.device += device;
      trace_.memory.push_back(sample);
    }
    for (const Edge& edge : from.edges)
      trace_.edges.push_back({edge.producer + joined_.first_event.back(), edge.consumer + joined_.first_event.back(), edge.kind});
  }

  void join_steps() {
    std::map<int, std::pair<std::size_t, StepWindow>> all;
    for (std::size_t r = 0; r < recordings_.size(); ++r) {
      for (const StepWindow& own : recordings_[r].trace.steps) {
        const StepWindow step{own.step, clocks_[r].clock.common(own.start), clocks_[r].clock.common(own.end)};
        auto& [count, window] = all.try_emplace(own.step, 0, step).first->second;
        ++count;
        window.start = std::min(window.start, step.start);
        window.end = std::max(window.end, step.end);
      }
    }
    for (const auto& [number, counted] : all)
      if (counted.first == recordings_.size()) trace_.steps.push_back(counted.second);
  }

  template <class Visit>
  void for_all_times(Visit visit) {
    for (Event& event : trace_.events) visit(event.start);
    for (Event& range : trace_.ranges) visit(range.start);
    for (Launch& launch : trace_.launches) {
      visit(launch.start);
      visit(launch.end);
    }
    for (MemorySample& sample : trace_.memory) visit(sample.time);
    for (StepWindow& step : trace_.steps) {
      visit(step.start);
      visit(step.end);
    }
  }

  void begin_at_zero() {
    Nanoseconds first = Nanoseconds::max();
    for_all_times([&](Nanoseconds& time) { first = std::min(first, time); });
    if (first == Nanoseconds::max()) return;
    for_all_times([&](Nanoseconds& time) { time -= first; });
    joined_.started = first;
    const std::int64_t started = recordings_.front().trace.started_utc_ns;
    if (started > 0) trace_.started_utc_ns = started + first.count();
  }

  const std::vector<RankRecording>& recordings_;
  const std::vector<AlignedClock>& clocks_;
  const JoinedTags tags_;
  JoinedTrace joined_;
  Trace& trace_ = joined_.trace;
  TraceBuilder builder_;
};

}  // namespace

JoinedTrace join_traces(const std::vector<RankRecording>& recordings, const std::vector<AlignedClock>& clocks, JoinedTags tags) {
  return Joiner(recordings, clocks, tags).join();
}

}  // namespace mptune::profiler

#include "profiler/trace/analyze/replay.h"

#include <algorithm>
#include <stdexcept>
#include <vector>

#include "profiler/base/index.h"

namespace mptune::profiler {
namespace {

// Consumers of every event, as one array of edges sorted by producer.
struct Consumers {
  std::vector<std::size_t> first;  // of producer p: [first[p], first[p + 1])
  std::vector<std::size_t> consumer;
};

Consumers consumers_of(std::span<const Edge> edges, std::size_t count) {
  Consumers result;
  result.first.assign(count + 1, 0);
  for (const Edge& edge : edges) ++result.first[checked_event(edge.producer, count) + 1];
  for (std::size_t i = 0; i < count; ++i) result.first[i + 1] += result.first[i];
  result.consumer.resize(edges.size());
  std::vector<std::size_t> next(result.first.begin(), result.first.end() - 1);
  for (const Edge& edge : edges) result.consumer[next[as_index(edge.producer)]++] = checked_event(edge.consumer, count);
  return result;
}

Trace without_times(const Trace& trace) {
  Trace result;
  result.devices = trace.devices;
  result.names = trace.names;
  result.threads = trace.threads;
  result.tags = trace.tags;
  result.events = trace.events;
  result.copies = trace.copies;
  result.edges = trace.edges;
  result.quality = trace.quality;
  result.simulated = true;
  return result;
}

}  // namespace

std::size_t checked_event(int event, std::size_t count) {
  if (event < 0 || as_index(event) >= count) throw std::invalid_argument("an edge of the trace refers to an event that does not exist");
  return as_index(event);
}

std::vector<Nanoseconds> replay_starts(std::span<const Edge> edges, std::span<const Nanoseconds> durations) {
  const std::size_t count = durations.size();
  const Consumers consumers = consumers_of(edges, count);
  std::vector<std::size_t> missing(count, 0);
  for (const std::size_t consumer : consumers.consumer) ++missing[consumer];
  std::vector<Nanoseconds> start(count, Nanoseconds{0});
  std::vector<std::size_t> ready;
  ready.reserve(count);
  for (std::size_t i = 0; i < count; ++i)
    if (missing[i] == 0) ready.push_back(i);
  for (std::size_t done = 0; done < ready.size(); ++done) {
    const Nanoseconds end = start[ready[done]] + durations[ready[done]];
    for (std::size_t e = consumers.first[ready[done]]; e < consumers.first[ready[done] + 1]; ++e) {
      const std::size_t consumer = consumers.consumer[e];
      start[consumer] = std::max(start[consumer], end);
      if (--missing[consumer] == 0) ready.push_back(consumer);
    }
  }
  if (ready.size() != count) throw std::invalid_argument("the edges of the trace form a cycle");
  return start;
}

Trace replay(const Trace& trace, std::span<const Nanoseconds> durations) {
  if (durations.size() != trace.events.size()) throw std::invalid_argument("replay needs one duration for every event");
  const std::vector<Nanoseconds> start = replay_starts(trace.edges, durations);
  Trace result = without_times(trace);
  for (std::size_t i = 0; i < start.size(); ++i) {
    result.events[i].start = start[i];
    result.events[i].duration = durations[i];
  }
  return result;
}

}  // namespace mptune::profiler

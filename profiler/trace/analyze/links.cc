#include "profiler/trace/analyze/links.h"

#include <algorithm>
#include <map>

#include "profiler/base/index.h"
#include "profiler/trace/analyze/busy.h"

namespace mptune::profiler {

std::vector<LinkUse> link_use(const Trace& trace) {
  struct Running {
    LinkUse use;
    std::vector<TimeInterval> times;
  };
  std::map<std::pair<int, int>, Running> links;
  for (const Event& event : trace.events) {
    if (event.kind != EventKind::copy || event.detail < 0) continue;
    const Copy& copy = trace.copies.at(as_index(event.detail));
    Running& link = links[{copy.source, copy.destination}];
    link.use.source = copy.source;
    link.use.destination = copy.destination;
    ++link.use.copies;
    link.use.bytes += copy.bytes;
    link.times.push_back({event.start, event.end()});
  }
  const std::vector<Busy> busy = busy_times(trace);
  std::vector<LinkUse> result;
  for (auto& [ends, link] : links) {
    const std::vector<TimeInterval> times = merge(std::move(link.times));
    link.use.time = total(times);
    link.use.exposed = link.use.time;
    const int destination = ends.second;
    const bool to_device = destination >= 0 && as_index(destination) < busy.size();
    if (to_device) link.use.exposed -= total(intersect(times, busy[as_index(destination)].compute));
    result.push_back(link.use);
  }
  return result;
}

Nanoseconds worst_violation(const Trace& trace) {
  Nanoseconds worst{0};
  for (const Edge& edge : trace.edges) {
    if (edge.kind == EdgeKind::order) continue;
    const Event& producer = trace.events.at(as_index(edge.producer));
    const Event& consumer = trace.events.at(as_index(edge.consumer));
    // A wait may begin before its producer ends.
    if (consumer.kind != EventKind::sync) worst = std::max(worst, producer.end() - consumer.start);
  }
  for (const Launch& launch : trace.launches)
    if (launch.event >= 0) worst = std::max(worst, launch.start - trace.events.at(as_index(launch.event)).start);
  return worst;
}

}  // namespace mptune::profiler

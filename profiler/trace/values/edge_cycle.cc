#include "profiler/trace/values/edge_cycle.h"

#include <algorithm>
#include <utility>

#include "profiler/base/index.h"

namespace mptune::profiler {

bool form_a_cycle(const std::vector<Edge>& edges, std::size_t events) {
  // Edges that all lead forward cannot form a cycle. Most recorders and readers order events by start, so this is the usual case.
  if (std::all_of(edges.begin(), edges.end(), [](const Edge& edge) { return edge.producer < edge.consumer; })) return false;
  std::vector<int> next(edges.size(), -1);  // next edge of the same producer
  std::vector<int> first(events, -1);
  std::vector<int> missing(events, 0);
  for (std::size_t i = 0; i < edges.size(); ++i) {
    next[i] = std::exchange(first[as_index(edges[i].producer)], static_cast<int>(i));
    ++missing[as_index(edges[i].consumer)];
  }
  std::vector<std::size_t> ready;
  for (std::size_t i = 0; i < events; ++i)
    if (missing[i] == 0) ready.push_back(i);
  for (std::size_t done = 0; done < ready.size(); ++done) {
    for (int edge = first[ready[done]]; edge >= 0; edge = next[as_index(edge)]) {
      const auto consumer = as_index(edges[as_index(edge)].consumer);
      if (--missing[consumer] == 0) ready.push_back(consumer);
    }
  }
  return ready.size() != events;
}

}  // namespace mptune::profiler

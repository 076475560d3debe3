#include "profiler/trace/analyze/critical_path.h"

#include <algorithm>

#include "profiler/base/index.h"

namespace mptune::profiler {
namespace {

// Returns the producer that ended last, per piece of work; -1 if it has none.
std::vector<int> last_producers(const StepWork& step) {
  std::vector<int> last(step.works.size(), -1);
  const auto end_of = [&](int work) { return step.works[as_index(work)].end; };
  for (const Edge& edge : step.edges) {
    int& found = last[as_index(edge.consumer)];
    if (found < 0 || end_of(edge.producer) > end_of(found)) found = edge.producer;
  }
  return last;
}

int last_to_end(const StepWork& step) {
  const auto last = std::max_element(step.works.begin(), step.works.end(), [](const Work& a, const Work& b) { return a.end < b.end; });
  return static_cast<int>(last - step.works.begin());
}

}  // namespace

std::vector<CriticalPart> critical_path(const StepWork& step) {
  if (step.works.empty()) return {};
  const std::vector<int> producer = last_producers(step);
  std::vector<CriticalPart> path;
  Nanoseconds until = step.window.end;  // start of the path found so far
  const auto take = [&](CriticalPart::Kind kind, int work, Nanoseconds from) {
    const Nanoseconds start = std::clamp(from, step.window.start, until);
    if (start < until) path.push_back({kind, work, until - start});
    until = start;
  };
  int behind = -1;
  std::size_t steps = 0;
  for (int work = last_to_end(step); work >= 0 && steps <= step.works.size(); work = producer[as_index(work)], ++steps) {
    const Work& now = step.works[as_index(work)];
    take(CriticalPart::Kind::gap, behind, now.end);
    take(now.kind == EventKind::copy ? CriticalPart::Kind::copy : CriticalPart::Kind::work, work, now.start);
    behind = work;
  }
  take(CriticalPart::Kind::gap, behind, step.window.start);
  std::reverse(path.begin(), path.end());
  return path;
}

}  // namespace mptune::profiler

#include "profiler/trace/values/process_overlap.h"

#include <algorithm>
#include <map>
#include <utility>

namespace mptune::profiler {

std::int64_t overlapping_between_processes(const std::vector<ProcessWork>& works) {
  std::map<std::int64_t, std::vector<TimeInterval>> busy;
  for (const ProcessWork& work : works) busy[work.process].push_back(work.time);
  if (busy.size() < 2) return 0;
  for (auto& [process, times] : busy) times = merge(std::move(times));
  return std::ranges::count_if(works, [&](const ProcessWork& work) {
    return std::ranges::any_of(busy, [&](const auto& other) {
      if (other.first == work.process) return false;
      const auto next = std::ranges::partition_point(other.second, [&](const TimeInterval& t) { return t.end <= work.time.start; });
      return next != other.second.end() && next->start < work.time.end;
    });
  });
}

}  // namespace mptune::profiler

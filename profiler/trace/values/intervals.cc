#include "profiler/trace/values/intervals.h"

#include <algorithm>

namespace mptune::profiler {

std::vector<TimeInterval> merge(std::vector<TimeInterval> intervals) {
  std::erase_if(intervals, [](const TimeInterval& i) { return i.end <= i.start; });
  const auto by_start = [](const TimeInterval& a, const TimeInterval& b) { return a.start < b.start; };
  if (!std::is_sorted(intervals.begin(), intervals.end(), by_start)) std::sort(intervals.begin(), intervals.end(), by_start);
  std::size_t merged = 0;
  for (const TimeInterval interval : intervals)
    if (merged == 0 || intervals[merged - 1].end < interval.start)
      intervals[merged++] = interval;
    else
      intervals[merged - 1].end = std::max(intervals[merged - 1].end, interval.end);
  intervals.resize(merged);
  return intervals;
}

TimeInterval clip(TimeInterval interval, TimeInterval window) {
  const Nanoseconds start = std::max(interval.start, window.start);
  return {start, std::max(start, std::min(interval.end, window.end))};
}

Nanoseconds total(const std::vector<TimeInterval>& intervals) {
  Nanoseconds sum{0};
  for (const TimeInterval& interval : intervals) sum += interval.end - interval.start;
  return sum;
}

std::vector<TimeInterval> intersect(const std::vector<TimeInterval>& a, const std::vector<TimeInterval>& b) {
  std::vector<TimeInterval> common;
  for (std::size_t i = 0, j = 0; i < a.size() && j < b.size();) {
    const TimeInterval part = clip(a[i], b[j]);
    if (part.start < part.end) common.push_back(part);
    if (a[i].end < b[j].end)
      ++i;
    else
      ++j;
  }
  return common;
}

}  // namespace mptune::profiler

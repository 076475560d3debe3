#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "profiler/base/index.h"
#include "profiler/trace/values/trace.h"

namespace mptune::testing {

/// Nanoseconds of one device of a recording: time covered by kernels, by all its work, by copies, and from first to last.
struct Numbers {
  std::int64_t compute_union = 0;
  std::int64_t compute_window = 0;
  std::int64_t busy_union = 0;
  std::int64_t busy_span = 0;
  std::int64_t copy_union = 0;
  bool operator==(const Numbers&) const = default;
};

using Span = std::pair<std::int64_t, std::int64_t>;

// Time with at least one span open, from the spans' sorted ends: nothing of the program's interval arithmetic.
inline std::int64_t covered(const std::vector<Span>& spans) {
  std::vector<Span> changes;
  for (const auto& [start, end] : spans) changes.insert(changes.end(), {{start, 1}, {end, -1}});
  std::sort(changes.begin(), changes.end());
  std::int64_t sum = 0;
  std::int64_t open = 0;
  for (std::size_t i = 0; i < changes.size(); ++i) {
    if (open > 0) sum += changes[i].first - changes[i - 1].first;
    open += changes[i].second;
  }
  return sum;
}

inline std::int64_t extent(const std::vector<Span>& spans) {
  std::int64_t first = spans.at(0).first;
  std::int64_t last = first;
  for (const auto& [start, end] : spans) {
    first = std::min(first, start);
    last = std::max(last, end);
  }
  return last - first;
}

inline Numbers numbers_of(const Trace& trace, int device) {
  std::vector<Span> kernels;
  std::vector<Span> busy;
  std::vector<Span> copies;
  for (const Event& event : trace.events) {
    if (event.device != device || event.kind == EventKind::sync || event.kind == EventKind::profiler) continue;
    const Span span{event.start.count(), event.end().count()};
    busy.push_back(span);
    if (event.kind == EventKind::copy) copies.push_back(span);
    if (is_compute(event.kind) && event.kind != EventKind::memset) kernels.push_back(span);
  }
  return {covered(kernels), extent(kernels), covered(busy), extent(busy), covered(copies)};
}

inline const std::string& name_of(const Trace& trace, const Event& event) {
  return trace.names.at(as_index(event.name));
}

inline void expect_no_overlap(const Trace& trace) {
  std::map<std::pair<int, int>, Nanoseconds> free;
  for (const Event& event : trace.events) {
    const auto [lane, is_first] = free.try_emplace({event.device, event.lane}, event.end());
    EXPECT_TRUE(is_first || event.start >= lane->second) << name_of(trace, event);
    lane->second = event.end();
  }
}

}  // namespace mptune::testing

#pragma once

#include <gtest/gtest.h>

#include <map>
#include <ostream>
#include <set>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "profiler/base/index.h"
#include "tests/profiler/trace/collect/cupti/hand_buffer.h"

namespace mptune::testing {

// gtest's way to print a value: found beside its type.
inline void PrintTo(const TraceQuality& quality, std::ostream* out) {
  *out << "dropped " << quality.dropped << ", untagged " << quality.untagged << ", out of window " << quality.out_of_window
       << ", zero-stamped " << quality.zero_stamped << ", unmatched " << quality.unmatched;
}

}  // namespace mptune::testing

namespace mptune::testing {

inline const std::string& name_of(const Trace& trace, const Event& event) {
  return trace.names.at(as_index(event.name));
}

inline std::vector<std::string> names_of(const Trace& trace, const std::vector<Event>& events) {
  std::vector<std::string> names;
  for (const Event& event : events) names.push_back(name_of(trace, event));
  return names;
}

inline const Event& event_named(const Trace& trace, const std::string& name) {
  for (const Event& event : trace.events)
    if (name_of(trace, event) == name) return event;
  throw std::out_of_range(name);
}

inline std::set<std::pair<std::string, std::string>> edges_of(const Trace& trace, EdgeKind kind) {
  std::set<std::pair<std::string, std::string>> edges;
  for (const Edge& edge : trace.edges)
    if (edge.kind == kind)
      edges.emplace(name_of(trace, trace.events.at(as_index(edge.producer))), name_of(trace, trace.events.at(as_index(edge.consumer))));
  return edges;
}

/// Properties that every reader of a trace relies on.
inline void expect_sound(const Trace& trace) {
  std::map<std::pair<int, int>, Nanoseconds> busy_until;
  for (std::size_t i = 0; i < trace.events.size(); ++i) {
    const Event& event = trace.events[i];
    if (i > 0) {
      EXPECT_LE(trace.events[i - 1].start, event.start);
    }
    ASSERT_LT(as_index(event.device), trace.devices.size());
    ASSERT_LT(as_index(event.name), trace.names.size());
    EXPECT_GE(event.duration.count(), 0);
    const auto [until, first] = busy_until.try_emplace({event.device, event.lane}, event.end());
    if (!first) {
      EXPECT_LE(until->second, event.start) << name_of(trace, event) << " on lane " << int{event.lane};
    }
    until->second = event.end();
    if (event.kind == EventKind::copy) {
      ASSERT_LT(as_index(event.detail), trace.copies.size());
    }
    if (event.kind == EventKind::kernel) {
      ASSERT_LT(as_index(event.detail), trace.kernels.size());
    }
  }
  std::set<std::int64_t> correlations;
  for (const Launch& launch : trace.launches) {
    EXPECT_GT(launch.correlation, 0);
    EXPECT_TRUE(correlations.insert(launch.correlation).second);
    ASSERT_LT(launch.event, static_cast<int>(trace.events.size()));
    ASSERT_LT(as_index(launch.thread), trace.threads.size());
    if (launch.event >= 0 && trace.quality.unmatched == 0) {
      EXPECT_LE(launch.start, trace.events[as_index(launch.event)].start + std::chrono::microseconds(50));
    }
  }
}

inline Trace trace_of(HandBuffer& buffer, const profiler::CuptiContext& context = {}) {
  Trace trace = profiler::make_trace(buffer.decode(), context);
  expect_sound(trace);
  return trace;
}

}  // namespace mptune::testing

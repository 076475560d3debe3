#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

#include "planner/plan/plan.h"
#include "profiler/base/index.h"
#include "profiler/trace/values/trace.h"

/// What every simulated trace keeps, whatever its plan.
namespace mptune::testing {

inline void expect_lanes_free_of_overlap(const Trace& trace) {
  std::map<std::pair<int, int>, Nanoseconds> end;
  for (const Event& event : trace.events) {
    Nanoseconds& free = end[{event.device, event.lane}];
    EXPECT_GE(event.start, free);
    free = event.end();
  }
}

inline void expect_edges_kept(const Trace& trace) {
  for (const Edge& edge : trace.edges) EXPECT_LE(trace.events[as_index(edge.producer)].end(), trace.events[as_index(edge.consumer)].start);
}

// Every layer runs forward and backward once per micro-batch, on the device of its stage, tagged.
inline void expect_all_layers(const Plan& plan, const Trace& trace) {
  std::map<std::tuple<EventKind, int, int>, int> seen;
  for (const Event& event : trace.events) {
    const Tag& tag = trace.tags.at(as_index(event.tag));
    EXPECT_EQ(tag.step, 0);
    const Stage& stage = plan.stages.at(as_index(tag.stage));
    EXPECT_EQ(stage.devices.at(as_index(tag.replica)), event.device);
    const auto work = {EventKind::forward, EventKind::backward, EventKind::backward_input, EventKind::backward_weight};
    if (std::ranges::count(work, event.kind) == 0) continue;
    EXPECT_EQ(device_of(stage, tag.microbatch), event.device);
    EXPECT_EQ(trace.names.at(as_index(event.name)), "layer" + std::to_string(tag.layer));
    ++seen[{event.kind, tag.microbatch, tag.layer}];
  }
  std::size_t expected = 0;
  for (const std::vector<Action>& row : plan.actions) {
    for (const Action& action : row) {
      const Stage& stage = plan.stages[as_index(action.stage)];
      expected += as_index(stage.last_layer - stage.first_layer);
    }
  }
  EXPECT_EQ(seen.size(), expected);
  for (const auto& [key, count] : seen) EXPECT_EQ(count, 1);
}

// Every recomputed layer runs again once per micro-batch: before its backward, and behind the backward of the layers that are kept behind
// it.
inline void expect_recomputation(const Plan& plan, const Trace& trace) {
  std::map<std::tuple<int, int>, Event> again;  // by micro-batch and layer
  std::map<std::tuple<int, int>, Event> back;
  for (const Event& event : trace.events) {
    const Tag& tag = trace.tags.at(as_index(event.tag));
    if (event.kind == EventKind::recompute) {
      EXPECT_TRUE(again.emplace(std::tuple(tag.microbatch, tag.layer), event).second);
    }
    if (event.kind == EventKind::backward || event.kind == EventKind::backward_input) back[{tag.microbatch, tag.layer}] = event;
  }
  std::size_t expected = 0;
  for (const Stage& stage : plan.stages) {
    for (int i = 0; i < plan.num_microbatches(); ++i) {
      if (!recomputes(stage.recompute, i)) continue;
      int kept = -1;  // nearest kept layer behind
      for (int layer = stage.last_layer - 1; layer >= stage.first_layer; --layer) {
        const bool listed = stage.recompute.mode == Recompute::Mode::all || std::ranges::count(stage.recompute.layers, layer) > 0;
        if (!listed) kept = layer;
        if (!listed) continue;
        ++expected;
        const auto found = again.find({i, layer});
        ASSERT_NE(found, again.end()) << layer;
        EXPECT_LE(found->second.end(), back.at({i, layer}).start);
        if (kept >= 0) {
          EXPECT_GE(found->second.start, back.at({i, kept}).end());
        }
      }
    }
  }
  EXPECT_EQ(again.size(), expected);
}

inline void expect_copies(const Plan& plan, const Trace& trace) {
  std::size_t crossings = 0;
  for (std::size_t s = 1; s < plan.stages.size(); ++s)
    for (int i = 0; i < plan.num_microbatches(); ++i) crossings += device_of(plan.stages[s - 1], i) != device_of(plan.stages[s], i) ? 2 : 0;
  std::set<int> used;
  for (const Event& event : trace.events) {
    if (event.kind != EventKind::copy) continue;
    const Copy& copy = trace.copies.at(as_index(event.detail));
    EXPECT_EQ(copy.source, event.device);
    EXPECT_EQ(copy_lane(copy.destination), event.lane);
    EXPECT_GT(copy.bytes, 0);
    used.insert(event.detail);
  }
  EXPECT_EQ(used.size(), crossings);
  EXPECT_EQ(trace.copies.size(), crossings);
}

inline void expect_ranges(const Plan& plan, const Trace& trace) {
  std::size_t actions = 0;
  for (const auto& row : plan.actions) actions += row.size();
  std::size_t found = 0;
  for (const Event& range : trace.ranges) {
    found += range.kind == EventKind::action ? 1u : 0u;
    EXPECT_GE(range.start, trace.steps[0].start);
    EXPECT_LE(range.end(), trace.steps[0].end);
  }
  EXPECT_EQ(found, actions);
  EXPECT_EQ(trace.ranges.size(), actions + plan.devices.size());
}

}  // namespace mptune::testing

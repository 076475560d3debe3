#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

#include "mptune/planner/plan.h"
#include "mptune/profiler/trace/trace.h"

/// What every simulated trace keeps, whatever its plan.
namespace mptune::test {

inline void expect_lanes_free_of_overlap(const Trace& trace) {
  std::map<std::pair<int, int>, Nanoseconds> end;
  for (const Event& event : trace.events) {
    Nanoseconds& free = end[{event.device, event.lane}];
    EXPECT_GE(event.start, free);
    free = event.end();
  }
}

inline void expect_edges_kept(const Trace& trace) {
  for (const Edge& edge : trace.edges) {
    EXPECT_LE(trace.events[static_cast<std::size_t>(edge.producer)].end(), trace.events[static_cast<std::size_t>(edge.consumer)].start);
  }
}

// Every layer runs forward and backward once per micro-batch, on the device of its stage, tagged.
inline void expect_all_layers(const Plan& plan, const Trace& trace) {
  std::map<std::tuple<What, int, int>, int> seen;
  for (const Event& event : trace.events) {
    const Tag& tag = trace.tags.at(static_cast<std::size_t>(event.tag));
    EXPECT_EQ(tag.step, 0);
    const Stage& stage = plan.stages.at(static_cast<std::size_t>(tag.stage));
    EXPECT_EQ(stage.devices.at(static_cast<std::size_t>(tag.replica)), event.device);
    const auto work = {What::forward, What::backward, What::backward_input, What::backward_weight};
    if (std::ranges::count(work, event.what) == 0) continue;
    EXPECT_EQ(device_of(stage, tag.microbatch), event.device);
    EXPECT_EQ(trace.names.at(static_cast<std::size_t>(event.name)), "layer" + std::to_string(tag.layer));
    ++seen[{event.what, tag.microbatch, tag.layer}];
  }
  std::size_t expected = 0;
  for (const std::vector<Action>& row : plan.actions) {
    for (const Action& action : row) {
      const Stage& stage = plan.stages[static_cast<std::size_t>(action.stage)];
      expected += static_cast<std::size_t>(stage.last_layer - stage.first_layer);
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
    const Tag& tag = trace.tags.at(static_cast<std::size_t>(event.tag));
    if (event.what == What::recompute) {
      EXPECT_TRUE(again.emplace(std::tuple(tag.microbatch, tag.layer), event).second);
    }
    if (event.what == What::backward || event.what == What::backward_input) back[{tag.microbatch, tag.layer}] = event;
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
  for (std::size_t s = 1; s < plan.stages.size(); ++s) {
    for (int i = 0; i < plan.num_microbatches(); ++i) crossings += device_of(plan.stages[s - 1], i) != device_of(plan.stages[s], i) ? 2 : 0;
  }
  std::set<int> used;
  for (const Event& event : trace.events) {
    if (event.what != What::copy) continue;
    const Copy& copy = trace.copies.at(static_cast<std::size_t>(event.detail));
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
    found += range.what == What::action ? 1u : 0u;
    EXPECT_GE(range.start, trace.steps[0].start);
    EXPECT_LE(range.end(), trace.steps[0].end);
  }
  EXPECT_EQ(found, actions);
  EXPECT_EQ(trace.ranges.size(), actions + plan.devices.size());
}

}  // namespace mptune::test

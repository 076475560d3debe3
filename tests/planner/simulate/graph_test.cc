// Steps of models whose layers are a graph, against rules written down once more: a stage waits for the stages that compute what it reads.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <random>
#include <set>
#include <tuple>
#include <utility>
#include <vector>

#include "planner/simulate/simulate.h"
#include "profiler/base/index.h"
#include "profiler/trace/values/profile_tensors.h"
#include "tests/planner/graphs.h"
#include "tests/planner/random_plans.h"

namespace mptune::planner {
namespace {

std::int64_t ns(double seconds) {
  return std::llround(seconds * 1e9);
}

/// Every action as soon as its device is free and its inputs are there; copies of one direction between two devices one after another.
class SlowStep {
 public:
  SlowStep(const Plan& plan, const Profile& profile) : plan_(plan), profile_(profile), cost_(profile), free_(plan.devices.size(), 0) {
    std::vector<std::size_t> next(plan.devices.size(), 0);
    for (bool progress = true; progress;) {
      progress = false;
      for (std::size_t d = 0; d < next.size(); ++d)
        while (next[d] < plan.actions[d].size() && run(static_cast<int>(d), plan.actions[d][next[d]])) {
          ++next[d];
          progress = true;
        }
    }
  }
  [[nodiscard]] std::int64_t end_ns() const { return std::ranges::max(free_); }

 private:
  [[nodiscard]] int stage_of(int layer) const {
    int s = 0;
    while (plan_.stages[as_index(s)].last_layer <= layer) ++s;
    return s;
  }

  // Operators of the stage that read the tensor of this maker and size; 2: more than one.
  [[nodiscard]] int readers_in(int stage, const LayerEdge& tensor) const {
    int readers = 0;
    for (const LayerEdge& edge : profile_.edges)
      if (edge.from == tensor.from && edge.bytes_per_sample == tensor.bytes_per_sample && stage_of(edge.to) == stage)
        readers += edge.several_readers ? 2 : 1;
    return readers;
  }

  // Whoever has several operators that read it hands a tensor on.
  [[nodiscard]] int sender_of(int stage, const LayerEdge& tensor) const {
    int sender = stage - 1;
    while (sender > stage_of(tensor.from) && readers_in(sender, tensor) < 2) --sender;
    return sender;
  }

  // A stage sends back a gradient of its own, or one of those that it handed the tensor on to.
  [[nodiscard]] bool has_gradient(int stage, const LayerEdge& tensor) const {
    return std::ranges::any_of(profile_.edges, [&](const LayerEdge& edge) {
      if (edge.from != tensor.from || edge.bytes_per_sample != tensor.bytes_per_sample || !edge.needs_gradient) return false;
      int reader = stage_of(edge.to);
      while (reader > stage && reader > stage_of(tensor.from)) reader = sender_of(reader, tensor);
      return reader == stage;
    });
  }

  // Bytes per sample by the other stage: of what `stage` reads, or of what it sends to others; with `gradients`, of those that go back.
  [[nodiscard]] std::map<int, std::int64_t> exchanged(int stage, bool reads, bool gradients) const {
    std::map<int, std::int64_t> bytes;
    std::set<std::tuple<int, std::int64_t, int>> seen;  // a tensor that two layers of a stage read is sent once
    for (const LayerEdge& edge : profile_.edges) {
      const int back = stage_of(edge.to);
      if (stage_of(edge.from) == back) continue;
      const int front = sender_of(back, edge);
      if ((reads ? back : front) != stage || (gradients && !has_gradient(back, edge))) continue;
      if (seen.insert({edge.from, edge.bytes_per_sample, back}).second) bytes[reads ? front : back] += edge.bytes_per_sample;
    }
    return bytes;
  }

  bool run(int device, const Action& action) {
    const bool forward = action.kind == ActionKind::forward, weight = action.kind == ActionKind::backward_weight;
    const Stage& stage = plan_.stages[as_index(action.stage)];
    std::int64_t start = free_[as_index(device)];
    if (!weight)
      for (const auto& [other, bytes] : exchanged(action.stage, forward, !forward)) {
        const auto arrived = there_.find({other, action.stage, action.microbatch, forward});
        if (arrived == there_.end()) return false;
        start = std::max(start, arrived->second);
      }
    const int samples = plan_.microbatch_sizes[as_index(action.microbatch)];
    std::int64_t end = start;
    for (int layer = stage.first_layer; layer < stage.last_layer; ++layer) {
      const LayerTimes times = cost_.layer(device, layer, samples);
      end += ns(forward                                     ? times.forward_s
                : weight                                    ? times.backward_weight_s
                : action.kind == ActionKind::backward_input ? times.backward_input_s
                                                            : times.backward_s);
    }
    free_[as_index(device)] = end;
    if (!weight)
      for (const auto& [other, bytes] : exchanged(action.stage, !forward, !forward)) send(device, action, other, bytes * samples, end);
    return true;
  }

  void send(int device, const Action& action, int to, std::int64_t bytes, std::int64_t made) {
    const int destination = device_of(plan_.stages[as_index(to)], action.microbatch);
    std::int64_t there = made;
    if (destination != device) {
      std::int64_t& link = links_[{device, destination}];
      there = link = std::max(link, made) + ns(cost_.copy_seconds(device, destination, bytes));
    }
    there_[{action.stage, to, action.microbatch, action.kind == ActionKind::forward}] = there;
  }

  const Plan& plan_;
  const Profile& profile_;
  CostModel cost_;
  std::vector<std::int64_t> free_;
  std::map<std::pair<int, int>, std::int64_t> links_;
  std::map<std::tuple<int, int, int, bool>, std::int64_t> there_;  // by sender, reader, micro-batch, and whether it is an output
};

Profile random_graph(std::mt19937& random, int devices, bool free_links) {
  testing::ProfileShape shape = testing::random_shape(random, 8, devices);
  shape.optimizer_s_per_byte = shape.reduce_s_per_byte = shape.action_s = shape.step_s = 0;
  shape.sender_copies = false;
  if (free_links) shape.latency_s = shape.bytes_per_second = 0;
  return testing::with_random_edges(testing::make_profile(shape, testing::random_factors(random, 8)), random);
}

Plan without_recomputation(Plan plan) {
  for (Stage& stage : plan.stages) stage.recompute = {};
  return plan;
}

TEST(Graphs, StepsAreThoseOfTheRules) {
  std::mt19937 random(51);
  int waits_less = 0;
  for (int round = 0; round < 1000; ++round) {
    const int devices = std::uniform_int_distribution<int>(1, 4)(random);
    const Profile profile = random_graph(random, devices, false);
    if (is_chain(profile)) continue;  // where a gradient always comes back, if of no bytes
    const Plan plan = without_recomputation(testing::random_virtual_plan(random, 8, devices, round % 3));
    const Prediction prediction = predict(plan, CostModel(profile));
    ASSERT_EQ(ns(prediction.step_s), SlowStep(plan, profile).end_ns()) << round;
    ASSERT_LE(prediction.lower_bound_s, prediction.step_s + 1e-12) << round;
    waits_less += prediction.step_s < predict(plan, CostModel(as_chain(profile))).step_s ? 1 : 0;
  }
  EXPECT_GT(waits_less, 300);
}

TEST(Graphs, WithFreeLinksNoStepIsLongerThanThatOfTheChain) {
  std::mt19937 random(52);
  for (int round = 0; round < 500; ++round) {
    const int devices = std::uniform_int_distribution<int>(1, 4)(random);
    const Profile profile = random_graph(random, devices, true);
    const Plan plan = testing::random_virtual_plan(random, 8, devices, round % 3);
    ASSERT_LE(predict(plan, CostModel(profile)).step_s, predict(plan, CostModel(as_chain(profile))).step_s + 1e-12) << round;
  }
}

TEST(Graphs, NoStepIsShorterThanThatOfTheBackbone) {
  std::mt19937 random(53);
  for (int round = 0; round < 500; ++round) {
    const int devices = std::uniform_int_distribution<int>(1, 4)(random);
    Profile profile = random_graph(random, devices, false);
    for (int to = 1; to < 8; ++to) profile.edges.push_back({to - 1, to, 50 + to, 0, true});
    ASSERT_TRUE(backbone(profile));
    const Plan plan = testing::random_virtual_plan(random, 8, devices, round % 3);
    ASSERT_GE(predict(plan, CostModel(profile)).step_s + 1e-12, predict(plan, CostModel(*backbone(profile))).step_s) << round;
  }
}

TEST(Graphs, BranchesRunAtOnce) {
  const Profile profile = testing::two_branches({.devices = 2, .forward_s = 0.001, .backward_s = 0.002}, 4);
  Plan plan = testing::stages_of(9, {1, 1, 1}, {1});
  plan.devices.pop_back();
  plan.stages[0] = {0, 4, {0}, {}};
  plan.stages[1] = {4, 8, {1}, {}};
  plan.stages[2] = {8, 9, {1}, {}};
  plan.actions = {{{0, ActionKind::forward, 0}, {0, ActionKind::backward, 0}},
                  {{1, ActionKind::forward, 0}, {2, ActionKind::forward, 0}, {2, ActionKind::backward, 0}, {1, ActionKind::backward, 0}}};
  EXPECT_NEAR(predict(plan, CostModel(profile)).step_s, 4 * 0.001 + 0.003 + 4 * 0.002, 1e-9);
  EXPECT_NEAR(predict(plan, CostModel(as_chain(profile))).step_s, 8 * 0.001 + 0.003 + 8 * 0.002, 1e-9) << "as a chain, one after another";
}

}  // namespace
}  // namespace mptune::planner

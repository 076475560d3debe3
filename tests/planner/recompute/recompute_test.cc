// Which layers are computed again: each search against brute force over the sets of layers.
#include "planner/recompute/least_set.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <map>
#include <optional>
#include <random>

#include "planner/recompute/least_kept.h"
#include "planner/recompute/least_recompute.h"
#include "planner/simulate/simulate.h"
#include "profiler/base/index.h"
#include "tests/planner/search/spaces.h"

namespace mptune::planner {
namespace {

using testing::draw_shape;
using testing::make_profile;

std::int64_t draw(std::mt19937& random, std::int64_t low, std::int64_t high) {
  return std::uniform_int_distribution<std::int64_t>(low, high)(random);
}

std::vector<LayerChoice> draw_layers(std::mt19937& random, int count, std::int64_t most_ns) {
  std::vector<LayerChoice> layers;
  const bool alike = draw(random, 0, 3) == 0;
  for (int l = 0; l < count; ++l) {
    LayerChoice layer{0, l, draw(random, 0, most_ns), draw(random, 0, 200), draw(random, 0, 60), l == 0 || draw(random, 0, 9) == 0};
    if (alike && l > 0) layer = {0, l, layers[0].forward_ns, layers[0].freed_bytes, layers[0].input_bytes, false};
    layers.push_back(layer);
  }
  return layers;
}

struct Sum {
  std::int64_t ns = 0;
  std::int64_t freed = 0;
};

Sum sum_of(const std::vector<LayerChoice>& layers, const LayerSet& set) {
  Sum sum;
  for (std::size_t i = 0; i < layers.size(); ++i) {
    if (set[i]) sum.ns += layers[i].forward_ns;
    if (set[i]) sum.freed += layers[i].freed_bytes;
    if (!layers[i].first && !set[i] && set[i - 1]) sum.freed -= layers[i].input_bytes;
  }
  return sum;
}

LayerSet set_of(std::size_t bits, std::size_t layers) {
  LayerSet set(layers);
  for (std::size_t i = 0; i < layers; ++i) set[i] = (bits >> i & 1) != 0;
  return set;
}

TEST(LeastSet, EqualsBruteForceOverAllSets) {
  std::mt19937 random(71);
  int none = 0;
  for (int round = 0; round < 500; ++round) {
    const std::vector<LayerChoice> layers = draw_layers(random, static_cast<int>(draw(random, 1, 10)), 100);
    const std::int64_t needed = draw(random, 1, 120 * std::ssize(layers));
    std::int64_t least_ns = std::numeric_limits<std::int64_t>::max();
    for (std::size_t bits = 0; bits < std::size_t{1} << layers.size(); ++bits) {
      const Sum sum = sum_of(layers, set_of(bits, layers.size()));
      if (sum.freed >= needed) least_ns = std::min(least_ns, sum.ns);
    }
    const LeastSet found = least_set(layers, [&](const LayerSet& set) { return sum_of(layers, set).freed >= needed; });
    ASSERT_EQ(found.layers.has_value(), least_ns < std::numeric_limits<std::int64_t>::max()) << round;
    if (!found.layers) {
      ++none;
      continue;
    }
    EXPECT_GE(sum_of(layers, *found.layers).freed, needed) << round;
    EXPECT_EQ(sum_of(layers, *found.layers).ns, least_ns) << round;
  }
  EXPECT_GT(none, 20);
  EXPECT_LT(none, 400);
}

// Most bytes that sets of each time free, by time.
std::map<std::int64_t, std::int64_t> most_freed(const std::vector<LayerChoice>& layers) {
  std::map<std::int64_t, std::int64_t> saved{{0, 0}}, again;
  const auto add = [](const std::map<std::int64_t, std::int64_t>& from, std::int64_t ns, std::int64_t freed, auto& to) {
    for (const auto& [at, bytes] : from) {
      auto& best = to.try_emplace(at + ns, bytes + freed).first->second;
      best = std::max(best, bytes + freed);
    }
  };
  for (const LayerChoice& layer : layers) {
    const std::int64_t border = layer.first ? 0 : layer.input_bytes;
    std::map<std::int64_t, std::int64_t> next_saved, next_again;
    add(saved, 0, 0, next_saved);
    add(again, 0, -border, next_saved);
    add(saved, layer.forward_ns, layer.freed_bytes, next_again);
    add(again, layer.forward_ns, layer.freed_bytes, next_again);
    saved = std::move(next_saved);
    again = std::move(next_again);
  }
  add(again, 0, 0, saved);
  return saved;
}

// The difference of the neighbours on the convex hull between which `needed` lies.
std::int64_t hull_step(const std::map<std::int64_t, std::int64_t>& sets, std::int64_t needed) {
  std::int64_t at_ns = 0, at_freed = 0;
  while (true) {
    std::int64_t to_ns = 0, to_freed = at_freed;
    for (const auto& [ns, freed] : sets) {
      if (ns < at_ns || freed <= at_freed) continue;
      const bool steeper = to_freed == at_freed || (freed - at_freed) * (to_ns - at_ns) > (to_freed - at_freed) * (ns - at_ns);
      if (steeper) to_ns = ns, to_freed = freed;
    }
    if (to_freed >= needed) return to_ns - at_ns;
    at_ns = to_ns;
    at_freed = to_freed;
  }
}

TEST(LeastSet, OfManyLayersTakesAtMostAHullStepMore) {
  std::mt19937 random(72);
  int exact = 0;
  for (int round = 0; round < 30; ++round) {
    const std::vector<LayerChoice> layers = draw_layers(random, 40, 100);
    const std::map<std::int64_t, std::int64_t> sets = most_freed(layers);
    std::int64_t most = 0;
    for (const auto& [ns, freed] : sets) most = std::max(most, freed);
    const std::int64_t needed = draw(random, 1, most);
    const auto best = std::ranges::find_if(sets, [&](const auto& set) { return set.second >= needed; });
    const LeastSet found = least_set(layers, [&](const LayerSet& set) { return sum_of(layers, set).freed >= needed; });
    ASSERT_TRUE(found.layers) << round;
    const Sum sum = sum_of(layers, *found.layers);
    EXPECT_GE(sum.freed, needed);
    EXPECT_GE(sum.ns, best->first);
    EXPECT_LE(sum.ns - best->first, hull_step(sets, needed)) << round;
    EXPECT_LT(found.tried, 40);
    exact += sum.ns == best->first ? 1 : 0;
  }
  EXPECT_GT(exact, 20);
}

std::vector<LayerNeed> draw_needs(std::mt19937& random, int count) {
  std::vector<LayerNeed> needs;
  for (int l = 0; l < count; ++l)
    needs.push_back({draw(random, 0, 100), draw(random, -20, 60), draw(random, 0, 40), l == 0 || draw(random, 0, 9) == 0});
  return needs;
}

// Piece by piece, from the last one to the first.
std::int64_t backward_by_hand(const std::vector<LayerNeed>& needs, const LayerSet& set) {
  std::int64_t most = 0;
  for (std::size_t at = 0; at < needs.size(); ++at) {
    std::size_t stage = at, piece = at;
    while (!needs[stage].first) --stage;
    while (set[at] && piece > stage && set[piece - 1]) --piece;
    std::int64_t now = needs[at].running_bytes;
    for (std::size_t i = stage; i <= at; ++i) {
      if (!set[i] || i >= piece) now += needs[i].saved_bytes;
      if (i > stage && !set[i] && set[i - 1]) now += needs[i].input_bytes;
    }
    most = std::max(most, now);
  }
  return most;
}

std::int64_t kept_by_hand(const std::vector<LayerNeed>& needs, const LayerSet& set) {
  std::int64_t kept = 0;
  for (std::size_t i = 0; i < needs.size(); ++i) {
    if (!set[i]) kept += needs[i].saved_bytes;
    if (!set[i] && !needs[i].first && set[i - 1]) kept += needs[i].input_bytes;
  }
  return kept;
}

TEST(LeastKept, EqualsBruteForceOverAllSets) {
  std::mt19937 random(74);
  int none = 0, in_pieces = 0;
  for (int round = 0; round < 500; ++round) {
    const std::vector<LayerNeed> needs = draw_needs(random, static_cast<int>(draw(random, 1, 9)));
    const std::int64_t most = draw(random, 50, 60 * std::ssize(needs) + 60);
    std::int64_t least = std::numeric_limits<std::int64_t>::max();
    for (std::size_t bits = 0; bits < std::size_t{1} << needs.size(); ++bits) {
      const LayerSet set = set_of(bits, needs.size());
      ASSERT_EQ(backward_bytes(needs, set), std::max<std::int64_t>(0, backward_by_hand(needs, set))) << round;
      if (backward_by_hand(needs, set) <= most) least = std::min(least, kept_by_hand(needs, set));
    }
    const std::optional<LayerSet> found = least_kept(needs, most);
    ASSERT_EQ(found.has_value(), least < std::numeric_limits<std::int64_t>::max()) << round;
    if (!found) {
      ++none;
      continue;
    }
    EXPECT_LE(backward_by_hand(needs, *found), most) << round;
    EXPECT_EQ(kept_by_hand(needs, *found), least) << round;
    in_pieces += least > 0;
  }
  EXPECT_GT(none, 20);
  EXPECT_GT(in_pieces, 100);
}

// What the layers that a plan computes again take, on one of its devices.
double again_s(const Plan& plan, int device, const CostModel& cost) {
  double seconds = 0;
  for (const Stage& stage : plan.stages) {
    if (std::ranges::find(stage.devices, device) == stage.devices.end() || stage.recompute.mode == Recompute::Mode::none) continue;
    for (int layer = stage.first_layer; layer < stage.last_layer; ++layer)
      if (recomputes_layer(stage.recompute, layer)) seconds += cost.layer(device, layer, plan.microbatch_sizes[0]).forward_s;
  }
  return seconds;
}

// A set that frees fewer bytes may yet fit: the peak also has a workspace, and what the forward of recomputed layers needs.
TEST(LeastRecompute, KeepsToTheCapsAndIsAsARuleTheLeastSetThatFits) {
  std::mt19937 random(73);
  int some = 0, slower = 0;
  for (int round = 0; round < 500; ++round) {
    const int layers = static_cast<int>(draw(random, 2, 9));
    const CostModel cost(make_profile(draw_shape(random, layers, 2), testing::random_factors(random, layers)));
    const int m = static_cast<int>(draw(random, 2, 6));
    const std::vector<std::string> schedules = {"1f1b", "gpipe", "zb1p"};
    const Plan plan = testing::scheduled(testing::stages_of(layers, {1, 1}, split_evenly(2 * m, m)), schedules[as_index(round) % 3]);
    const int device = static_cast<int>(draw(random, 0, 1));
    const Stage& stage = plan.stages[as_index(device)];
    const auto count = as_index(stage.last_layer - stage.first_layer);
    std::vector<Plan> all;
    for (std::size_t bits = 0; bits < std::size_t{1} << count; ++bits) {
      all.push_back(plan);
      Recompute& recompute = all.back().stages[as_index(device)].recompute;
      for (std::size_t i = 0; i < count; ++i)
        if ((bits >> i & 1) != 0) recompute.layers.push_back(stage.first_layer + static_cast<int>(i));
      if (bits > 0) recompute.mode = Recompute::Mode::some;
      if (recompute.layers.size() == count) recompute = {Recompute::Mode::all, {}, {}};
    }
    std::vector<std::int64_t> caps(2, 0);
    std::int64_t least_bytes = std::numeric_limits<std::int64_t>::max();
    for (const Plan& each : all) least_bytes = std::min(least_bytes, cost.peak_bytes(each, device));
    caps[as_index(device)] = draw(random, least_bytes, cost.peak_bytes(plan, device));
    const Plan found = with_least_recompute(plan, caps, cost, Effort::thorough).plan;
    EXPECT_LE(cost.peak_bytes(found, device), caps[as_index(device)]) << round;
    const double step_s = predict(found, cost).step_s, seconds = again_s(found, device, cost);
    double shortest_s = step_s;  // of plans that fit and take less in forwards
    for (const Plan& each : all)
      if (cost.peak_bytes(each, device) <= caps[as_index(device)] && again_s(each, device, cost) < seconds)
        shortest_s = std::min(shortest_s, predict(each, cost).step_s);
    slower += shortest_s < step_s ? 1 : 0;
    EXPECT_LT(step_s, 1.1 * shortest_s) << round;
    some += again_s(found, device, cost) > 0 ? 1 : 0;
  }
  EXPECT_GT(some, 300);
  EXPECT_LT(slower, 5);
}

}  // namespace
}  // namespace mptune::planner

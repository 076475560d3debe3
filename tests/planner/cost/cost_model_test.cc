#include "planner/cost/cost_model.h"

#include <gtest/gtest.h>

#include <map>
#include <numeric>
#include <random>

#include "profiler/base/error.h"
#include "tests/planner/profiles.h"

namespace mptune::planner {
namespace {

using testing::make_profile;
using testing::ProfileShape;

LayerCost timed(int samples, double forward, double backward) {
  LayerCost cost;
  cost.samples = samples;
  cost.forward = exactly(forward);
  cost.backward = exactly(backward);
  return cost;
}

Profile with_curve(std::vector<LayerCost> costs) {
  Profile profile = make_profile({.layers = 1, .devices = 1});
  profile.classes[0].layers[0].by_samples = std::move(costs);
  return profile;
}

TEST(CostModel, InterpolatesBetweenMeasuredSizes) {
  const CostModel cost(with_curve({timed(4, 5, 9), timed(2, 3, 5), timed(12, 21, 33)}));
  EXPECT_DOUBLE_EQ(cost.layer(0, 0, 2).forward_s, 3);
  EXPECT_DOUBLE_EQ(cost.layer(0, 0, 3).forward_s, 4);
  EXPECT_DOUBLE_EQ(cost.layer(0, 0, 4).backward_s, 9);
  EXPECT_DOUBLE_EQ(cost.layer(0, 0, 8).forward_s, 13);
  EXPECT_DOUBLE_EQ(cost.layer(0, 0, 8).backward_s, 21);
  EXPECT_DOUBLE_EQ(cost.layer(0, 0, 16).forward_s, 29) << "continues the last segment";
  EXPECT_DOUBLE_EQ(cost.layer(0, 0, 1).forward_s, 2) << "continues the first segment";
  EXPECT_TRUE(cost.extrapolated(0, 1));
  EXPECT_TRUE(cost.extrapolated(0, 13));
  EXPECT_FALSE(cost.extrapolated(0, 2));
  EXPECT_FALSE(cost.extrapolated(0, 12));
}

TEST(CostModel, NeverGoesToZeroBelowTheSmallestSize) {
  const CostModel cost(with_curve({timed(8, 8, 8), timed(10, 16, 16)}));
  EXPECT_DOUBLE_EQ(cost.layer(0, 0, 1).forward_s, 1) << "in proportion to the samples where the segment would be negative";
}

TEST(CostModel, OneMeasuredSizeIsScaled) {
  const CostModel cost(with_curve({timed(4, 2, 6)}));
  EXPECT_DOUBLE_EQ(cost.layer(0, 0, 8).forward_s, 4);
  EXPECT_DOUBLE_EQ(cost.layer(0, 0, 2).backward_s, 3);
}

TEST(CostModel, KeepsWhatWasMeasuredWhereALargerSizeIsCheaper) {
  const CostModel cost(with_curve({timed(4, 10, 30), timed(8, 20, 60), timed(16, 8, 26)}));
  EXPECT_DOUBLE_EQ(cost.layer(0, 0, 8).forward_s, 20);
  EXPECT_DOUBLE_EQ(cost.layer(0, 0, 12).forward_s, 14);
  EXPECT_DOUBLE_EQ(cost.layer(0, 0, 16).backward_s, 26);
  EXPECT_DOUBLE_EQ(cost.layer(0, 0, 32).forward_s, 8) << "a falling line is not continued";
}

TEST(CostModel, IsNeverNegativeAndNeverFasterWhenBusy) {
  std::mt19937 random(3);
  std::uniform_real_distribution<double> noise(0.5, 1.5);
  for (int round = 0; round < 50; ++round) {
    std::vector<LayerCost> costs;
    for (const int samples : {1, 2, 4, 5, 9, 16}) {
      costs.push_back(timed(samples, samples * noise(random), samples * noise(random)));
      costs.back().forward_busy = exactly(samples * noise(random));
    }
    const CostModel cost(with_curve(costs));
    for (int samples = 1; samples <= 40; ++samples) {
      const LayerTimes times = cost.layer(0, 0, samples);
      EXPECT_GT(times.forward_s, 0);
      EXPECT_GT(times.backward_s, 0);
      EXPECT_LE(times.forward_s, times.forward_busy_s);
      EXPECT_LE(times.backward_s, times.backward_busy_s);
    }
  }
}

TEST(CostModel, BusyTimesAreThoseAloneWhereNotMeasured) {
  const CostModel cost(with_curve({timed(1, 1, 2), timed(2, 2, 4)}));
  EXPECT_EQ(cost.layer(0, 0, 2).forward_busy_s, cost.layer(0, 0, 2).forward_s);
  EXPECT_EQ(cost.layer(0, 0, 2).backward_busy_s, cost.layer(0, 0, 2).backward_s);
  EXPECT_EQ(cost.neighbours(0), 0);
  EXPECT_EQ(CostModel(make_profile({.layers = 1, .devices = 3, .busy = 1.5})).neighbours(1), 2);
}

TEST(CostModel, SplitsABackwardOfWhichOnlyTheWholeWasMeasured) {
  Profile profile = with_curve({timed(2, 3, 5), timed(4, 5, 9)});
  const LayerTimes halves = CostModel(profile).layer(0, 0, 3);
  EXPECT_DOUBLE_EQ(halves.backward_input_s, 3.5);
  EXPECT_DOUBLE_EQ(halves.backward_weight_s, 3.5);
  profile.layers[0].parameters_bytes = 0;
  const LayerTimes bare = CostModel(profile).layer(0, 0, 3);
  EXPECT_DOUBLE_EQ(bare.backward_input_s, 7);
  EXPECT_DOUBLE_EQ(bare.backward_weight_s, 0);
  LayerCost& cost = profile.classes[0].layers[0].by_samples[1];
  cost.backward_input = exactly(4.0);
  cost.backward_weight = exactly(7.0);
  EXPECT_DOUBLE_EQ(CostModel(profile).layer(0, 0, 4).backward_input_s, 4);
  EXPECT_DOUBLE_EQ(CostModel(profile).layer(0, 0, 4).backward_weight_s, 7) << "as measured, more than the whole";
  EXPECT_DOUBLE_EQ(CostModel(profile).layer(0, 0, 4).backward_s, 9);
  EXPECT_DOUBLE_EQ(CostModel(profile).layer(0, 0, 2).backward_input_s, 2.222222222) << "as at the nearest size, not half";
  EXPECT_DOUBLE_EQ(CostModel(profile).layer(0, 0, 2).backward_weight_s, 3.888888889) << "5 * 7 / 9 in whole nanoseconds";
  cost.backward_weight = {};
  EXPECT_DOUBLE_EQ(CostModel(profile).layer(0, 0, 4).backward_input_s, 9) << "one part alone says nothing of the other";
}

TEST(CostModel, KnowsWhetherHalvesAreAssumed) {
  Profile profile = with_curve({timed(2, 3, 5), timed(4, 5, 9)});
  EXPECT_TRUE(CostModel(profile).assumes_halves());
  LayerCost& cost = profile.classes[0].layers[0].by_samples[0];
  cost.backward_input = exactly(4.0);
  cost.backward_weight = exactly(1.0);
  EXPECT_FALSE(CostModel(profile).assumes_halves());
  EXPECT_DOUBLE_EQ(CostModel(profile).layer(0, 0, 4).backward_input_s, 9 * 0.8) << "shared as at the size below";
  EXPECT_DOUBLE_EQ(CostModel(profile).layer(0, 0, 4).backward_weight_s, 9 * 0.2);
  cost.backward_input = cost.backward_weight = {};
  profile.layers[0].parameters_bytes = 0;
  EXPECT_FALSE(CostModel(profile).assumes_halves()) << "nothing to split";
}

// Three layers of 10 own bytes per sample; each reads its input (7) and the gradient of its output (5).
TEST(CostModel, HeldBytesOfAStageLeaveOutWhatItsNeighboursHold) {
  Profile profile = make_profile({.layers = 3, .sizes = {2, 4}});
  for (LayerCosts& layer : profile.classes[0].layers)
    for (LayerCost& cost : layer.by_samples) cost.split = SplitMemory{22 * cost.samples, 7 * cost.samples, 5 * cost.samples, 1, 1};
  const CostModel cost(profile);
  EXPECT_TRUE(cost.memory().split_memory_measured(0));
  EXPECT_EQ(cost.memory().held_bytes(0, 1, 2, 2), 2 * 10);
  EXPECT_EQ(cost.memory().held_bytes(0, 0, 3, 2), 2 * (3 * 10 + 2 * 7 + 2 * 5));
  EXPECT_EQ(cost.memory().held_bytes(0, 0, 3, 3), 3 * (3 * 10 + 2 * 7 + 2 * 5));
  EXPECT_EQ(cost.memory().split_memory(0, 1, 3).held_bytes, 66);
  profile.classes[0].layers[1].by_samples[1].split.reset();
  EXPECT_EQ(CostModel(profile).memory().held_bytes(0, 1, 2, 4), 4 * 10) << "in proportion to the size below";
  profile.classes[0].layers[1].by_samples[0].split.reset();
  EXPECT_FALSE(CostModel(profile).memory().split_memory_measured(0));
  EXPECT_EQ(CostModel(profile).memory().held_bytes(0, 1, 2, 4), 2 * 300 * 4) << "all that is kept, twice";
}

TEST(CostModel, FusedConvolutionsCostWhatOneLargerMicrobatchCosts) {
  Profile profile = make_profile({.layers = 1, .sizes = {2, 4, 8}});
  std::vector<LayerCost>& costs = profile.classes[0].layers[0].by_samples;
  constexpr double kSeconds[] = {3, 4, 5}, kShares[] = {1, 0.5, 0};
  constexpr std::int64_t kBytes[] = {20, 24, 0};
  for (std::size_t i = 0; i < 3; ++i) {
    costs[i].backward_input = exactly(1.0);
    costs[i].backward_weight = exactly(kSeconds[i]);
    costs[i].split = SplitMemory{100 * costs[i].samples, 0, 0, 1, 1, kShares[i], kBytes[i]};
  }
  const CostModel cost(profile);
  const auto seconds = [](const CostModel& of, std::vector<int> samples) { return of.fused_weight_seconds(0, 0, samples); };
  EXPECT_DOUBLE_EQ(seconds(cost, {2}), 3);
  EXPECT_DOUBLE_EQ(seconds(cost, {2, 2}), 4);
  EXPECT_DOUBLE_EQ(seconds(cost, {2, 2, 2, 2}), 5);
  EXPECT_DOUBLE_EQ(seconds(cost, {4, 4}), 0.5 * 5 + 0.5 * (4 + 4));
  EXPECT_DOUBLE_EQ(seconds(cost, {4, 2}), 0.5 * 4.5 + 0.5 * (4 + 3)) << "the larger decides what fuses";
  EXPECT_DOUBLE_EQ(seconds(cost, {3, 3}), 0.5 * 4.5 + 0.5 * (3.5 + 3.5)) << "at least what fuses at 4";
  EXPECT_DOUBLE_EQ(seconds(cost, {8, 8}), 5 + 5);
  EXPECT_EQ(cost.memory().split_memory(0, 0, 3).fused_bytes, 30) << "at most what fuses at 2";
  EXPECT_EQ(cost.memory().split_memory(0, 0, 1).fused_bytes, cost.memory().split_memory(0, 0, 1).held_bytes);
  EXPECT_EQ(cost.memory().split_memory(0, 0, 16).fused_share, 0);
  costs[2].split->fused_share = -1;
  EXPECT_DOUBLE_EQ(seconds(CostModel(profile), {2, 2}), 6) << "unknown";
  costs[2].split.reset();
  EXPECT_DOUBLE_EQ(seconds(CostModel(profile), {2, 2}), 4);
  EXPECT_DOUBLE_EQ(seconds(CostModel(profile), {8, 8}), 5 + 5) << "not known to fuse at 8";
}

TEST(CostModel, IsMonotoneWhereTheMeasurementsAre) {
  std::mt19937 random(13);
  std::uniform_real_distribution<double> step(0, 3);
  for (int round = 0; round < 100; ++round) {
    std::vector<LayerCost> costs;
    double forward = 1;
    double backward = 2;
    for (const int samples : {2, 3, 6, 8, 20}) costs.push_back(timed(samples, forward += step(random), backward += step(random)));
    const CostModel cost(with_curve(costs));
    for (int samples = 1; samples < 40; ++samples) {
      EXPECT_LE(cost.layer(0, 0, samples).forward_s, cost.layer(0, 0, samples + 1).forward_s);
      EXPECT_LE(cost.layer(0, 0, samples).backward_s, cost.layer(0, 0, samples + 1).backward_s);
      EXPECT_LE(cost.layer(0, 0, samples).backward_input_s, cost.layer(0, 0, samples + 1).backward_input_s);
      EXPECT_LE(cost.layer(0, 0, samples).backward_weight_s, cost.layer(0, 0, samples + 1).backward_weight_s);
    }
  }
}

TEST(CostModel, CountsEveryEdgeAcrossACut) {
  Profile profile = make_profile({.layers = 4});
  profile.edges.push_back({0, 3, 7, 11, false});
  const CostModel cost(profile);
  EXPECT_EQ(cost.boundary_bytes(1, 2, false), 200 + 14 + 11);
  EXPECT_EQ(cost.boundary_bytes(2, 2, true), 200) << "the skip needs no gradient";
  EXPECT_EQ(cost.boundary_bytes(3, 1, false), 100 + 7 + 11);
  EXPECT_EQ(cost.boundary_bytes(0, 1, false), 0);
}

TEST(CostModel, PricesCopiesByLink) {
  Profile profile = make_profile({.layers = 2, .devices = 3, .latency_s = 0.5, .bytes_per_second = 100});
  profile.links.pop_back();
  const CostModel cost(profile);
  EXPECT_DOUBLE_EQ(cost.copy_seconds(0, 1, 200), 2.5);
  EXPECT_DOUBLE_EQ(cost.copy_seconds(1, 1, 200), 0);
  EXPECT_THROW((void)cost.copy_seconds(2, 1, 1), Error);
  EXPECT_THROW((void)cost.device_index("sleep:9"), Error);
  EXPECT_EQ(cost.device_index("sleep:2"), 2);
}

TEST(CostModel, PricesCopiesByTheMeasuredCurve) {
  Profile profile = make_profile({.layers = 2, .devices = 2, .latency_s = 1, .bytes_per_second = 100});
  profile.links[0].curve = {{100, 3}, {200, 7}, {400, 9}};
  const CostModel cost(profile);
  EXPECT_DOUBLE_EQ(cost.copy_seconds(0, 1, 0), 1) << "the latency";
  EXPECT_DOUBLE_EQ(cost.copy_seconds(0, 1, 50), 2);
  EXPECT_DOUBLE_EQ(cost.copy_seconds(0, 1, 100), 3);
  EXPECT_DOUBLE_EQ(cost.copy_seconds(0, 1, 150), 5);
  EXPECT_DOUBLE_EQ(cost.copy_seconds(0, 1, 300), 8);
  EXPECT_DOUBLE_EQ(cost.copy_seconds(0, 1, 1000), 15) << "the last line goes on";
  EXPECT_DOUBLE_EQ(cost.copy_seconds(1, 0, 100), 2) << "a straight line";
  profile.links[0].curve = {{100, 0.5}};
  EXPECT_DOUBLE_EQ(CostModel(profile).copy_seconds(0, 1, 1000), 0.5) << "never less than a smaller copy";
  for (const std::vector<LinkPoint>& wrong : {std::vector<LinkPoint>{{0, 1}}, {{5, 1}, {5, 2}}, {{5, 1}, {4, 2}}, {{5, -1}}}) {
    profile.links[0].curve = wrong;
    EXPECT_THROW(CostModel{profile}, Error);
  }
}

TEST(CostModel, ATensorCrossesACutOnceHoweverManyLayersReadIt) {
  Profile profile = make_profile({.layers = 5});
  profile.edges = {{0, 1, 100, 3, true}, {0, 2, 100, 3, false}, {0, 4, 100, 3, true}, {1, 2, 7, 0, true},
                   {2, 3, 9, 0, true},   {2, 3, 9, 0, true},    {3, 4, 5, 0, false}};
  const CostModel cost(profile);
  EXPECT_EQ(cost.boundary_bytes(0, 2, false), 0);
  EXPECT_EQ(cost.boundary_bytes(1, 2, false), 203);
  EXPECT_EQ(cost.boundary_bytes(2, 2, false), 203 + 14);
  EXPECT_EQ(cost.boundary_bytes(3, 2, false), 203 + 18 + 18) << "two tensors of one size to one layer";
  EXPECT_EQ(cost.boundary_bytes(4, 2, false), 203 + 10) << "the skip is carried along";
  EXPECT_EQ(cost.boundary_bytes(4, 2, true), 203);
  EXPECT_EQ(cost.boundary_bytes(5, 2, false), 0);
  profile.edges.push_back({3, 3, 1, 0, true});
  EXPECT_THROW(CostModel{profile}, Error);
  profile.edges.back() = {3, 5, 1, 0, true};
  EXPECT_THROW(CostModel{profile}, Error);
}

// On random graphs, against the definition: for every producer the most of the cut that it feeds.
TEST(CostModel, BoundariesOfRandomGraphsAreTheirLiveTensors) {
  std::mt19937 random(12);
  const auto draw = [&](int low, int high) { return std::uniform_int_distribution<int>(low, high)(random); };
  for (int round = 0; round < 200; ++round) {
    const int n = draw(2, 12);
    Profile profile = make_profile({.layers = n});
    profile.edges.clear();
    for (int from = 0; from + 1 < n; ++from) {
      const std::int64_t bytes = draw(1, 50);
      for (int to = from + 1; to < n; ++to)
        if (to == from + 1 || draw(0, 3) == 0) profile.edges.push_back({from, to, bytes, 1, draw(0, 2) > 0});
    }
    const CostModel cost(profile);
    for (int cut = 1; cut < n; ++cut) {
      for (const bool gradients : {false, true}) {
        std::map<int, std::int64_t> live;
        for (const LayerEdge& edge : profile.edges)
          if (edge.from < cut && edge.to >= cut && (!gradients || edge.needs_gradient)) live[edge.from] = edge.bytes_per_sample * 3 + 1;
        std::int64_t sum = 0;
        for (const auto& [from, bytes] : live) sum += bytes;
        ASSERT_EQ(cost.boundary_bytes(cut, 3, gradients), sum) << round;
      }
    }
  }
}

TEST(CostModel, RefusesProfilesWithHoles) {
  Profile profile = make_profile({.layers = 3});
  profile.classes[0].layers.pop_back();
  EXPECT_THROW(CostModel{profile}, Error);
  profile = make_profile({.layers = 3});
  profile.classes[0].layers[1].by_samples.clear();
  EXPECT_THROW(CostModel{profile}, Error);
  profile = make_profile({.layers = 3});
  profile.classes[0].layers[1].by_samples[0].backward = {};
  profile.classes[0].layers[1].by_samples[1].backward = {};
  EXPECT_THROW(CostModel{profile}, Error);
  profile = make_profile({.layers = 3});
  profile.classes[0].allocator_reserve = -0.1;
  EXPECT_THROW(CostModel{profile}, Error);
  profile = make_profile({.layers = 3});
  profile.devices[1].device_class = 4;
  EXPECT_THROW(CostModel{profile}, Error);
  profile = make_profile({.layers = 3});
  profile.links[0].destination = 9;
  EXPECT_THROW(CostModel{profile}, Error);
  EXPECT_THROW(CostModel{Profile{}}, Error);
}

}  // namespace
}  // namespace mptune::planner

#include "mptune/planner/cost/cost_model.h"

#include <gtest/gtest.h>

#include <map>
#include <numeric>
#include <random>

#include "mptune/profiler/trace/error.h"
#include "mptune/tests/planner/profiles.h"

namespace mptune {
namespace {

using test::make_profile;
using test::ProfileShape;
using test::scheduled;
using test::stages_of;

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
      for (int to = from + 1; to < n; ++to) {
        if (to == from + 1 || draw(0, 3) == 0) profile.edges.push_back({from, to, bytes, 1, draw(0, 2) > 0});
      }
    }
    const CostModel cost(profile);
    for (int cut = 1; cut < n; ++cut) {
      for (const bool gradients : {false, true}) {
        std::map<int, std::int64_t> live;
        for (const LayerEdge& edge : profile.edges) {
          if (edge.from < cut && edge.to >= cut && (!gradients || edge.needs_gradient)) live[edge.from] = edge.bytes_per_sample * 3 + 1;
        }
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
  profile.devices[1].device_class = 4;
  EXPECT_THROW(CostModel{profile}, Error);
  profile = make_profile({.layers = 3});
  profile.links[0].destination = 9;
  EXPECT_THROW(CostModel{profile}, Error);
  EXPECT_THROW(CostModel{Profile{}}, Error);
}

// One layer: parameters 1000, kept 300, workspace 50, boundary 100 bytes per sample.
TEST(PeakBytes, OneDeviceByHand) {
  Profile profile = make_profile({.layers = 4});
  profile.optimizer_state_factor = 2;
  profile.layers[2].buffers_bytes = 77;
  const CostModel cost(profile);
  const Plan whole = scheduled(stages_of(4, {1}, {8}), "naive");
  EXPECT_EQ(cost.peak_bytes(whole), (std::vector<std::int64_t>{4 * 4000 + 77 + 4 * 300 * 8 + 50 * 8}));
  const Plan parts = scheduled(stages_of(4, {1}, {2, 2, 2, 2}), "1f1b");
  EXPECT_EQ(cost.peak_bytes(parts), (std::vector<std::int64_t>{4 * 4000 + 77 + 4 * 300 * 2 + 50 * 2}));
  const Plan gpipe = scheduled(stages_of(4, {1}, {2, 2, 2, 2}), "gpipe");
  EXPECT_EQ(cost.peak_bytes(gpipe), (std::vector<std::int64_t>{4 * 4000 + 77 + 4 * 300 * 8 + 50 * 2}));
}

TEST(PeakBytes, TwoStagesByHand) {
  const CostModel cost(make_profile({.layers = 4}));
  const Plan plan = scheduled(stages_of(4, {1, 1}, {1, 1, 1, 1}), "1f1b");
  // First: 2 in flight, gradients of both may have come. Last: 1 in flight, two inputs, its own gradient and the one on its way.
  EXPECT_EQ(cost.peak_bytes(plan),
            (std::vector<std::int64_t>{2 * 2000 + 2 * 2 * 300 + 2 * 100 + 50, 2 * 2000 + 2 * 300 + 2 * 100 + 50 + 200}));
  Plan again = plan;
  again.stages[0].recompute.mode = Recompute::Mode::all;
  // One micro-batch's activations while it runs, the output and the one before it on their way; gradients as before.
  EXPECT_EQ(cost.peak_bytes(again)[0], 2 * 2000 + 2 * 300 + 2 * 100 + 50 + 200);
  EXPECT_EQ(cost.peak_bytes(again)[1], cost.peak_bytes(plan)[1]);
}

TEST(PeakBytes, ContentsNameTheMicrobatchesInFlight) {
  const CostModel cost(make_profile({.layers = 4}));
  const std::vector<PeakContents> contents = cost.peak_contents(scheduled(stages_of(4, {1, 1}, {1, 1, 1, 1}), "1f1b"));
  ASSERT_EQ(contents.size(), 2u);
  PeakContents first;
  first.parameters_bytes = first.gradients_bytes = 2000;
  first.activations_bytes = {{0, 600}, {1, 600}};
  first.slots_bytes = 200;
  first.workspace_bytes = 50;
  EXPECT_EQ(contents[0], first);
  EXPECT_EQ(contents[1].activations_bytes, (std::map<int, std::int64_t>{{0, 600}}));
  EXPECT_EQ(contents[1].workspace_bytes, 50 + 200);
}

TEST(PeakBytes, ReplicasOwnAllParametersAndTheFirstTheOptimizerState) {
  Profile profile = make_profile({.layers = 2});
  profile.optimizer_state_factor = 1;
  const CostModel cost(profile);
  const Plan plan = scheduled(stages_of(2, {2}, {3, 2}), "1f1b");
  EXPECT_EQ(cost.peak_bytes(plan), (std::vector<std::int64_t>{3 * 2000 + 2 * 300 * 3 + 150, 2 * 2000 + 2 * 300 * 2 + 100}));
}

TEST(PeakBytes, CountsTheInputOfTheFirstStage) {
  Profile profile = make_profile({.layers = 2});
  const Plan plan = scheduled(stages_of(2, {1, 1}, {1, 1}), "1f1b");
  const auto without = CostModel(profile).peak_bytes(plan);
  profile.fingerprint.input = "3x5:float32";
  const auto with = CostModel(profile).peak_bytes(plan);
  EXPECT_EQ(with[0] - without[0], 2 * 60);
  EXPECT_EQ(with[1], without[1]);
  profile.fingerprint.input = "64:int64";
  EXPECT_EQ(CostModel(profile).input_bytes_per_sample(), 512);
  profile.fingerprint.input = "99999999x99999999x99999999";
  EXPECT_EQ(CostModel(profile).input_bytes_per_sample(), 0);
}

TEST(PeakBytes, MoreInFlightRecomputedOrSplitOrdersAsExpected) {
  std::mt19937 random(11);
  for (int round = 0; round < 100; ++round) {
    const int stages = std::uniform_int_distribution<int>(2, 4)(random);
    const int m = std::uniform_int_distribution<int>(1, 9)(random);
    const CostModel cost(make_profile({.layers = 8, .devices = 4}, test::random_factors(random, 8)));
    const Plan bare = stages_of(8, std::vector<int>(static_cast<std::size_t>(stages), 1), split_evenly(12, m));
    const auto f1b1 = cost.peak_bytes(scheduled(bare, "1f1b"));
    const auto gpipe = cost.peak_bytes(scheduled(bare, "gpipe"));
    Plan again = bare;
    for (Stage& stage : again.stages) stage.recompute.mode = Recompute::Mode::all;
    const auto recomputed = cost.peak_bytes(scheduled(again, "gpipe"));
    for (std::size_t d = 0; d < f1b1.size(); ++d) {
      EXPECT_LE(f1b1[d], gpipe[d]);
      if (m >= 4) {
        EXPECT_LT(recomputed[d], gpipe[d]);
      }
    }
  }
}

TEST(CostModel, KnowsWhereNoStageMayBegin) {
  Profile profile = test::make_profile({.layers = 3});
  EXPECT_TRUE(CostModel(profile).may_cut(1));
  profile.forbidden_cuts = {{1, "layer 1 works in place"}};
  const CostModel cost(profile);
  EXPECT_TRUE(cost.may_cut(0));
  EXPECT_FALSE(cost.may_cut(1));
  EXPECT_TRUE(cost.may_cut(2));
  for (const int layer : {-1, 0, 3}) {
    profile.forbidden_cuts = {{layer, "nothing"}};
    EXPECT_THROW(CostModel{profile}, Error) << layer;
  }
}

}  // namespace
}  // namespace mptune

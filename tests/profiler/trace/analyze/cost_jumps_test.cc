#include "profiler/trace/analyze/cost_jumps.h"

#include <gtest/gtest.h>

namespace mptune::profiler {
namespace {

LayerCosts costs(const std::vector<std::pair<int, double>>& seconds_by_samples) {
  LayerCosts result;
  for (const auto& [samples, seconds] : seconds_by_samples) {
    LayerCost& cost = result.by_samples.emplace_back();
    cost.samples = samples;
    cost.forward = exactly(seconds / 4);
    cost.backward = exactly(3 * seconds / 4);
  }
  return result;
}

/// Devices of the first class only.
Profile profile_of(std::vector<LayerCosts> layers) {
  Profile profile;
  profile.layers.resize(layers.size());
  profile.classes.resize(2);
  profile.classes[0].layers = layers;
  profile.classes[1].layers = std::move(layers);
  profile.devices = {{"cpu:0", 0, 0}, {"cpu:1", 0, 0}};
  return profile;
}

TEST(CostJumps, ASlowKernelBelowASizeIsFound) {
  // The first layer scales, the second takes five times as long per sample below 16.
  const auto jumps = cost_jumps(profile_of({costs({{4, 4}, {8, 8}, {16, 16}, {32, 32}}), costs({{4, 20}, {8, 40}, {16, 16}, {32, 32}})}));
  ASSERT_EQ(jumps.size(), 1u);
  EXPECT_EQ(jumps[0].device_class, 0);
  EXPECT_EQ(jumps[0].layer, 1);
  EXPECT_EQ(jumps[0].samples, 8);
  EXPECT_EQ(jumps[0].larger_samples, 16);
  EXPECT_DOUBLE_EQ(jumps[0].factor, 5);
  EXPECT_DOUBLE_EQ(jumps[0].step_share, 32.0 / 48);
}

TEST(CostJumps, ScalingLayersAndSmallOvercostsHaveNone) {
  EXPECT_TRUE(cost_jumps(profile_of({costs({{1, 1}, {2, 2}, {4, 4}})})).empty());
  EXPECT_TRUE(cost_jumps(profile_of({costs({{8, 12}, {16, 16}})})).empty()) << "exactly 1.5 times";
  EXPECT_EQ(cost_jumps(profile_of({costs({{8, 12.01}, {16, 16}})})).size(), 1u);
}

TEST(CostJumps, WhatDoesNotMatterForTheStepIsLeftOut) {
  const auto profile = profile_of({costs({{8, 1000}, {16, 2000}}), costs({{8, 10}, {16, 4}}), costs({{8, 14}, {16, 4}})});
  const auto jumps = cost_jumps(profile);
  ASSERT_EQ(jumps.size(), 1u) << "of 1024 seconds 8 are less than one percent, 12 are more";
  EXPECT_EQ(jumps[0].layer, 2);
  const auto all = cost_jumps(profile, {.factor = 1.5, .step_share = 0, .seconds = 0});
  ASSERT_EQ(all.size(), 2u);
  EXPECT_EQ(all[0].layer, 2) << "the larger one first";
}

TEST(CostJumps, LayersOfMicrosecondsAreLeftOut) {
  const auto profile = profile_of({costs({{1, 0.9e-3}, {2, 0.9e-3}, {4, 2e-3}, {8, 2e-3}})});
  const auto jumps = cost_jumps(profile);
  ASSERT_EQ(jumps.size(), 1u);
  EXPECT_EQ(jumps[0].samples, 4);
  EXPECT_EQ(cost_jumps(profile, {.factor = 1.5, .step_share = 0.01, .seconds = 1e-6}).size(), 2u);
}

TEST(CostJumps, SizesWithoutTimesAreSkipped) {
  Profile profile = profile_of({costs({{8, 40}, {16, 16}})});
  profile.classes[0].layers[0].by_samples[1].backward = {};
  EXPECT_TRUE(cost_jumps(profile).empty());
  profile.classes[0].layers[0].by_samples[0].forward = {};
  EXPECT_TRUE(cost_jumps(profile).empty());
  EXPECT_TRUE(cost_jumps({}).empty());
}

TEST(CostJumps, ClassesThatNoDeviceNamesDoNotCount) {
  Profile profile = profile_of({costs({{8, 40}, {16, 16}})});
  profile.classes[0].layers[0] = costs({{8, 8}, {16, 16}});
  EXPECT_TRUE(cost_jumps(profile).empty());
  profile.devices[1].device_class = 1;
  ASSERT_EQ(cost_jumps(profile).size(), 1u);
  EXPECT_EQ(cost_jumps(profile)[0].device_class, 1);
}

}  // namespace
}  // namespace mptune::profiler

#include "profiler/trace/analyze/slow_kernels.h"

#include <gtest/gtest.h>

namespace mptune::profiler {
namespace {

LayerCost cost_of(int samples, double forward, double backward) {
  LayerCost cost;
  cost.samples = samples;
  cost.forward = exactly(forward);
  cost.backward = exactly(backward);
  return cost;
}

/// Two layers at 1 and 2 samples; the second has a slow kernel at 2.
Profile some_slow() {
  Profile profile;
  profile.layers.resize(2);
  DeviceClass plain;
  plain.name = "cpu/1";
  plain.layers.resize(2);
  plain.layers[0].by_samples = {cost_of(1, 1, 2), cost_of(2, 2, 4)};
  plain.layers[1].by_samples = {cost_of(1, 1, 1), cost_of(2, 5, 7)};
  DeviceClass replaced = plain;
  replaced.variant = {.replaces_slow_kernels = true};
  replaced.variant_of = 0;
  replaced.layers[1].by_samples[1] = cost_of(2, 1, 3);
  profile.classes = {plain, replaced};
  profile.devices = {{"cpu:0", 0, 0}};
  return profile;
}

TEST(ReplacedKernels, AreTheCostsThatReplacingChanges) {
  const auto kernels = slow_kernels(some_slow());
  ASSERT_EQ(kernels.size(), 1U);
  EXPECT_EQ(kernels[0].device_class, 1);
  EXPECT_EQ(kernels[0].layer, 1);
  EXPECT_EQ(kernels[0].samples, 2);
  EXPECT_EQ(kernels[0].seconds, 12);
  EXPECT_EQ(kernels[0].replaced_seconds, 4);
}

TEST(ReplacedKernels, OfTheWholeModelCountTheOtherLayers) {
  const Profile profile = some_slow();
  const auto sums = whole_model(profile, slow_kernels(profile));
  ASSERT_EQ(sums.size(), 1U);
  EXPECT_EQ(sums[0].layer, -1);
  EXPECT_EQ(sums[0].samples, 2);
  EXPECT_EQ(sums[0].seconds, 18);
  EXPECT_EQ(sums[0].replaced_seconds, 10);
}

TEST(ReplacedKernels, AreComparedInTheSameMemoryFormat) {
  Profile profile = some_slow();
  DeviceClass last = profile.classes[0];
  last.variant.memory_format = MemoryFormat::channels_last;
  last.variant_of = 0;
  last.layers[1].by_samples[1] = cost_of(2, 3, 3);
  DeviceClass both = last;
  both.variant.replaces_slow_kernels = true;
  both.layers[1].by_samples[1] = cost_of(2, 1, 2);
  profile.classes.insert(profile.classes.end(), {last, both});
  const auto kernels = slow_kernels(profile);
  ASSERT_EQ(kernels.size(), 2U);
  EXPECT_EQ(kernels[1].device_class, 3);
  EXPECT_EQ(kernels[1].seconds, 6);
  EXPECT_EQ(kernels[1].replaced_seconds, 3);
}

TEST(ReplacedKernels, AreNoneWhereNoneWereReplaced) {
  Profile profile = some_slow();
  profile.classes.pop_back();
  EXPECT_TRUE(slow_kernels(profile).empty());
  EXPECT_TRUE(whole_model(profile, {}).empty());
}

}  // namespace
}  // namespace mptune::profiler

#include "planner/cost/variants.h"

#include <gmock/gmock.h>

#include "planner/cost/cost_model.h"
#include "profiler/base/error.h"
#include "tests/planner/profiles.h"
#include "tests/support/variants.h"

namespace mptune::planner {
namespace {

using testing::make_profile;

constexpr ExecutionOptions kChannelsLast{.memory_format = MemoryFormat::channels_last};

TEST(Variants, APlansOptionsChooseItsPrices) {
  const Profile plain = make_profile({.layers = 3, .devices = 2}, {1, 2, 3});
  const Profile profile = testing::with_channels_last(plain, 0.5);
  const CostModel contiguous(profile), other(profile, kChannelsLast), back(other.profile(), {});
  EXPECT_EQ(contiguous.variant(), ExecutionVariant());
  EXPECT_EQ(other.variant(), variant_of(kChannelsLast));
  EXPECT_EQ(back.variant(), ExecutionVariant());
  for (int layer = 0; layer < 3; ++layer) {
    const LayerTimes expected = CostModel(plain).layer(1, layer, 4);
    EXPECT_EQ(contiguous.layer(1, layer, 4).forward_s, expected.forward_s);
    EXPECT_EQ(back.layer(1, layer, 4).backward_s, expected.backward_s);
    EXPECT_DOUBLE_EQ(other.layer(1, layer, 4).forward_s, expected.forward_s / 2);
    EXPECT_DOUBLE_EQ(other.layer(1, layer, 4).backward_s, expected.backward_s / 2);
  }
}

TEST(Variants, WhatWasNotMeasuredIsRefused) {
  const Profile profile = make_profile({.layers = 2, .devices = 2});
  EXPECT_FALSE(has_variant(profile, variant_of(kChannelsLast)));
  try {
    (void)CostModel(profile, kChannelsLast);
    ADD_FAILURE() << "no error";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), ::testing::HasSubstr("no costs of sleep:0 in memory format channels_last"));
  }
  Profile half = testing::with_channels_last(testing::with_gpus(profile, 1), 0.5);
  EXPECT_TRUE(has_variant(half, variant_of(kChannelsLast)));
  half.classes.pop_back();
  EXPECT_FALSE(has_variant(half, variant_of(kChannelsLast))) << "the GPU's class has none";
}

TEST(Variants, ReplacedKernelsThatWereNotMeasuredChangeNothing) {
  const Profile profile = testing::with_channels_last(make_profile({.layers = 2, .devices = 2}), 0.5);
  for (const MemoryFormat format : {MemoryFormat::contiguous, MemoryFormat::channels_last}) {
    const ExecutionOptions replaced{.memory_format = format, .replace_slow_kernels = true};
    EXPECT_TRUE(has_variant(profile, variant_of(replaced)));
    EXPECT_EQ(CostModel(profile, replaced).layer(0, 1, 3).forward_s,
              CostModel(profile, ExecutionOptions{.memory_format = format}).layer(0, 1, 3).forward_s);
  }
}

TEST(Variants, ReplacedKernelsOfOneClassAreEnough) {
  Profile profile = testing::with_replaced_kernels(testing::with_gpus(make_profile({.layers = 2, .devices = 2}), 1), 0.5);
  const ExecutionOptions replaced{.replace_slow_kernels = true};
  for (const int left : {0, 1}) {
    Profile one = profile;
    one.classes.erase(one.classes.end() - 1 - left);
    EXPECT_EQ(CostModel(one, replaced).variant(), variant_of(replaced));
    EXPECT_EQ(CostModel(one, {}).variant(), ExecutionVariant());
  }
}

}  // namespace
}  // namespace mptune::planner

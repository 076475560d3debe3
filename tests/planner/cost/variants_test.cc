#include "planner/cost/variants.h"

#include <gmock/gmock.h>

#include "planner/cost/cost_model.h"
#include "profiler/base/error.h"
#include "tests/planner/profiles.h"
#include "tests/support/error_of.h"
#include "tests/support/variants.h"

namespace mptune::planner {
namespace {

using testing::make_profile;

constexpr ExecutionVariant kChannelsLast{.memory_format = MemoryFormat::channels_last};

TEST(Variants, APlansOptionsChooseItsPrices) {
  const Profile plain = make_profile({.layers = 3, .devices = 2}, {1, 2, 3});
  const Profile profile = testing::with_channels_last(plain, 0.5);
  const CostModel contiguous(profile), other(profile, kChannelsLast), back(other.profile(), ExecutionVariant());
  EXPECT_EQ(contiguous.variant(), ExecutionVariant());
  EXPECT_EQ(other.variant(), kChannelsLast);
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
  EXPECT_FALSE(has_variant(profile, kChannelsLast));
  try {
    (void)CostModel(profile, kChannelsLast);
    ADD_FAILURE() << "no error";
  } catch (const Error& error) {
    EXPECT_THAT(error.problem(), ::testing::HasSubstr("no costs of sleep:0 in memory format channels_last"));
  }
  Profile half = testing::with_channels_last(testing::with_gpus(profile, 1), 0.5);
  EXPECT_TRUE(has_variant(half, kChannelsLast));
  half.classes.pop_back();
  EXPECT_FALSE(has_variant(half, kChannelsLast)) << "the GPU's class has none";
}

TEST(Variants, ReplacedKernelsThatWereNotMeasuredChangeNothing) {
  const Profile profile = testing::with_channels_last(make_profile({.layers = 2, .devices = 2}), 0.5);
  for (const MemoryFormat format : {MemoryFormat::contiguous, MemoryFormat::channels_last}) {
    const ExecutionVariant replaced{format, true};
    EXPECT_TRUE(has_variant(profile, replaced));
    EXPECT_EQ(CostModel(profile, replaced).layer(0, 1, 3).forward_s,
              CostModel(profile, ExecutionVariant{.memory_format = format}).layer(0, 1, 3).forward_s);
  }
}

TEST(Variants, ReplacedKernelsOfOneClassAreEnough) {
  Profile profile = testing::with_replaced_kernels(testing::with_gpus(make_profile({.layers = 2, .devices = 2}), 1), 0.5);
  const ExecutionVariant replaced{.replaces_slow_kernels = true};
  for (const int left : {0, 1}) {
    Profile one = profile;
    one.classes.erase(one.classes.end() - 1 - left);
    EXPECT_EQ(CostModel(one, replaced).variant(), replaced);
    EXPECT_EQ(CostModel(one, ExecutionVariant()).variant(), ExecutionVariant());
  }
}

// Devices of 2, 1 and 2 cores. Layers take twice as long on one thread, and half as long in channels_last.
Profile profile_on_cores(bool channels_last) {
  Profile profile = testing::with_names(make_profile({.layers = 2, .devices = 3}), {"cpu:0-1", "cpu:2", "cpu:4-5"});
  profile.devices[1].device_class = 1;
  profile.classes.push_back(profile.classes[0]);
  if (channels_last) profile = testing::with_channels_last(profile, 0.5);
  DeviceClass one_thread = testing::with_variant(profile, {.threads = 1}, 2).classes[profile.classes.size()];
  profile.classes.push_back(one_thread);
  return profile;
}

Plan plan_on_cores(std::vector<int> threads) {
  Plan plan = testing::scheduled(testing::stages_of(2, {1, 1}, {4}), "1f1b");
  plan.devices = {"cpu:4-5", "cpu:0-1"};
  plan.options.threads = std::move(threads);
  return plan;
}

TEST(Variants, EachDeviceHasThePriceOfItsThreads) {
  const Profile profile = profile_on_cores(false);
  const auto seconds = [&](const CostModel& cost, int device) { return cost.layer(device, 0, 4).forward_s; };
  const CostModel plain(profile), one(profile, ExecutionVariant{.threads = 1}), more(profile, ExecutionVariant{.threads = 2});
  EXPECT_EQ(one.variant().threads, 1);
  EXPECT_EQ(more.variant(), ExecutionVariant());
  for (const int device : {0, 1, 2}) {
    EXPECT_EQ(seconds(one, device), (device == 1 ? 1 : 2) * seconds(plain, device)) << device;
    EXPECT_EQ(seconds(more, device), seconds(plain, device)) << device;
  }
  const CostModel mixed(profile, plan_on_cores({1, 2}));
  EXPECT_EQ(seconds(mixed, 0), seconds(plain, 0));
  EXPECT_EQ(seconds(mixed, 2), 2 * seconds(plain, 2));
  EXPECT_TRUE(has_costs_of(profile, plan_on_cores({1, 1})));
  EXPECT_EQ(CostModel(mixed.profile(), plan_on_cores({})).variant(), ExecutionVariant());
}

TEST(Variants, TheRemedyNamesTheOptionsThatMeasureWhatIsMissing) {
  const auto remedy = [](const Profile& profile, const ExecutionVariant& variant) {
    return testing::error_of([&] { (void)in_variant(profile, variant); }).remedy();
  };
  const Profile with_threads = profile_on_cores(false), with_both = profile_on_cores(true);
  Profile plain = with_threads;
  plain.classes.pop_back();
  EXPECT_EQ(remedy(plain, {.threads = 1}), "profile the model again with --threads 1");
  EXPECT_EQ(remedy(plain, {MemoryFormat::channels_last, false, 1}),
            "profile the model again with --threads 1 --memory-format channels_last");
  EXPECT_EQ(remedy(with_threads, {MemoryFormat::channels_last, false, 1}), "profile the model again with --memory-format channels_last");
  EXPECT_EQ(remedy(with_both, {MemoryFormat::channels_last, false, 1}),
            "profile the model again with --threads 1 --memory-format channels_last");
  EXPECT_FALSE(has_costs_of(plain, plan_on_cores({1, 2})));
  try {
    (void)CostModel(plain, plan_on_cores({2, 1}));
    ADD_FAILURE() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.problem(), "the profile has no costs of cpu:0-1 with 1 thread");
  }
}

TEST(Variants, GiveThePlansTheirOptions) {
  const ExecutionOptions options = options_in({MemoryFormat::channels_last, true, 3}, Precision::bf16, {"cpu:0-3", "cpu:4"});
  EXPECT_EQ(
      options,
      (ExecutionOptions{
          .memory_format = MemoryFormat::channels_last, .replace_slow_kernels = true, .precision = Precision::bf16, .threads = {3, 1}}));
  EXPECT_EQ(options_in({.threads = 3}, Precision::float32, {"cpu:0", "cpu:4-6"}), ExecutionOptions());
}

}  // namespace
}  // namespace mptune::planner

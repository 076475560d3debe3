#include "profiler/trace/analyze/class_sizes.h"

#include <gtest/gtest.h>

namespace mptune::profiler {
namespace {

void add_class(Profile& profile, const std::string& name, const ExecutionVariant& variant, const std::vector<int>& sizes) {
  DeviceClass& added = profile.classes.emplace_back();
  added.name = name;
  added.variant = variant;
  for (int layer = 0; layer < 2; ++layer) {
    LayerCosts& costs = added.layers.emplace_back();
    for (const int size : sizes) costs.by_samples.emplace_back().samples = size;
  }
}

TEST(ClassSizes, SayOfEachClassWhetherLargerOnesAreExtrapolated) {
  Profile profile;
  profile.batch = 8;
  add_class(profile, "cpu/1", {}, {1, 2, 4, 8});
  add_class(profile, "cpu/1", {.memory_format = MemoryFormat::channels_last}, {1, 2});
  add_class(profile, "cpu/1", {.replaces_slow_kernels = true}, {1});
  add_class(profile, "cpu/2", {.threads = 1}, {8});
  const std::vector<ClassSizes> all = class_sizes(profile);
  ASSERT_EQ(all.size(), 3U) << "with slow kernels replaced only some layers have costs of their own";
  EXPECT_EQ(all[0].name, "cpu/1");
  EXPECT_EQ(all[0].samples, (std::vector<int>{1, 2, 4, 8}));
  EXPECT_FALSE(all[0].extrapolated);
  EXPECT_EQ(all[1].variant.memory_format, MemoryFormat::channels_last);
  EXPECT_EQ(all[1].samples, (std::vector<int>{1, 2}));
  EXPECT_TRUE(all[1].extrapolated);
  EXPECT_EQ(all[2].variant.threads, 1);
  EXPECT_FALSE(all[2].extrapolated) << "the whole batch was measured";
}

TEST(ClassSizes, OfNothingAreNone) {
  EXPECT_TRUE(class_sizes({}).empty());
  Profile profile;
  profile.batch = 8;
  profile.classes.emplace_back();
  EXPECT_TRUE(class_sizes(profile).empty());
}

}  // namespace
}  // namespace mptune::profiler

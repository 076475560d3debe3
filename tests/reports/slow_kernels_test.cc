#include "reports/render/slow_kernels.h"

#include <gtest/gtest.h>

namespace mptune::reports {
namespace {

/// Three layers; the last two have slow kernels, the last one at 4 samples only.
Profile with_slow_kernels() {
  const auto cost = [](int samples, double seconds) {
    LayerCost value;
    value.samples = samples;
    value.forward = value.backward = exactly(seconds / 2);
    return value;
  };
  Profile profile;
  profile.layers.resize(3);
  profile.layers[1].name = "layer1.0";
  profile.layers[2].name = "layer4.2";
  DeviceClass plain;
  plain.name = "cpu/1";
  plain.layers.resize(3);
  plain.layers[0].by_samples = {cost(2, 1), cost(4, 2)};
  plain.layers[1].by_samples = {cost(2, 3), cost(4, 9)};
  plain.layers[2].by_samples = {cost(2, 1), cost(4, 10)};
  DeviceClass replaced = plain;
  replaced.variant = {.replaces_slow_kernels = true};
  replaced.variant_of = 0;
  replaced.layers[1].by_samples = {cost(2, 2), cost(4, 4)};
  replaced.layers[2].by_samples = {cost(2, 1), cost(4, 4)};
  profile.classes = {plain, replaced};
  profile.devices = {{"cpu:0", 0, 0}};
  return profile;
}

TEST(ReplacedKernelsText, NamesLayersSizesAndWorth) {
  const TextStyle style{.width = 120, .unicode = false, .color = false};
  EXPECT_EQ(slow_kernels_text(with_slow_kernels(), style),
            "\n" + heading(style, "Slow kernels") +
                "How many times as long forward and backward take with LibTorch's slow kernels as with oneDNN's, on cpu/1, contiguous:\n"
                "layer  name        2 samples  4 samples\n"
                "-----  ----------  ---------  ---------\n"
                "    1  layer1.0         1.50       2.25\n"
                "    2  layer4.2                    2.50\n"
                "       all layers       1.25       2.10\n");
  EXPECT_EQ(slow_kernels_text({}, style), "");
}

TEST(ReplacedKernelsJson, HoldsTheSame) {
  const planner::Json json = slow_kernels_json(with_slow_kernels());
  ASSERT_EQ(json.size(), 3U);
  EXPECT_EQ(json[2]["name"], "layer4.2");
  EXPECT_EQ(json[2]["layer"], 2);
  EXPECT_EQ(json[2]["samples"], 4);
  EXPECT_EQ(json[2]["devices"], "cpu/1");
  EXPECT_EQ(json[2]["memory_format"], "contiguous");
  EXPECT_EQ(json[2]["seconds"], 10);
  EXPECT_EQ(json[2]["replaced_seconds"], 4);
  EXPECT_EQ(json[2]["factor"], 2.5);
  EXPECT_TRUE(slow_kernels_json({}).empty());
}

}  // namespace
}  // namespace mptune::reports

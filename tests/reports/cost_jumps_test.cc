#include "reports/render/cost_jumps.h"

#include <gmock/gmock.h>

#include "profiler/base/units.h"

namespace mptune::reports {
namespace {

const std::string kWhat = "Layers of " + format_seconds(1e-3) +
                          " or more that take over 1.5 times as long per sample as at the next larger size, 1 % of the step or\nmore:\n";

Profile slow_at_eight() {
  Profile profile;
  profile.layers.resize(1);
  profile.layers[0].name = "layer4.0";
  profile.classes.resize(1);
  profile.classes[0].name = "cpu/1";
  profile.classes[0].layers.resize(1);
  for (const auto& [samples, seconds] : {std::pair(8, 0.04), std::pair(16, 0.02)}) {
    LayerCost& cost = profile.classes[0].layers[0].by_samples.emplace_back();
    cost.samples = samples;
    cost.forward = exactly(seconds / 4);
    cost.backward = exactly(3 * seconds / 4);
  }
  profile.devices = {{"cpu:0", 0, 0}};
  return profile;
}

TEST(CostJumpsText, NamesLayerSizesFactorOperatorsAndWorth) {
  Profile profile = slow_at_eight();
  const TextStyle style{.width = 120, .unicode = false, .color = false};
  EXPECT_EQ(cost_jumps_text(profile, style), "\n" + heading(style, "Cost jumps") + kWhat +
                                                 "layer  name      samples  against  per sample  of the step  devices\n"
                                                 "-----  --------  -------  -------  ----------  -----------  -------\n"
                                                 "    0  layer4.0        8       16   4.0 times         75 %  cpu/1\n");
  profile.operators = {{0, 0, 8, "aten::_slow_conv2d_backward", 0.61, 0.041, 0.0102},
                       {0, 0, 16, "aten::convolution_backward", 0.8, 0.02, 0}};
  EXPECT_EQ(cost_jumps_text(profile, style),
            "\n" + heading(style, "Cost jumps") + kWhat +
                "layer  name      samples  against  per sample  of the step  devices\n"
                "-----  --------  -------  -------  ----------  -----------  -------\n"
                "    0  layer4.0        8       16   4.0 times         75 %  cpu/1\n"
                "  61 % in aten::_slow_conv2d_backward, at 16 samples 80 % in aten::convolution_backward; 10.2 ms instead of 41.0 ms with\n"
                "  slow kernels replaced\n");
  profile.operators[1].name = profile.operators[0].name;
  EXPECT_THAT(cost_jumps_text(profile, style),
              ::testing::HasSubstr("\n  61 % in aten::_slow_conv2d_backward (80 % at 16 samples); 10.2 ms"));
  EXPECT_EQ(cost_jumps_text({}, style), "");
}

TEST(CostJumpsJson, HoldsTheSame) {
  Profile profile = slow_at_eight();
  planner::Json jump = cost_jumps_json(profile).at(0);
  EXPECT_EQ(jump["name"], "layer4.0");
  EXPECT_EQ(jump["samples"], 8);
  EXPECT_EQ(jump["larger_samples"], 16);
  EXPECT_EQ(jump["devices"], "cpu/1");
  EXPECT_NEAR(jump["factor"].get<double>(), 4, 1e-12);
  EXPECT_NEAR(jump["step_share"].get<double>(), 0.75, 1e-12);
  EXPECT_TRUE(jump["operator"].is_null());
  profile.operators = {{0, 0, 8, "aten::_slow_conv2d_backward", 0.61, 0.041, 0.0102}, {0, 0, 16, "aten::conv", 0.8, 0.02, 0}};
  jump = cost_jumps_json(profile).at(0);
  EXPECT_EQ(jump["operator"]["name"], "aten::_slow_conv2d_backward");
  EXPECT_EQ(jump["operator"]["replaced_seconds"], 0.0102);
  EXPECT_TRUE(jump["larger_operator"]["replaced_seconds"].is_null());
  EXPECT_TRUE(cost_jumps_json({}).empty());
}

}  // namespace
}  // namespace mptune::reports

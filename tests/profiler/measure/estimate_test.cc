#include "profiler/measure/estimate.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "profiler/base/error.h"
#include "profiler/base/index.h"
#include "tests/profiler/measure/measuring.h"

namespace mptune::testing {
namespace {

Profile estimate(const std::string& name, const std::string& input, int batch) {
  const Model model = load_model(name, input, 0).model;
  return profiler::estimate_profile(model, synthetic_batch(model.sample(), batch, 0), batch, {}, *find_hardware("h100_sxm"));
}

const LayerCost& cost_of(const Profile& profile, std::size_t layer, int samples) {
  return *std::ranges::find(profile.classes.at(0).layers.at(layer).by_samples, samples, &LayerCost::samples);
}

// Closed form: products over 0.70 of 67e12 operations per second, and some kernels besides.
TEST(Estimate, TimesOfProductsAreThoseOfTheirOperations) {
  const Profile profile = estimate("mlp:width=4096,layers=4", "", 1024);
  const double product_s = 2.0 * 1024 * 4096 * 4096 / (0.70 * 67e12);
  const LayerCost& middle = cost_of(profile, as_index(std::ssize(profile.layers) / 2), 1024);
  EXPECT_NEAR(median(middle.forward), product_s, 0.1 * product_s);
  EXPECT_NEAR(median(middle.backward), 2 * product_s, 0.2 * product_s);
  EXPECT_NEAR(median(middle.backward_input) + median(middle.backward_weight), median(middle.backward), 0.1 * product_s);
}

// The slow truth: what the CPU's allocator counts while the model runs.
TEST(Estimate, MemoryIsThatOfARun) {
  const std::vector<std::pair<std::string, std::string>> models = {{"transformer:d=32,layers=2,heads=2,seq=16,vocab=20", ""},
                                                                   {"bert:d=32,layers=2,heads=2,seq=16,vocab=20", ""},
                                                                   {"resnet18", "3x32x32"},
                                                                   {"vgg16:width=4,hidden=16", "3x32x32"},
                                                                   {"unet:base=4,depth=2", "3x16x16"},
                                                                   {"encoder-decoder-classifier:width=4,hidden=8", ""}};
  for (const auto& [name, input] : models) {
    const Model model = load_model(name, input, 0).model;
    const Profile measured = profiler::measure_profile(model, synthetic_batch(model.sample(), 4, 0), options_for(cpu_list(), 4));
    const Profile estimated = estimate(name, input, 4);
    ASSERT_EQ(estimated.layers.size(), measured.layers.size());
    EXPECT_EQ(estimated.edges, measured.edges) << name;
    for (std::size_t layer = 0; layer < measured.layers.size(); ++layer)
      for (const LayerCost& truth : measured.classes.at(0).layers.at(layer).by_samples) {
        const LayerCost& cost = cost_of(estimated, layer, truth.samples);
        const std::string where = name + ", " + measured.layers[layer].name + ", " + std::to_string(truth.samples);
        EXPECT_EQ(cost.output_bytes, truth.output_bytes) << where;
        EXPECT_EQ(cost.saved_activation_bytes, truth.saved_activation_bytes) << where;
        EXPECT_EQ(cost.keeps_output, truth.keeps_output) << where;
        ASSERT_TRUE(cost.split && truth.split) << where;
        EXPECT_EQ(cost.split->held_bytes, truth.split->held_bytes) << where;
      }
  }
}

TEST(Estimate, IsTheSameEveryTimeAndSaysWhatItIs) {
  const Profile profile = estimate(kTiny, "", 4);
  EXPECT_EQ(profile, estimate(kTiny, "", 4));
  EXPECT_EQ(profile.estimated, "h100_sxm");
  EXPECT_EQ(profile.devices.size(), 8U);
  EXPECT_EQ(profile.links.size(), 56U);
}

TEST(Estimate, RefusesAutocast) {
  Model model = load_model(kTiny, "", 0).model;
  model.compute_in(Precision::bf16);
  EXPECT_THROW((void)profiler::estimate_profile(model, synthetic_batch(model.sample(), 2, 0), 2, {}, *find_hardware("h100_sxm")), Error);
}

}  // namespace
}  // namespace mptune::testing

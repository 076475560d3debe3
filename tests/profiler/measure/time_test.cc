// What is measured where the time is short, and how the time is shared out.
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "profiler/measure/layer_operators.h"
#include "profiler/measure/layer_time.h"
#include "profiler/measure/size_choice.h"
#include "tests/profiler/measure/measuring.h"

namespace mptune::testing {
using namespace profiler;
namespace {

/// Sizes that are measured of these, and the time that their warm-ups and counted passes take, where a sample takes `sample_s` to warm up.
struct Chosen {
  std::vector<int> sizes;
  double seconds = 0;
};

Chosen choose(const std::vector<int>& sizes, double sample_s, double budget_s, double most_s) {
  SizeChoice choice(budget_s, most_s);
  Chosen chosen;
  double warm_ups_s = 0;
  for (const int size : sizes) {
    if (!choice.fits(size, warm_ups_s)) continue;
    warm_ups_s += sample_s * size;
    choice.add(size, {sample_s * size, sample_s * size / kPassesOfWarmUp});
    chosen.sizes.push_back(size);
    chosen.seconds += 3 * sample_s * size;
  }
  return chosen;
}

// By trying every number of sizes.
TEST(SizeChoice, TakesAsManyOfTheSmallestSizesAsThereIsTimeFor) {
  std::mt19937 random(3);
  std::uniform_real_distribution<double> exponent(-3, 3);
  for (int i = 0; i < 20000; ++i) {
    const std::vector<int> sizes = measured_sizes(1 + static_cast<int>(random() % 40));
    const double sample_s = std::pow(10, exponent(random)), budget_s = std::pow(10, exponent(random));
    const double most_s = budget_s * (1 + static_cast<double>(random() % 8));
    std::size_t count = 0;
    double all = 0;
    while (count < sizes.size() && 3 * sample_s * (all + sizes[count]) <= budget_s) all += sizes[count++];
    if (count == 0) count = 1;  // the smallest one in any case
    if (count == 1 && sizes.size() > 1 && sample_s * (sizes[0] + sizes[1]) <= most_s / 2) count = 2;
    const Chosen chosen = choose(sizes, sample_s, budget_s, most_s);
    EXPECT_EQ(chosen.sizes, std::vector<int>(sizes.begin(), sizes.begin() + static_cast<std::ptrdiff_t>(count)));
    if (count > 2) {
      EXPECT_LE(chosen.seconds, budget_s * (1 + 1e-9));
    }
  }
}

TEST(SizeChoice, BeginsWithTheEndsAndHalvesTheWidestGaps) {
  EXPECT_EQ(by_worth({1, 2, 4, 8, 16, 32}), (std::vector<int>{1, 2, 32, 8, 16, 4}));
  EXPECT_EQ(by_worth({1, 2, 3}), (std::vector<int>{1, 2, 3}));
  EXPECT_EQ(by_worth({1}), std::vector<int>{1});
  EXPECT_EQ(by_worth({}), std::vector<int>{});
  for (int batch = 1; batch < 300; ++batch) {
    const std::vector<int> sizes = measured_sizes(batch);
    std::vector<int> order = by_worth(sizes);
    // However many are taken, no other one would lie in a wider gap, by ratio.
    for (std::size_t count = 3; count < order.size(); ++count) {
      std::vector<int> taken(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(count));
      std::ranges::sort(taken);
      const auto gap = [&](int size) {
        const auto upper = std::ranges::upper_bound(taken, size);
        return std::ranges::binary_search(taken, size) ? 0.0 : static_cast<double>(*upper) / *std::prev(upper);
      };
      EXPECT_EQ(gap(order[count]), gap(std::ranges::max(sizes, {}, gap))) << batch;
    }
    std::ranges::sort(order);
    EXPECT_EQ(order, sizes) << batch;
  }
}

TEST(SizeChoice, KnowsWhetherTheLargestCanBeWarmedUp) {
  SizeChoice choice(10, 10);
  EXPECT_FALSE(choice.has_time_to_warm_up(1, 0)) << "nothing is known";
  choice.add(1, {0.5, 0.5 / kPassesOfWarmUp});
  EXPECT_TRUE(choice.has_time_to_warm_up(16, 2));
  EXPECT_FALSE(choice.has_time_to_warm_up(17, 2));
  choice.add(2, {0.5, 0.5 / kPassesOfWarmUp});
  EXPECT_TRUE(choice.has_time_to_warm_up(32, 2)) << "by the last size";
  choice.add(2, {4.5, 0.5 / kPassesOfWarmUp});
  EXPECT_TRUE(choice.has_time_to_warm_up(16, 2)) << "what happens once does not grow with the samples";
  EXPECT_FALSE(choice.has_time_to_warm_up(17, 2));
}

TEST(SizeChoice, WithoutLimitsAllFit) {
  SizeChoice choice;
  for (const int size : {1, 2, 1024}) {
    EXPECT_TRUE(choice.fits(size, 1e9));
    choice.add(size, {1e9, 1e9});
  }
}

// Parts take more or less than their time: those behind them share what is left, and together they end in time.
TEST(LayerTime, PartsShareWhatIsLeftByWeight) {
  std::mt19937 random(5);
  std::uniform_real_distribution<double> uniform(0, 1);
  for (int i = 0; i < 1000; ++i) {
    double now = 100, reported = 0;
    std::vector<double> weights(1 + random() % 6);
    for (double& weight : weights) weight = 0.1 + uniform(random);
    LayerTime time([&] { return now; }, 110, 140, std::accumulate(weights.begin(), weights.end(), 0.0),
                   [&](double fraction) { reported = fraction; });
    double later = std::accumulate(weights.begin(), weights.end(), 0.0);
    for (const double weight : weights) {
      EXPECT_NEAR(time.part(weight).budget_s, std::max(0.0, 110 - now) * weight / later, 1e-9);
      EXPECT_NEAR(time.part(weight).most_s, std::max(0.0, 140 - now) * weight / later, 1e-9);
      time.spend(weight, [&](const PartTime& part, const auto& progress) {
        now += part.budget_s * uniform(random);
        progress(1);
      });
      later -= weight;
    }
    EXPECT_LE(now, 110 + 1e-9);
    EXPECT_NEAR(reported, 1, 1e-9);
  }
  double now = 0;
  LayerTime time([&] { return now; }, 10, 40, 2, [](double) {});
  time.spend(1, [&](const PartTime&, const auto&) { now = 25; });
  EXPECT_EQ(time.part(1).budget_s, 0) << "nothing is left";
  EXPECT_EQ(time.part(1).most_s, 15);
}

TEST(JumpsWithin, TakesTheFirstThatFit) {
  Profile profile;
  DeviceClass& one = profile.classes.emplace_back();
  for (int layer = 0; layer < 3; ++layer) {
    LayerCosts& costs = one.layers.emplace_back();
    for (const int samples : {1, 2}) {
      LayerCost& cost = costs.by_samples.emplace_back();
      cost.samples = samples;
      cost.forward = exactly(samples);
      cost.backward = exactly(2.0 * samples);
    }
  }
  const std::vector<CostJump> jumps{{.layer = 0, .samples = 1, .larger_samples = 2}, {.layer = 2, .samples = 1, .larger_samples = 2}};
  constexpr int kPasses = 11;                                              // of 3 and 6 s
  const double first_s = kPasses * (3 + 6), second_s = first_s + (2 + 4);  // two layers in front
  for (const auto& [seconds, count] : {std::pair{first_s - 1, 0U}, {first_s, 1U}, {first_s + second_s - 1, 1U}, {first_s + second_s, 2U}})
    EXPECT_EQ(jumps_within(profile, jumps, seconds).size(), count) << seconds;
}

TEST(MeasureProfile, WithoutTimeTheSmallestSizeAndOneLinkAreMeasured) {
  MeasureOptions options = options_for(cpu_list(), 8);
  options.whole_machine = whole_machine_device(options.devices);
  options.keeps_budget = true;
  options.budget_s = 0;
  options.most_s = 0;
  std::vector<std::string> warnings;
  int passes = 0;
  options.warn = [&](const std::string& warning) { warnings.push_back(warning); };
  options.timed = [&](int samples, double seconds) {
    EXPECT_EQ(samples, 1);
    EXPECT_GT(seconds, 0);
    ++passes;
  };
  const Profile profile = measure_tiny(options);
  EXPECT_EQ(passes, static_cast<int>(profile.classes.size()));
  for (const DeviceClass& measured : profile.classes)
    for (const LayerCosts& layer : measured.layers) {
      ASSERT_EQ(layer.by_samples.size(), 1U);
      const LayerCost& cost = layer.by_samples.front();
      EXPECT_EQ(cost.samples, 1);
      expect_all_positive(cost.forward, "forward");
      expect_all_positive(cost.backward, "backward");
      expect_all_positive(cost.backward_input, "backward_input");
      EXPECT_EQ(cost.backward.size(), 1U) << "the warm-up counts";
      EXPECT_TRUE(cost.forward_busy.empty());
      EXPECT_TRUE(cost.split && cost.peaks);
      EXPECT_GT(cost.saved_activation_bytes, 0);
    }
  const std::size_t devices = options.devices.size();
  EXPECT_EQ(profile.links.size(), devices * (devices - 1));
  for (const LinkCost& link : profile.links) EXPECT_EQ(link.bytes_per_second, profile.links.front().bytes_per_second);
  EXPECT_TRUE(std::ranges::any_of(warnings, [](const std::string& text) { return text.find("extrapolated") != std::string::npos; }));
  if (devices > 1) {
    EXPECT_TRUE(std::ranges::any_of(warnings, [](const std::string& text) { return text.find("link") != std::string::npos; }));
  }
}

// A batch of 512 seems to take a core 512 times as long as a sample.
TEST(MeasureProfile, AllCoresAreMeasuredAtTheBatchOnceThatIsKnownToHaveTime) {
  MeasureOptions options = options_for(cpu_list(), 512);
  options.whole_machine = whole_machine_device(options.devices);
  if (options.whole_machine.empty()) GTEST_SKIP() << "needs two neighbouring cores";
  options.keeps_budget = true;
  options.budget_s = 30;
  const Profile profile = measure_tiny(options);
  for (const LayerCosts& layer : profile.classes.back().layers) {
    ASSERT_EQ(layer.by_samples.size(), 1U);
    EXPECT_EQ(layer.by_samples.front().samples, 512);
  }
}

TEST(MeasureProfile, WithTimeForTheLeastTwoSizesAreMeasured) {
  MeasureOptions options = options_for(cpu_list(), 8);
  options.keeps_budget = true;
  options.budget_s = 0;
  options.most_s = 1000;
  const Profile profile = measure_tiny(options);
  for (const LayerCosts& layer : profile.classes.at(0).layers) {
    ASSERT_EQ(layer.by_samples.size(), 2U) << "costs follow a line through two";
    EXPECT_EQ(layer.by_samples[1].samples, 2);
  }
}

}  // namespace
}  // namespace mptune::testing

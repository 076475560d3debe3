#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <random>

#include "planner/simulate/simulate.h"
#include "profiler/base/error.h"
#include "tests/planner/profiles.h"
#include "tests/planner/random_plans.h"

namespace mptune::planner {
namespace {

using testing::make_profile;
using testing::random_plan;

void scale(Samples& samples, double factor) {
  for (Sample& sample : samples.values) sample.value *= factor;
}

// The same profile of a machine that is slower in all it does.
Profile slower(Profile profile, double factor) {
  for (DeviceClass& device_class : profile.classes) {
    for (LayerCosts& layer : device_class.layers) {
      for (LayerCost& cost : layer.by_samples)
        for (Samples* samples : {&cost.forward, &cost.backward, &cost.forward_busy, &cost.backward_busy}) scale(*samples, factor);
    }
    device_class.action_seconds *= factor;
    device_class.step_seconds *= factor;
    device_class.optimizer_seconds_per_byte *= factor;
    device_class.reduce_seconds_per_byte *= factor;
  }
  for (LinkCost& link : profile.links) {
    link.latency_s *= factor;
    link.bytes_per_second /= factor;
  }
  return profile;
}

// The same model with larger tensors.
Profile larger(Profile profile, std::int64_t factor) {
  for (LayerCosts& layer : profile.classes[0].layers) {
    for (LayerCost& cost : layer.by_samples) {
      cost.saved_activation_bytes *= factor;
      cost.workspace_bytes *= factor;
    }
  }
  for (LayerEdge& edge : profile.edges) edge.bytes_per_sample *= factor;
  for (ProfileLayer& layer : profile.layers) layer.parameters_bytes *= factor;
  for (LinkCost& link : profile.links) link.bytes_per_second = 0;
  profile.classes[0].optimizer_seconds_per_byte = profile.classes[0].reduce_seconds_per_byte = 0;
  return profile;
}

TEST(Countable, NoStepIsLongerThanTheBoundOfAllPlans) {
  std::mt19937 random(5);
  for (int round = 0; round < 100; ++round) {
    testing::ProfileShape shape = testing::random_shape(random, 7, 4);
    shape.busy = round % 2 == 0 ? 1 : 1.7;
    if (round % 3 == 0) shape.reduce_s_per_byte = 1e-3;
    Profile profile = make_profile(shape, testing::random_factors(random, 7));
    if (round % 2 == 0) profile = testing::with_gpus(profile, 0);
    const Plan plan = random_plan(random, 7, 4);
    const double step_s = predict(plan, CostModel(profile)).step_s;
    EXPECT_THROW((void)predict(plan, CostModel(slower(profile, 1.01e9 / step_s))), Error) << round;
    EXPECT_NO_THROW((void)predict(plan, CostModel(slower(profile, 1e6 / step_s)))) << round;
  }
}

TEST(Countable, NoPeakIsHigherThanTheBoundOfAllPlans) {
  std::mt19937 random(6);
  for (int round = 0; round < 100; ++round) {
    const Profile profile = make_profile(testing::random_shape(random, 7, 4), testing::random_factors(random, 7));
    const Plan plan = random_plan(random, 7, 4);
    const std::vector<std::int64_t> peaks = CostModel(profile).peak_bytes(plan);
    const std::int64_t most = *std::max_element(peaks.begin(), peaks.end());
    const CostModel too_large(larger(profile, (std::int64_t{1} << 60) / most + 1));
    EXPECT_THROW((void)too_large.peak_bytes(plan), Error) << round;
    EXPECT_THROW((void)too_large.peak_bytes(plan, 0), Error) << round;
    EXPECT_NO_THROW((void)CostModel(larger(profile, (std::int64_t{1} << 50) / most)).peak_bytes(plan)) << round;
  }
}

}  // namespace
}  // namespace mptune::planner

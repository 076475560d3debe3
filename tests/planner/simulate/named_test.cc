// The named schedules under the simulator: closed forms for equal stages, and laws that hold for all of them.
#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "planner/schedule/schedule.h"
#include "planner/schedule/schedule_info.h"
#include "planner/simulate/simulate.h"
#include "tests/planner/profiles.h"
#include "tests/planner/random_plans.h"

namespace mptune::planner {
namespace {

// The textbook's map of stages to devices, with rows made without costs.
Plan named_plan(const std::string& name, int layers, int devices, int virtual_stages, const std::vector<int>& sizes) {
  const std::vector<int> map = stage_devices(name, devices, virtual_stages);
  Plan plan = testing::stages_of(layers, std::vector<int>(map.size(), 1), sizes, devices);
  for (std::size_t s = 0; s < map.size(); ++s) plan.stages[s].devices = {map[s]};
  make_schedule(plan, name);
  return plan;
}

int virtual_stages_of(const std::string& name) {
  for (const char* two : {"interleaved", "looped-bfs", "zbv", "v-half", "v-min", "dualpipe-v", "list"})
    if (name == two) return 2;
  return 1;
}

// Milliseconds of a step whose stages take 1 for a forward, 1 for the input and 1 for the weight gradients.
double step_ms(const std::string& name, int devices, int virtual_stages, int m) {
  const CostModel cost(testing::make_profile({.layers = devices * virtual_stages, .devices = devices}));
  return predict(named_plan(name, devices * virtual_stages, devices, virtual_stages, testing::ones(m)), cost).step_s * 1e3;
}

// p devices, m micro-batches, free links; with V stages on a device each is a V-th of the device's work:
//     gpipe, 1f1b   (m + p - 1) (F + B)            Huang et al. 2019; Narayanan et al. 2019
//     interleaved   V m (F + B) + (p - 1) (F + B)  for m a multiple of p; Narayanan et al. 2021
//     zb1p          m (F + B) + (p - 1) (F + I - W)  Qi et al. 2024, for m >= p
TEST(NamedSchedules, EqualStagesTakeTheTextbookTime) {
  for (int p = 1; p <= 6; ++p) {
    for (int m = p; m <= 3 * p; ++m) {
      EXPECT_NEAR(step_ms("gpipe", p, 1, m), (m + p - 1) * 3, 1e-5) << p << " " << m;
      EXPECT_NEAR(step_ms("1f1b", p, 1, m), (m + p - 1) * 3, 1e-5) << p << " " << m;
      EXPECT_NEAR(step_ms("zb1p", p, 1, m), m * 3 + (p - 1), 1e-5) << p << " " << m;
      if (m % p != 0) continue;
      for (int v = 2; v <= 3; ++v) EXPECT_NEAR(step_ms("interleaved", p, v, m), (v * m + p - 1) * 3, 1e-5) << p << " " << m << " " << v;
    }
  }
}

TEST(NamedSchedules, NoneTakesLessThanItsLowerBound) {
  std::mt19937 random(41);
  for (int round = 0; round < 100; ++round) {
    const int devices = std::uniform_int_distribution<int>(1, 4)(random);
    const CostModel cost = testing::random_cost(random, 10, devices);
    for (const std::string& name : schedule_names()) {
      const int m = name == "naive" ? 1 : std::uniform_int_distribution<int>(1, 9)(random);
      const Plan plan = named_plan(name, 10, devices, virtual_stages_of(name), split_evenly(12, m));
      const Prediction prediction = predict(plan, cost);
      EXPECT_LE(prediction.lower_bound_s, prediction.step_s) << name;
      EXPECT_GT(prediction.lower_bound_s, 0.3 * prediction.step_s) << name << " " << devices << " " << m;
    }
  }
}

}  // namespace
}  // namespace mptune::planner

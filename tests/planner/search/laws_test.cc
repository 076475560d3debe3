// What must hold of every answer: against brute force over warm-ups and cuts, and when a space or its costs change.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "planner/schedule/warm_ups.h"
#include "planner/search/make_plan.h"
#include "planner/search/search.h"
#include "profiler/base/index.h"
#include "tests/planner/profiles.h"
#include "tests/planner/search/spaces.h"
#include "tests/support/cases.h"

namespace mptune::testing {
namespace {

struct Drawn {
  ProfileShape shape;
  std::vector<double> factors;
  SearchSpace space;

  [[nodiscard]] SearchResult answer() const { return search_plans(space, CostModel(make_profile(shape, factors))); }
  [[nodiscard]] double step_s() const { return answer().ranked.at(0).prediction.step_s; }
};

// A pipeline of whole backwards over all devices, links of 0.1 to 10 times what keeps up with a layer.
Drawn drawn(unsigned seed, int most_layers, int most_devices, int most_microbatches) {
  std::mt19937 random(seed);
  const auto draw = [&](int low, int high) { return std::uniform_int_distribution<int>(low, high)(random); };
  Drawn made;
  const int devices = draw(2, most_devices), layers = draw(devices, most_layers);
  made.shape.layers = layers;
  made.shape.devices = devices;
  made.shape.bytes_per_second = 1e5 * std::pow(10.0, std::uniform_real_distribution<double>(-1, 1)(random));
  made.shape.latency_s = draw(0, 2) * 1e-4;
  made.shape.action_s = draw(0, 1) * 1e-5;
  made.factors = random_factors(random, layers);
  made.space.devices = names(devices);
  made.space.batch = draw(2, most_microbatches);
  made.space.microbatch_counts = {made.space.batch};
  made.space.stage_counts = {devices};
  made.space.virtual_counts = {1};
  made.space.replicas = std::vector<int>(as_index(devices), 1);
  made.space.schedules = {"gpipe", "1f1b", "eager-1f1b"};
  made.space.keep = 1;
  return made;
}

// Calls `use` with all ascending choices of `count` cuts.
void for_cuts(int layers, int count, std::vector<int>& cuts, const std::function<void()>& use) {
  if (count == 0) return use();
  for (int cut = cuts.empty() ? 1 : cuts.back() + 1; cut < layers; ++cut) {
    cuts.push_back(cut);
    for_cuts(layers, count - 1, cuts, use);
    cuts.pop_back();
  }
}

void for_warm_ups(std::size_t stages, int most, std::vector<int>& warm_ups, const std::function<void()>& use) {
  if (warm_ups.size() == stages) return use();
  for (int w = 1; w <= most; ++w) {
    warm_ups.push_back(w);
    for_warm_ups(stages, w, warm_ups, use);
    warm_ups.pop_back();
  }
}

double least_over_warm_ups_and_cuts(const Drawn& given) {
  const CostModel cost(make_profile(given.shape, given.factors));
  const int devices = given.shape.devices;
  double least = std::numeric_limits<double>::infinity();
  std::vector<int> cuts, warm_ups;
  for_cuts(given.shape.layers, devices - 1, cuts, [&] {
    PlanOptions options = options_of(given.space.devices, given.space.batch, given.shape.layers);
    options.microbatches = given.space.batch;
    options.cuts = cuts;
    Plan plan = make_plan(options);
    const planner::Layout layout(plan);
    for_warm_ups(as_index(devices), given.space.batch, warm_ups, [&] {
      plan.actions = planner::one_forward_one_backward(layout, warm_ups);
      least = std::min(least, predict(plan, cost).step_s);
    });
  });
  return least;
}

TEST(SearchLaws, NoWarmUpsAndCutsAreFasterThanTheAnswer) {
  for (int seed = 0; seed < testing::cases(500); ++seed) {
    const Drawn given = drawn(seed, seed % 5 == 0 ? 10 : 6, 3, 5);
    const SearchResult result = given.answer();
    EXPECT_TRUE(result.complete) << seed;
    EXPECT_NEAR(result.ranked.at(0).prediction.step_s, least_over_warm_ups_and_cuts(given), 1e-12) << seed;
  }
}

TEST(SearchLaws, FasterLinksSmallerCostsMoreMemoryAndMoreChoiceAreNeverSlower) {
  for (int seed = 0; seed < testing::cases(500); ++seed) {
    const Drawn given = drawn(seed, 5, 3, 5);
    const double step_s = given.step_s();
    Drawn other = given;
    other.shape.bytes_per_second *= 1.7;
    EXPECT_LE(other.step_s(), step_s) << "faster links, " << seed;
    other = given;
    other.factors[seed % other.factors.size()] *= 0.8;
    EXPECT_LE(other.step_s(), step_s) << "a smaller cost, " << seed;
    other = given;
    other.space.schedules.pop_back();
    EXPECT_GE(other.step_s(), step_s) << "one choice less, " << seed;
    other = given;
    for (double* seconds : {&other.shape.forward_s, &other.shape.backward_s, &other.shape.latency_s, &other.shape.action_s}) *seconds *= 2;
    other.shape.bytes_per_second /= 2;
    EXPECT_NEAR(other.step_s(), 2 * step_s, 1e-6 * step_s) << "all times doubled, " << seed;
  }
}

TEST(SearchLaws, MoreMemoryIsNeverSlower) {
  int slower = 0;
  for (int seed = 0; seed < testing::cases(500); ++seed) {
    Drawn given = drawn(seed, 5, 3, 5);
    const double free_s = given.step_s();
    const CostModel cost(make_profile(given.shape, given.factors));
    std::int64_t peak = 0;
    for (const Candidate& candidate : given.answer().ranked) peak = std::max(peak, std::ranges::max(candidate.prediction.peak_bytes));
    double before_s = std::numeric_limits<double>::infinity();
    for (const int percent : {60, 80, 90, 100}) {
      given.space.memory_bytes.assign(given.space.devices.size(), peak * percent / 100);
      const SearchResult result = given.answer();
      const double step_s = result.ranked.empty() ? std::numeric_limits<double>::infinity() : result.ranked[0].prediction.step_s;
      EXPECT_LE(step_s, before_s) << seed << ", " << percent << " % of the memory";
      EXPECT_GE(step_s, free_s) << seed << ", " << percent << " % of the memory";
      before_s = step_s;
      slower += step_s > free_s ? 1 : 0;
    }
  }
  EXPECT_GT(slower, testing::cases(100));
}

// What is recomputed early takes time that a device may have to wait anyway; nothing makes the rest of the step shorter.
TEST(SearchLaws, RecomputationIsNeverFaster) {
  for (int seed = 0; seed < testing::cases(500); ++seed) {
    const Drawn given = drawn(seed, 5, 3, 5);
    const CostModel cost(make_profile(given.shape, given.factors));
    Plan plan = given.answer().ranked.at(0).plan;
    const double step_s = predict(plan, cost).step_s;
    std::mt19937 random(seed);
    for (Stage& stage : plan.stages)
      if (random() % 2 == 0) stage.recompute.mode = Recompute::Mode::all;
    EXPECT_GE(predict(plan, cost).step_s, step_s) << seed;
  }
}

}  // namespace
}  // namespace mptune::testing

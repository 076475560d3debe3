#include "planner/published/closed_form.h"
#include "profiler/base/index.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <string>

#include "profiler/base/error.h"
#include "tests/planner/partition/problems.h"

namespace mptune::planner {
namespace {

struct Chain {
  Profile profile;
  PartitionProblem problem;
};

Chain random_chain(std::mt19937& random) {
  const auto draw = [&](int low, int high) { return std::uniform_int_distribution<int>(low, high)(random); };
  const int layers = draw(2, 9);
  const int stages = draw(1, std::min(6, layers));
  testing::ProfileShape shape = testing::random_shape(random, layers, stages);
  shape.sender_copies = false;
  shape.busy = draw(0, 1) == 0 ? 1 : 1.3;
  Chain chain{testing::make_profile(shape, testing::random_factors(random, layers)), testing::straight(stages, {})};
  for (LayerEdge& edge : chain.profile.edges) {
    edge.bytes_per_sample = draw(1, 3000);
    edge.needs_gradient = draw(0, 5) > 0;
  }
  if (layers > 2 && stages < layers - 1 && draw(0, 3) == 0) chain.profile.forbidden_cuts.push_back({draw(1, layers - 1), "works in place"});
  chain.profile.optimizer_state_factor = draw(0, 2);
  chain.problem.microbatch_sizes.assign(as_index(draw(1, 9)), draw(1, 4));
  return chain;
}

Plan plan_with(const Chain& chain, const std::vector<int>& cuts) {
  Plan plan;
  plan.devices = chain.problem.devices;
  plan.microbatch_sizes = chain.problem.microbatch_sizes;
  std::vector<int> bounds = {0};
  bounds.insert(bounds.end(), cuts.begin(), cuts.end());
  bounds.push_back(static_cast<int>(chain.profile.layers.size()));
  for (std::size_t s = 0; s + 1 < bounds.size(); ++s) plan.stages.push_back({bounds[s], bounds[s + 1], {static_cast<int>(s)}, {}});
  return testing::scheduled(plan, "1f1b");
}

void for_each_plan(const Chain& chain, const CostModel& cost, std::vector<int> cuts, const std::function<void(Plan)>& visit) {
  if (cuts.size() + 1 == chain.problem.stages.size()) return visit(plan_with(chain, cuts));
  const int behind = static_cast<int>(chain.problem.stages.size() - cuts.size()) - 2;
  for (int cut = cuts.empty() ? 1 : cuts.back() + 1; cut < cost.layers() - behind; ++cut) {
    if (!cost.may_cut(cut)) continue;
    std::vector<int> more = cuts;
    more.push_back(cut);
    for_each_plan(chain, cost, more, visit);
  }
}

// The formula, written out with the cost model's own sums.
std::int64_t formula_ns(const Plan& plan, const CostModel& cost) {
  std::int64_t sum = 0;
  std::int64_t largest = 0;
  const auto add = [&](double seconds) {
    sum += std::llround(seconds * 1e9);
    largest = std::max<std::int64_t>(largest, std::llround(seconds * 1e9));
  };
  const int samples = plan.microbatch_sizes.front();
  for (int s = 0; s < plan.num_stages(); ++s) {
    const Stage& stage = plan.stages[as_index(s)];
    double seconds = 2 * cost.action_seconds(s);
    for (int layer = stage.first_layer; layer < stage.last_layer; ++layer) {
      const LayerTimes times = cost.layer(s, layer, samples);
      const bool alone = plan.num_stages() == 1;
      seconds += alone ? times.forward_s + times.backward_s : times.forward_busy_s + times.backward_busy_s;
    }
    add(seconds);
    if (s == 0) continue;
    add(cost.copy_seconds(s - 1, s, cost.boundary_bytes(stage.first_layer, samples, false)));
    add(cost.copy_seconds(s, s - 1, cost.boundary_bytes(stage.first_layer, samples, true)));
  }
  return sum + (plan.num_microbatches() - 1) * largest;
}

TEST(ClosedForm, IsTheFormula) {
  std::mt19937 random(1);
  for (int trial = 0; trial < 200; ++trial) {
    const Chain chain = random_chain(random);
    const CostModel cost(chain.profile);
    for_each_plan(chain, cost, {}, [&](const Plan& plan) {
      // Each of up to nine numbers is rounded once or twice, the largest then counts up to nine times.
      ASSERT_NEAR(static_cast<double>(closed_form_ns(plan, cost)), static_cast<double>(formula_ns(plan, cost)), 40);
    });
  }
}

// K equal stages, copies of no length: M + K - 1 turns, the textbook's 1f1b and the simulator's.
TEST(ClosedForm, EqualStagesTakeTheTextbooksTurns) {
  const CostModel cost(testing::make_profile(testing::ProfileShape{.layers = 8, .devices = 4}));
  Chain chain{cost.profile(), testing::straight(4, testing::ones(12))};
  const Plan plan = plan_with(chain, {2, 4, 6});
  EXPECT_EQ(closed_form_ns(plan, cost), (12 + 4 - 1) * 6'000'000);
  EXPECT_DOUBLE_EQ(predict(plan, cost).step_s, 15 * 0.006);
}

TEST(ClosedForm, BestCutsAreThoseOfBruteForce) {
  std::mt19937 random(2);
  int without_plan = 0;
  for (int trial = 0; trial < 600; ++trial) {
    Chain chain = random_chain(random);
    const CostModel cost(chain.profile);
    if (trial % 2 == 1)
      chain.problem.memory_bytes.assign(chain.problem.devices.size(), std::uniform_int_distribution<std::int64_t>(3000, 60000)(random));
    std::int64_t least = PartitionResult::kNoPlan;
    std::int64_t excess = PartitionResult::kNoPlan;
    for_each_plan(chain, cost, {}, [&](const Plan& plan) {
      const std::vector<std::int64_t> peaks = cost.peak_bytes(plan);
      const std::int64_t cap = chain.problem.memory_bytes.empty() ? PartitionResult::kNoPlan : chain.problem.memory_bytes.front();
      const std::int64_t over = *std::max_element(peaks.begin(), peaks.end()) - cap;
      if (over <= 0) least = std::min(least, closed_form_ns(plan, cost));
      excess = std::min(excess, std::max<std::int64_t>(0, over));
    });
    const PartitionResult result = closed_form_partition(chain.problem, cost);
    ASSERT_TRUE(result.complete);
    ASSERT_EQ(result.lower_bound_ns, least) << trial;
    ASSERT_EQ(result.best.empty(), least == PartitionResult::kNoPlan);
    without_plan += result.best.empty() ? 1 : 0;
    ASSERT_EQ(result.smallest_excess_bytes, result.best.empty() && excess != PartitionResult::kNoPlan ? excess : 0) << trial;
    if (result.best.empty()) continue;
    ASSERT_EQ(result.best.front().step_ns, least);
    ASSERT_EQ(closed_form_ns(result.best.front().plan, cost), least);
    ASSERT_NO_THROW(validate(result.best.front().plan, cost.layers(), "test"));
  }
  EXPECT_GT(without_plan, 20);
}

TEST(ClosedForm, RecomputesStagesThatDoNotFitElse) {
  std::mt19937 random(5);
  int recomputing = 0;
  for (int trial = 0; trial < 200; ++trial) {
    Chain chain = random_chain(random);
    for (LayerEdge& edge : chain.profile.edges) edge.bytes_per_sample = 50;
    const CostModel cost(chain.profile);
    const std::int64_t cap = std::uniform_int_distribution<std::int64_t>(5000, 20000)(random);
    chain.problem.memory_bytes.assign(chain.problem.devices.size(), cap);
    chain.problem.recompute_for_memory = true;
    std::int64_t least = PartitionResult::kNoPlan;
    for_each_plan(chain, cost, {}, [&](Plan plan) {
      const std::vector<std::int64_t> before = cost.peak_bytes(plan);
      for (std::size_t s = 0; s < before.size(); ++s)
        if (before[s] > cap) plan.stages[s].recompute.mode = Recompute::Mode::all;
      const std::vector<std::int64_t> peaks = cost.peak_bytes(plan);
      if (*std::max_element(peaks.begin(), peaks.end()) <= cap) least = std::min(least, closed_form_ns(plan, cost));
    });
    const PartitionResult result = closed_form_partition(chain.problem, cost);
    ASSERT_EQ(result.lower_bound_ns, least) << trial;
    if (result.best.empty()) continue;
    EXPECT_LE(result.best.front().peak_bytes, cap);
    recomputing +=
        std::ranges::any_of(result.best.front().plan.stages, [](const Stage& s) { return s.recompute.mode != Recompute::Mode::none; }) ? 1
                                                                                                                                       : 0;
  }
  EXPECT_GT(recomputing, 20);
}

TEST(ClosedForm, KeepsToTheLongestThatIsOfInterest) {
  std::mt19937 random(4);
  const Chain chain = random_chain(random);
  const CostModel cost(chain.profile);
  PartitionProblem problem = chain.problem;
  const std::int64_t least = closed_form_partition(problem, cost).lower_bound_ns;
  problem.longest_ns = least;
  EXPECT_EQ(closed_form_partition(problem, cost).best.size(), 1U);
  problem.longest_ns = least - 1;
  const PartitionResult none = closed_form_partition(problem, cost);
  EXPECT_TRUE(none.best.empty());
  EXPECT_EQ(none.lower_bound_ns, least);
}

TEST(ClosedForm, RefusesOtherFamilies) {
  const CostModel cost(testing::make_profile(testing::ProfileShape{}));
  PartitionProblem problem = testing::straight(2, testing::ones(2));
  problem.schedule = "gpipe";
  EXPECT_THROW(static_cast<void>(closed_form_partition(problem, cost)), Error);
  problem = testing::straight(2, testing::ones(2));
  problem.stages = {{0, 1}};
  EXPECT_THROW(static_cast<void>(closed_form_partition(problem, cost)), Error);
  problem.stages = {{0}, {0}};
  EXPECT_THROW(static_cast<void>(closed_form_partition(problem, cost)), Error);
  problem = testing::straight(2, testing::ones(2));
  problem.recomputed = {0};
  EXPECT_THROW(static_cast<void>(closed_form_partition(problem, cost)), Error);
}

TEST(ClosedForm, RefusesMoreLayersThanItsTablesHold) {
  const CostModel cost(testing::make_profile({.layers = 10'000, .devices = 8}));
  try {
    static_cast<void>(closed_form_partition(testing::straight(8, {1, 1}), cost));
    FAIL();
  } catch (const Error& error) {
    EXPECT_NE(error.problem().find("8 stages of 10000 layers take tables of about 11.9 GiB, more than the 477 MiB"), std::string::npos)
        << error.problem();
  }
}

}  // namespace
}  // namespace mptune::planner

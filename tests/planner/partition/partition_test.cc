#include "planner/partition/partition.h"

#include <gmock/gmock.h>

#include <limits>

#include "profiler/base/error.h"
#include "tests/benchmarks/public_chains.h"
#include "tests/planner/partition/problems.h"

namespace mptune::planner {
namespace {

using testing::cuts_of;
using testing::make_profile;
using testing::ones;
using testing::straight;

TEST(Partition, SplitsEqualLayersEqually) {
  const CostModel cost(make_profile({.layers = 8, .devices = 4, .bytes_per_second = 1e9}));
  const PartitionResult result = partition(straight(4, ones(8)), cost);
  ASSERT_EQ(result.best.size(), 1U);
  EXPECT_THAT(cuts_of(result.best.front().plan), ::testing::ElementsAre(2, 4, 6));
  EXPECT_TRUE(result.complete);
  EXPECT_EQ(result.gap(), 0);
  EXPECT_EQ(result.lower_bound_ns, result.best.front().step_ns);
}

TEST(Partition, RefusesFamiliesThatAreNone) {
  const CostModel cost(make_profile({.layers = 4, .devices = 2}));
  EXPECT_THROW(static_cast<void>(partition(straight(0, ones(2)), cost)), Error);
  EXPECT_THROW(static_cast<void>(partition(straight(2, {}), cost)), Error);
  EXPECT_THROW(static_cast<void>(partition(straight(2, {3, 1}), cost)), Error);
  EXPECT_THROW(static_cast<void>(partition(straight(3, ones(2)), cost)), Error);
  EXPECT_THROW(static_cast<void>(partition(straight(2, ones(2), "2f2b"), cost)), Error);
  PartitionProblem problem = straight(2, ones(2));
  problem.memory_bytes = {1000};
  EXPECT_THROW(static_cast<void>(partition(problem, cost)), Error);
  problem = straight(2, ones(2));
  problem.stages[1] = {7};
  EXPECT_THROW(static_cast<void>(partition(problem, cost)), Error);
  problem.stages[1] = {};
  EXPECT_THROW(static_cast<void>(partition(problem, cost)), Error);
}

TEST(Partition, ProvesEveryPublicChain) {
  const std::vector<testing::PublicChain> chains = testing::public_chains();
  if (chains.empty()) {
    GTEST_SKIP() << "no published chains here";
  }
  for (const testing::PublicChain& chain : chains) {
    for (const int stages : {2, 4, 8}) {
      if (stages > static_cast<int>(chain.profile.layers.size())) continue;
      for (const double bytes_per_second : {12e9, 300e9}) {
        SCOPED_TRACE(chain.name + " " + std::to_string(stages));
        const CostModel cost(testing::on_devices(chain.profile, stages, bytes_per_second));
        PartitionProblem problem = testing::chain_problem(chain, stages, 8);
        problem.most_nodes = 1'000'000;
        const PartitionResult result = partition(problem, cost);
        ASSERT_EQ(result.best.size(), 1U);
        EXPECT_EQ(testing::step_ns(result.best.front().plan, cost), result.best.front().step_ns);
        EXPECT_LE(result.gap(), cost.layers() > 100 ? 0.02 : 0);
        EXPECT_TRUE(result.complete || cost.layers() > 100);
        EXPECT_EQ(result.gap() == 0, result.complete);
      }
    }
  }
}

// With equal stages and no copies 1F1B takes (M + K - 1) (f + b): no cut can do better, as every device has as much to do.
TEST(Partition, ReachesTheTextbooksStep) {
  const CostModel cost(make_profile({.layers = 12, .devices = 4}));
  const PartitionResult result = partition(straight(4, ones(8)), cost);
  EXPECT_EQ(result.best.front().step_ns, (8 + 4 - 1) * 3 * 3'000'000);
}

TEST(Partition, AnswersForFamiliesWithoutPlans) {
  Profile profile = make_profile({.layers = 4, .devices = 4});
  PartitionResult result = partition(straight(4, ones(2)), CostModel(make_profile({.layers = 3, .devices = 4})));
  EXPECT_TRUE(result.best.empty());
  EXPECT_EQ(result.lower_bound_ns, PartitionResult::kNoPlan);
  profile.forbidden_cuts = {{2, "they share a tensor"}};
  result = partition(straight(4, ones(2)), CostModel(profile));
  EXPECT_TRUE(result.best.empty() && result.complete);
  EXPECT_EQ(result.lower_bound_ns, PartitionResult::kNoPlan);
  EXPECT_EQ(result.smallest_excess_bytes, 0);
  EXPECT_EQ(result.gap(), std::numeric_limits<double>::infinity());
}

// Every plan of zb1p is a simulation: the limits hold for the first plans as for the search.
TEST(Partition, EndsAtItsLimitsWhileItClimbs) {
  const CostModel cost(
      make_profile({.layers = 24, .devices = 6}, {1, 5, 2, 8, 3, 9, 4, 7, 6, 2, 5, 1, 8, 3, 9, 2, 7, 4, 6, 1, 5, 8, 2, 3}));
  for (const int most : {0, 1, 10, 20, 30}) {
    SCOPED_TRACE(most);
    PartitionProblem problem = straight(6, ones(6), "zb1p");
    problem.most_nodes = most;
    const PartitionResult limited = partition(problem, cost);
    EXPECT_FALSE(limited.complete);
    EXPECT_EQ(limited.best.size(), 1U);
    EXPECT_LE(limited.simulated, most + 2);  // the two balanced plans are always looked at
    problem = straight(6, ones(6), "zb1p");
    int questions = 0;
    problem.stop = [&] { return questions++ >= most; };
    const PartitionResult stopped = partition(problem, cost);
    EXPECT_FALSE(stopped.complete);
    EXPECT_LE(stopped.simulated, most + 2);
  }
}

TEST(Partition, SimulatesNoPlanTwice) {
  const CostModel cost(make_profile({.layers = 8, .devices = 2, .bytes_per_second = 1e9}));
  PartitionProblem problem = straight(2, ones(4), "zb1p");
  problem.keep = 7;
  const PartitionResult alone = partition(problem, cost);
  EXPECT_EQ(alone.simulated, 7);
  KnownRates known;
  problem.known = &known;
  EXPECT_EQ(partition(problem, cost).simulated, 7);
  const PartitionResult again = partition(problem, cost);
  EXPECT_EQ(again.simulated, 0);
  ASSERT_EQ(again.best.size(), alone.best.size());
  for (std::size_t k = 0; k < alone.best.size(); ++k) EXPECT_EQ(again.best[k].plan, alone.best[k].plan);
}

TEST(Partition, CutsFiveThousandLayers) {
  const CostModel cost(make_profile({.layers = 5'000, .devices = 2}));
  PartitionProblem problem = straight(2, ones(2));
  const PartitionResult best = partition(problem, cost);
  ASSERT_TRUE(best.complete);
  Plan plan = best.best.front().plan;
  for (const int by : {-1, 1}) {
    plan.stages[0].last_layer += by;
    plan.stages[1].first_layer += by;
    EXPECT_GE(predict(plan, cost).step_s, static_cast<double>(best.best.front().step_ns) * 1e-9 - 1e-12);
  }
}

TEST(Partition, RefusesMoreLayersThanItsTablesHold) {
  const CostModel cost(make_profile({.layers = 150'000, .devices = 2}));
  PartitionProblem problem = straight(2, ones(2));
  problem.memory_bytes = {1 << 20, 1 << 20};
  problem.recompute_for_memory = true;
  try {
    static_cast<void>(partition(problem, cost));
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.problem(), ::testing::HasSubstr("150000 layers take tables of about"));
    EXPECT_THAT(error.remedy(), ::testing::HasSubstr("merge layers"));
  }
}

TEST(Partition, StatesItsGapToTheBound) {
  PartitionResult result;
  result.best.resize(1);
  result.best.front().step_ns = 150;
  EXPECT_EQ(result.gap(), std::numeric_limits<double>::infinity());
  result.lower_bound_ns = 100;
  EXPECT_DOUBLE_EQ(result.gap(), 0.5);
  result.lower_bound_ns = 150;
  EXPECT_EQ(result.gap(), 0);
}

// One layer dominates: the other cuts are free, and are made where least is copied, then where least memory is needed.
TEST(Partition, BreaksTiesByCopiesThenMemory) {
  Profile profile = make_profile({.layers = 8, .devices = 3}, {100, 1, 1, 1, 1, 1, 1, 1});
  for (LayerEdge& edge : profile.edges) edge.bytes_per_sample = edge.to == 1 ? 900 : edge.to == 4 || edge.to == 6 ? 10 : 50;
  const PartitionResult result = partition(straight(3, ones(6)), CostModel(profile));
  EXPECT_THAT(cuts_of(result.best.front().plan), ::testing::ElementsAre(1, 4));
}

}  // namespace
}  // namespace mptune::planner

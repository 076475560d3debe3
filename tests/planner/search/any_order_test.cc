#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>

#include "planner/plan/helping.h"
#include "planner/schedule/schedule.h"
#include "planner/search/bounds/family_bound.h"
#include "planner/search/bounds/packing.h"
#include "planner/search/bounds/two_rounds.h"
#include "planner/search/space/choices.h"
#include "planner/simulate/schedule_costs.h"
#include "profiler/base/index.h"
#include "tests/planner/random_plans.h"
#include "tests/planner/search/spaces.h"

namespace mptune::planner {
namespace {

using ::testing::AllOf;
using ::testing::Gt;
using ::testing::Lt;
using testing::names;
using ::testing::Pair;

std::vector<std::vector<int>> devices_of(const Plan& plan) {
  std::vector<std::vector<int>> stages;
  for (const Stage& stage : plan.stages) stages.push_back(stage.devices);
  return stages;
}

std::int64_t step_ns(const Plan& plan, const CostModel& cost) {
  return std::llround(predict(plan, cost).step_s * 1e9);
}

void for_all_cuts(int layers, std::size_t count, const std::function<void(const std::vector<int>&)>& use) {
  std::vector<int> cuts;
  const auto choose = [&](const auto& again, int from) -> void {
    if (cuts.size() == count) return use(cuts);
    for (int layer = from; layer < layers; ++layer) {
      cuts.push_back(layer);
      again(again, layer + 1);
      cuts.pop_back();
    }
  };
  choose(choose, 1);
}

Plan with_cuts(Plan plan, const std::vector<int>& cuts) {
  for (std::size_t c = 0; c < cuts.size(); ++c) plan.stages[c].last_layer = plan.stages[c + 1].first_layer = cuts[c];
  return plan;
}

TEST(BoundOfAnyOrder, HoldsForRandomOrders) {
  std::mt19937 random(61);
  double closest = 0;
  for (int round = 0; round < 1'500; ++round) {
    const int devices = std::uniform_int_distribution<int>(2, 4)(random);
    const CostModel cost = testing::random_cost(random, 8, devices);
    const int split = round % 3;
    const Plan plan = testing::random_virtual_plan(random, 8, devices, split);
    const auto stages = devices_of(plan);
    if (std::ranges::any_of(stages, [](const std::vector<int>& on) { return on.size() > 1; })) continue;
    const std::int64_t bound_ns = FamilyBound(cost).of_any_order(stages, plan.microbatch_sizes, split > 0);
    EXPECT_LE(bound_ns, step_ns(plan, cost)) << round;
    EXPECT_LE(FamilyBound(cost).of(stages, plan.microbatch_sizes, split > 0).step_ns, step_ns(plan, cost)) << round;
    closest = std::max(closest, static_cast<double>(bound_ns) / static_cast<double>(step_ns(plan, cost)));
  }
  EXPECT_GT(closest, 0.9) << "the bound is worth nothing";
}

// All cuts of seven layers, with the rows of every schedule that has such stages.
TEST(BoundOfAnyOrder, HoldsForAllCuts) {
  std::mt19937 random(62);
  int better = 0;
  for (int round = 0; round < 200; ++round) {
    const CostModel cost = testing::random_cost(random, 7, 3);
    const int m = std::uniform_int_distribution<int>(2, 6)(random);
    for (const auto& [schedule, virtual_stages] : std::vector<std::pair<std::string, int>>{
             {"1f1b", 1}, {"zb2p", 1}, {"gpipe", 1}, {"interleaved", 2}, {"looped-bfs", 2}, {"zbv", 2}, {"dualpipe-v", 2}}) {
      PlanOptions options = testing::options_of(names(3), 13, 7, schedule);
      options.virtual_stages = virtual_stages;
      options.microbatches = m;
      Plan plan = make_plan(options);
      const bool splits = splits_backward(plan);
      std::int64_t fastest_ns = std::numeric_limits<std::int64_t>::max();
      for_all_cuts(7, plan.stages.size() - 1, [&](const std::vector<int>& cuts) {
        Plan cut = with_cuts(plan, cuts);
        schedule_plan(cut, schedule, cost);
        fastest_ns = std::min(fastest_ns, step_ns(cut, cost));
      });
      FamilyBound bound(cost);
      const std::int64_t bound_ns = bound.of_any_order(devices_of(plan), plan.microbatch_sizes, splits);
      EXPECT_LE(bound_ns, fastest_ns) << schedule << " " << round;
      better += bound_ns > bound.of(devices_of(plan), plan.microbatch_sizes, splits).step_ns ? 1 : 0;
    }
  }
  EXPECT_GT(better, 500) << "of 1400: it is worth its time";
}

// Four micro-batches can't keep four devices busy before the first gradient, however the layers are cut.
TEST(BoundOfAnyOrder, KnowsThatGradientsCome) {
  const CostModel cost(testing::make_profile({.layers = 64, .devices = 4, .forward_s = 1e-5, .backward_s = 2e-5}));
  Plan plan = testing::stages_of(64, std::vector<int>(8, 1), testing::ones(4));
  for (std::size_t s = 0; s < 8; ++s) plan.stages[s].devices = {static_cast<int>(s % 4)};
  const auto over_work = [&](std::int64_t ns) { return static_cast<double>(ns) / (4 * 64 * 3e4 / 4); };
  FamilyBound bound(cost);
  EXPECT_LT(over_work(bound.of(devices_of(plan), plan.microbatch_sizes, true).step_ns), 1.05);
  EXPECT_GT(over_work(bound.of_any_order(devices_of(plan), plan.microbatch_sizes, true)), 1.06);
}

// Every device sends the outputs or the gradients of its stages, one micro-batch after another, and computes nothing meanwhile.
TEST(BoundOfAnyOrder, KnowsThatSendersCopy) {
  testing::ProfileShape shape{.layers = 64, .devices = 4, .forward_s = 1e-5, .backward_s = 2e-5};
  shape.latency_s = 5e-5;
  Plan plan = testing::stages_of(64, std::vector<int>(8, 1), testing::ones(16));
  for (std::size_t s = 0; s < 8; ++s) plan.stages[s].devices = {static_cast<int>(s % 4)};
  const auto over_work = [&](bool sender_copies) {
    shape.sender_copies = sender_copies;
    const CostModel cost(testing::make_profile(shape));
    FamilyBound bound(cost);
    const double work_ns = 16 * 64 * 3e4 / 4;
    return std::pair(static_cast<double>(bound.of(devices_of(plan), plan.microbatch_sizes, true).step_ns) / work_ns,
                     static_cast<double>(bound.of_any_order(devices_of(plan), plan.microbatch_sizes, true)) / work_ns);
  };
  const double copies = 7 * 2 * 5e4 / (64 * 3e4);  // of a micro-batch, over its work
  EXPECT_THAT(over_work(false), Pair(Lt(1.1), Lt(1.1)));
  const auto has_copies = AllOf(Gt(0.999 + copies), Lt(1.1 + copies));
  EXPECT_THAT(over_work(true), Pair(has_copies, has_copies));
}

// Random layers, copies that take as long at every cut.
FamilyWork random_work(std::mt19937& random, std::size_t layers) {
  const auto draw = [&] { return std::uniform_real_distribution<double>(1, 9)(random); };
  FamilyWork work;
  work.out = work.in = work.all = work.back = {0};
  work.microbatches = 4;
  work.action = 0.3;
  work.sender_copies = layers % 2 == 0;
  work.send.assign(layers + 1, draw());
  work.send_in.assign(layers + 1, draw());
  for (std::size_t layer = 0; layer < layers; ++layer) {
    const double forward = draw(), backward = 2 * draw();
    work.out.push_back(work.out.back() + forward);
    work.in.push_back(work.in.back() + backward / 2);
    work.back.push_back(work.back.back() + work.microbatches * backward);
    work.all.push_back(work.all.back() + work.microbatches * (forward + backward));
  }
  return work;
}

// Brute force over all cuts of both rounds.
TEST(TwoRounds, FindTheBestCutsOfBothRounds) {
  std::mt19937 random(65);
  int better = 0;
  for (int round = 0; round < 60; ++round) {
    const std::vector<int> devices = round % 2 == 0 ? std::vector<int>{2, 0, 1, 2, 0, 1} : std::vector<int>{2, 0, 1, 1, 0, 2};
    const int layers = std::uniform_int_distribution<int>(9, 10)(random);
    const FamilyWork work = random_work(random, as_index(layers));
    std::vector<int> open;
    for (int layer = 1; layer < layers; ++layer) open.push_back(layer);
    CutsRater rater(devices, work, round % 3 > 0, 0.8);
    std::vector<int> cuts{2, 3, 5, 6, 7};
    rater.scale(rater.rate(cuts).longest_ns);
    const double before = rater.rate(cuts).sum;
    double best = before;
    for_all_cuts(layers, 5, [&](const std::vector<int>& tried) {
      if (tried[2] == cuts[2]) best = std::min(best, rater.rate(tried).sum);
    });
    EXPECT_EQ(improve_two_rounds(rater, devices, open, cuts), best < before);
    EXPECT_NEAR(rater.rate(cuts).sum / best, 1, 1e-6) << round;
    better += best < before ? 1 : 0;
  }
  EXPECT_GT(better, 40);
}

TEST(TwoRounds, LeaveOtherLayoutsAsTheyAre) {
  std::mt19937 random(66);
  const FamilyWork work = random_work(random, 10);
  const std::vector<int> open{1, 2, 3, 4, 5, 6, 7, 8, 9};
  for (const std::vector<int>& devices : std::vector<std::vector<int>>{{0, 1, 2}, {0, 1, 0}, {0, 0, 1, 1}, {0, 1, 2, 1, 2, 0}, {0, 0, 0}}) {
    CutsRater rater(devices, work, true, 0.8);
    std::vector<int> cuts;
    for (std::size_t c = 1; c < devices.size(); ++c) cuts.push_back(static_cast<int>(c));
    const std::vector<int> before = cuts;
    rater.scale(rater.rate(cuts).longest_ns);
    EXPECT_FALSE(improve_two_rounds(rater, devices, open, cuts));
    EXPECT_EQ(cuts, before);
  }
}

TEST(SuitedCuts, ShortenListSchedules) {
  std::mt19937 random(63);
  double before = 0;
  double after = 0;
  for (int round = 0; round < 20; ++round) {
    const CostModel cost(testing::make_profile(testing::random_shape(random, 30, 3), testing::random_factors(random, 30)));
    PlanOptions options = testing::options_of(names(3), 24, 30, "list");
    options.virtual_stages = 2;
    options.microbatches = 8;
    Plan plan = make_plan(options);
    FamilyBound bound(cost);
    const std::vector<int> seed = bound.of(devices_of(plan), plan.microbatch_sizes, true).cuts;
    const std::vector<int> cuts = bound.suited_cuts(devices_of(plan), plan.microbatch_sizes, true, 0.85, seed);
    ASSERT_EQ(cuts.size(), seed.size());
    ASSERT_TRUE(std::ranges::is_sorted(cuts, std::ranges::less_equal{})) << "none is empty";
    for (const auto& [tried, sum] : {std::pair(&seed, &before), std::pair(&cuts, &after)}) {
      Plan cut = with_cuts(plan, *tried);
      schedule_plan(cut, "list", cost);
      *sum += predict(cut, cost).step_s;
    }
  }
  EXPECT_LT(after, 0.99 * before);
}

// Weak and strong duality: no amounts within the room add up to more than it costs, and some add up to that.
TEST(Packing, FindsThePriceOfTheRoom) {
  std::mt19937 random(64);
  const auto draw = [&](double low, double high) { return std::uniform_real_distribution<double>(low, high)(random); };
  for (int round = 0; round < 300; ++round) {
    Packing problem{{{draw(0, 2), draw(0.1, 2)}, {draw(0.1, 2), draw(0, 2)}, {draw(0.1, 1), draw(0.1, 1)}},
                    {draw(1, 2), draw(1, 2), draw(1, 2)}};
    const std::vector<double> prices = packing_prices(problem);
    double price = 0;
    for (std::size_t r = 0; r < 3; ++r) {
      EXPECT_GE(prices[r], 0);
      price += prices[r] * problem.room[r];
    }
    for (std::size_t x = 0; x < 2; ++x)
      EXPECT_GE(prices[0] * problem.rows[0][x] + prices[1] * problem.rows[1][x] + prices[2] * problem.rows[2][x], 1 - 1e-9);
    double most = 0;
    for (int step = 0; step <= 4'000; ++step) {
      const double first = 20.0 * step / 4'000;
      double second = 20;
      for (std::size_t r = 0; r < 3; ++r)
        if (problem.rows[r][1] > 0) second = std::min(second, (problem.room[r] - problem.rows[r][0] * first) / problem.rows[r][1]);
      if (second >= 0 && problem.rows[1][0] * first <= problem.room[1]) most = std::max(most, first + second);
    }
    EXPECT_LE(most, price * (1 + 1e-9)) << round;
    EXPECT_GE(most, price * 0.98) << round;
  }
}

}  // namespace
}  // namespace mptune::planner

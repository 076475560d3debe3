#include <gmock/gmock.h>

#include <limits>
#include <random>

#include "planner/partition/partition.h"
#include "profiler/base/index.h"
#include "tests/planner/partition/problems.h"
#include "tests/support/cases.h"

namespace mptune::planner {
namespace {

using testing::BruteForce;
using testing::cuts_of;
using testing::SlowPlan;
using testing::straight;

std::vector<SlowPlan> plans_of(const PartitionResult& result) {
  std::vector<SlowPlan> plans;
  for (const PartitionedPlan& best : result.best) plans.push_back({best.step_ns, best.copied_bytes, best.peak_bytes, cuts_of(best.plan)});
  return plans;
}

// The best plans, in order, with their proof; and each of them is what predict says of it.
void expect_best(const PartitionProblem& problem, const CostModel& cost) {
  const BruteForce truth(problem, cost);
  const PartitionResult result = partition(problem, cost);
  ASSERT_TRUE(result.complete);
  std::vector<SlowPlan> expected = truth.plans;
  expected.resize(std::min(expected.size(), as_index(problem.keep)));
  std::erase_if(expected, [&](const SlowPlan& plan) { return plan.step_ns > problem.longest_ns; });
  EXPECT_EQ(plans_of(result), expected);
  for (const PartitionedPlan& best : result.best) {
    EXPECT_EQ(testing::step_ns(best.plan, cost), best.step_ns);
    const std::vector<std::int64_t> peaks = cost.peak_bytes(best.plan);
    EXPECT_EQ(*std::max_element(peaks.begin(), peaks.end()), best.peak_bytes);
  }
  if (!expected.empty()) {
    EXPECT_EQ(result.lower_bound_ns, expected.front().step_ns);
    EXPECT_EQ(result.gap(), 0);
  } else if (truth.plans.empty()) {
    EXPECT_EQ(result.lower_bound_ns, PartitionResult::kNoPlan);
    EXPECT_EQ(result.smallest_excess_bytes, truth.smallest_excess_bytes);
    PartitionProblem other = problem;
    other.least_excess_known = std::max<std::int64_t>(1, truth.smallest_excess_bytes / 2);
    const PartitionResult known = partition(other, cost);
    EXPECT_EQ(known.lower_bound_ns, PartitionResult::kNoPlan);
    if (known.smallest_excess_device < 0) {
      EXPECT_EQ(known.smallest_excess_bytes, other.least_excess_known);
    }
  } else {
    EXPECT_EQ(result.lower_bound_ns, problem.longest_ns + 1);
    EXPECT_EQ(result.smallest_excess_bytes, 0);
  }
}

class Draw {
 public:
  explicit Draw(unsigned seed) : random(seed) {}
  int between(int low, int high) { return std::uniform_int_distribution<int>(low, high)(random); }
  std::mt19937 random;
};

TEST(PartitionBruteForce, AThousandChains) {
  Draw draw(1);
  for (int round = 0; round < testing::cases(1000); ++round) {
    SCOPED_TRACE(round);
    const int stages = draw.between(1, 5);
    const CostModel cost(testing::random_chain(draw.random, draw.between(stages, 9), stages));
    const int m = draw.between(1, 9);
    const char* const schedules[] = {"1f1b", "1f1b", "gpipe"};
    PartitionProblem problem = straight(stages, split_evenly(m + draw.between(0, 4), m), schedules[draw.between(0, 2)]);
    problem.keep = round % 4 == 0 ? draw.between(2, 9) : 1;
    expect_best(problem, cost);
    if (HasFailure()) return;
  }
}

// Layers of two kinds, outputs and activations of a few sizes: plans tie in their step, then in what they copy.
TEST(PartitionBruteForce, Ties) {
  Draw draw(10);
  for (int round = 0; round < testing::cases(1000); ++round) {
    SCOPED_TRACE(round);
    const int stages = draw.between(3, 5);
    const int layers = draw.between(7, 9);
    std::vector<double> factors;
    for (int layer = 0; layer < layers; ++layer) factors.push_back(draw.between(0, 3) == 0 ? 8 : 1);
    Profile profile = testing::make_profile({.layers = layers, .devices = stages}, factors);
    for (LayerEdge& edge : profile.edges) edge.bytes_per_sample = 100 * draw.between(1, 3);
    for (LayerCosts& layer : profile.classes[0].layers)
      for (LayerCost& cost : layer.by_samples) cost.saved_activation_bytes = 100 * draw.between(1, 6) * cost.samples;
    PartitionProblem problem = straight(stages, testing::ones(draw.between(1, 3)), draw.between(0, 1) == 0 ? "gpipe" : "1f1b");
    problem.keep = draw.between(1, 4);
    expect_best(problem, CostModel(profile));
    if (HasFailure()) return;
  }
}

// Caps are drawn around what the un-capped plans need.
void cap_at_random(Draw& draw, const CostModel& cost, PartitionProblem& problem) {
  const BruteForce open(problem, cost);
  const auto most = static_cast<int>(open.plans.size()) - 1;
  const std::int64_t peak = open.plans[as_index(draw.between(0, most))].peak_bytes;
  for (std::size_t d = 0; d < problem.devices.size(); ++d)
    problem.memory_bytes.push_back(draw.between(0, 5) == 0 ? 0 : peak * draw.between(5, 11) / 10);
  problem.recompute_for_memory = draw.between(0, 2) > 0;
}

TEST(PartitionBruteForce, WithinMemory) {
  Draw draw(2);
  for (int round = 0; round < 400; ++round) {
    SCOPED_TRACE(round);
    const int stages = draw.between(1, 4);
    Profile profile = testing::random_chain(draw.random, draw.between(stages, 8), stages);
    const int last = static_cast<int>(profile.layers.size()) - 1, first = draw.between(0, last);
    if (first < last && round % 2 == 1) {
      const std::int64_t most = std::min(profile.layers.back().parameters_bytes, profile.layers[as_index(first)].parameters_bytes);
      profile.tied_parameters = {{last, first, most * draw.between(1, 4) / 4}};
    }
    const CostModel cost(profile);
    const int m = draw.between(1, 6);
    PartitionProblem problem = straight(stages, split_evenly(m + draw.between(0, 4), m), draw.between(0, 2) == 0 ? "gpipe" : "1f1b");
    if (draw.between(0, 3) == 0) problem.recomputed = {draw.between(0, stages - 1)};
    cap_at_random(draw, cost, problem);
    problem.keep = draw.between(1, 3);
    expect_best(problem, cost);
    if (HasFailure()) return;
  }
}

TEST(PartitionBruteForce, Replicas) {
  Draw draw(3);
  for (int round = 0; round < 200; ++round) {
    SCOPED_TRACE(round);
    Profile profile = testing::random_chain(draw.random, draw.between(3, 8), 6);
    if (round % 3 < 2) profile = testing::with_gpus(profile, as_index(round % 3));
    const CostModel cost(profile);
    const int m = draw.between(3, 8);
    PartitionProblem problem = straight(6, split_evenly(m + draw.between(0, 4), m));
    problem.stages.clear();
    for (int device = 0; device < 5 && problem.stages.size() < 3;) {
      problem.stages.emplace_back();
      for (int r = draw.between(1, 2); r > 0; --r) problem.stages.back().push_back(device++);
    }
    if (round % 2 == 0) cap_at_random(draw, cost, problem);
    expect_best(problem, cost);
    if (HasFailure()) return;
  }
}

TEST(PartitionBruteForce, SeveralStagesOnADevice) {
  Draw draw(4);
  for (int round = 0; round < 200; ++round) {
    SCOPED_TRACE(round);
    const CostModel cost(testing::random_chain(draw.random, draw.between(4, 8), 2));
    const int m = 2 * draw.between(1, 3);
    PartitionProblem problem = straight(2, split_evenly(m + draw.between(0, 4), m), draw.between(0, 1) == 0 ? "gpipe" : "interleaved");
    problem.stages = {{0}, {1}, {0}, {1}};
    problem.keep = draw.between(1, 3);
    if (round % 2 == 0) cap_at_random(draw, cost, problem);
    expect_best(problem, cost);
    if (HasFailure()) return;
  }
}

// Rows that are made anew for every plan.
TEST(PartitionBruteForce, SchedulesThatLookAtCosts) {
  Draw draw(9);
  const char* const straight_ones[] = {"eager-1f1b", "zb1p", "zb2p", "list"};
  const char* const in_a_v[] = {"zbv", "v-half", "v-min", "dualpipe-v"};
  for (int round = 0; round < 80; ++round) {
    SCOPED_TRACE(round);
    const CostModel cost(testing::random_chain(draw.random, draw.between(4, 6), 3));
    const int m = draw.between(4, 6);
    PartitionProblem problem = straight(3, split_evenly(m + draw.between(0, 1) * draw.between(0, 4), m), straight_ones[round % 4]);
    if (round % 8 >= 4) {
      problem.devices.pop_back();
      problem.stages = {{0}, {1}, {1}, {0}};
      problem.schedule = in_a_v[round % 4];
    }
    problem.keep = draw.between(1, 3);
    if (round % 3 == 0) cap_at_random(draw, cost, problem);
    expect_best(problem, cost);
    if (HasFailure()) return;
  }
}

TEST(PartitionBruteForce, DevicesThatSlowEachOther) {
  Draw draw(5);
  for (int round = 0; round < 100; ++round) {
    SCOPED_TRACE(round);
    const int layers = draw.between(3, 7);
    testing::ProfileShape shape = testing::random_shape(draw.random, layers, 3);
    shape.busy = 1 + draw.between(1, 9) / 10.0;
    const CostModel cost(testing::make_profile(shape, testing::random_factors(draw.random, layers)));
    PartitionProblem problem = straight(3, split_evenly(12, draw.between(1, 6)));
    if (round % 3 == 0) cap_at_random(draw, cost, problem);
    expect_best(problem, cost);
    if (HasFailure()) return;
  }
}

TEST(PartitionBruteForce, LinksThatShareAMedium) {
  Draw draw(8);
  for (int round = 0; round < 100; ++round) {
    SCOPED_TRACE(round);
    Profile profile = testing::random_chain(draw.random, draw.between(4, 7), 4);
    for (LinkCost& link : profile.links) link.medium = draw.between(-1, 1);
    const CostModel cost(profile);
    PartitionProblem problem = straight(4, split_evenly(12, draw.between(2, 6)));
    problem.keep = draw.between(1, 3);
    expect_best(problem, cost);
    if (HasFailure()) return;
  }
}

TEST(PartitionBruteForce, ForbiddenCutsAndAnIncumbent) {
  Draw draw(6);
  for (int round = 0; round < 200; ++round) {
    SCOPED_TRACE(round);
    const int layers = draw.between(4, 9);
    Profile profile = testing::random_chain(draw.random, layers, 3);
    for (int i = draw.between(0, 3); i > 0; --i) profile.forbidden_cuts.push_back({draw.between(1, layers - 1), "they share a tensor"});
    const CostModel cost(profile);
    PartitionProblem problem = straight(3, split_evenly(8, draw.between(1, 8)));
    problem.keep = draw.between(1, 2);
    const BruteForce all(problem, cost);
    if (!all.plans.empty()) {
      const std::int64_t some = all.plans[as_index(draw.between(0, static_cast<int>(all.plans.size()) - 1))].step_ns;
      problem.longest_ns = some - draw.between(0, 1);
    }
    if (all.plans.empty()) {
      EXPECT_EQ(partition(problem, cost).lower_bound_ns, PartitionResult::kNoPlan);
      continue;
    }
    expect_best(problem, cost);
    if (HasFailure()) return;
  }
}

// What takes longer than is of interest may still fit.
TEST(PartitionBruteForce, CapsAndAnIncumbent) {
  Draw draw(11);
  int beyond = 0;
  for (int round = 0; round < 200; ++round) {
    SCOPED_TRACE(round);
    const CostModel cost(testing::random_chain(draw.random, draw.between(4, 7), 2));
    const char* const schedules[] = {"interleaved", "gpipe", "zb1p", "eager-1f1b"};
    PartitionProblem problem = straight(2, testing::ones(2 * draw.between(1, 3)), schedules[round % 4]);
    if (round % 4 < 2) problem.stages = {{0}, {1}, {0}, {1}};
    cap_at_random(draw, cost, problem);
    const BruteForce truth(problem, cost);
    if (truth.plans.empty()) continue;
    problem.longest_ns = truth.plans.front().step_ns - draw.between(0, 1);
    beyond += problem.longest_ns < truth.plans.front().step_ns ? 1 : 0;
    expect_best(problem, cost);
    if (HasFailure()) return;
  }
  EXPECT_GT(beyond, 40);
}

// Whatever ends the search, what it says holds.
TEST(PartitionBruteForce, EndedEarly) {
  Draw draw(7);
  int open = 0;
  for (int round = 0; round < 200; ++round) {
    SCOPED_TRACE(round);
    const CostModel cost(testing::random_chain(draw.random, 9, 4));
    PartitionProblem problem = straight(4, testing::ones(draw.between(2, 9)));
    const std::int64_t best = BruteForce(problem, cost).plans.front().step_ns;
    int questions = draw.between(0, 3);
    if (round % 2 == 0) problem.most_nodes = draw.between(0, 60);
    if (round % 2 == 1) problem.stop = [&] { return questions-- <= 0; };
    const PartitionResult result = partition(problem, cost);
    EXPECT_LE(result.lower_bound_ns, best);
    for (const PartitionedPlan& plan : result.best) EXPECT_GE(plan.step_ns, best);
    if (result.complete) {
      EXPECT_EQ(result.lower_bound_ns, best);
    }
    open += result.complete ? 0 : 1;
  }
  EXPECT_GT(open, 20);
}

}  // namespace
}  // namespace mptune::planner

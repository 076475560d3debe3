#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <random>
#include <vector>

#include "profiler/base/index.h"
#include "tests/benchmarks/baselines/rules.h"
#include "tests/planner/profiles.h"

namespace mptune::testing {
namespace {

using ::testing::ElementsAre;

std::vector<std::int64_t> stage_sums(const std::vector<std::int64_t>& values, const std::vector<int>& cuts) {
  const std::vector<std::int64_t> sums = sums_before(values);
  std::vector<std::int64_t> stages;
  std::size_t first = 0;
  for (const int cut : cuts) {
    stages.push_back(sums[as_index(cut)] - sums[first]);
    first = as_index(cut);
  }
  stages.push_back(sums.back() - sums[first]);
  return stages;
}

std::int64_t largest_stage(const std::vector<std::int64_t>& values, const std::vector<int>& cuts) {
  const std::vector<std::int64_t> stages = stage_sums(values, cuts);
  return *std::max_element(stages.begin(), stages.end());
}

std::int64_t spread(const std::vector<std::int64_t>& values, const std::vector<int>& cuts) {
  const std::vector<std::int64_t> stages = stage_sums(values, cuts);
  return *std::max_element(stages.begin(), stages.end()) - *std::min_element(stages.begin(), stages.end());
}

std::int64_t slowest_stage_or_cut(const ChainCosts& costs, const std::vector<int>& cuts) {
  std::int64_t slowest = largest_stage(costs.time_ns, cuts);
  for (const int cut : cuts) slowest = std::max(slowest, 2 * costs.copy_ns[as_index(cut)]);
  return slowest;
}

std::int64_t alpa_objective(const ChainCosts& costs, const std::vector<int>& cuts, int microbatches) {
  std::int64_t sum = 0;
  for (const std::int64_t stage : stage_sums(costs.time_ns, cuts)) sum += stage;
  return sum + (microbatches - 1) * largest_stage(costs.time_ns, cuts);
}

void visit_cuts(int layers, int stages, std::vector<int>& cuts, const std::function<void(const std::vector<int>&)>& visit) {
  if (static_cast<int>(cuts.size()) + 1 == stages) return visit(cuts);
  for (int cut = cuts.empty() ? 1 : cuts.back() + 1; cut < layers; ++cut) {
    cuts.push_back(cut);
    visit_cuts(layers, stages, cuts, visit);
    cuts.pop_back();
  }
}

std::int64_t least(int layers, int stages, const std::function<std::int64_t(const std::vector<int>&)>& objective) {
  std::int64_t best = std::numeric_limits<std::int64_t>::max();
  std::vector<int> none;
  visit_cuts(layers, stages, none, [&](const std::vector<int>& cuts) { best = std::min(best, objective(cuts)); });
  return best;
}

bool are_cuts(const std::vector<int>& cuts, int layers, int stages) {
  if (static_cast<int>(cuts.size()) != stages - 1) return false;
  int before = 0;
  for (const int cut : cuts) {
    if (cut <= before || cut >= layers) return false;
    before = cut;
  }
  return true;
}

// Few distinct values, so that there are ties and layers that take no time.
ChainCosts random_costs(std::mt19937& random, int layers) {
  std::uniform_int_distribution<std::int64_t> draw(0, 6);
  ChainCosts costs;
  for (int l = 0; l < layers; ++l) {
    costs.time_ns.push_back(draw(random) * draw(random));
    costs.parameters_bytes.push_back(draw(random));
    costs.copy_ns.push_back(l == 0 ? 0 : draw(random));
  }
  return costs;
}

struct RandomCase {
  ChainCosts costs;
  int layers = 0;
  int stages = 0;
};

RandomCase random_case(std::mt19937& random, int most_stages) {
  RandomCase made;
  made.layers = std::uniform_int_distribution<int>(1, 11)(random);
  made.stages = std::uniform_int_distribution<int>(1, std::min(made.layers, most_stages))(random);
  made.costs = random_costs(random, made.layers);
  return made;
}

TEST(Baselines, EveryRuleCutsIntoStagesThatAreNotEmpty) {
  std::mt19937 random(1);
  for (int round = 0; round < 2000; ++round) {
    const RandomCase made = random_case(random, 8);
    for (const CutRule& rule : cut_rules())
      ASSERT_TRUE(are_cuts(rule.cuts(made.costs, made.stages), made.layers, made.stages)) << rule.name << ", round " << round;
  }
}

// DeepSpeed's own example of pull request 4053.
TEST(Baselines, EqualNumberOfLayersSpreadsTheRest) {
  EXPECT_THAT(equal_cuts(38, 8), ElementsAre(5, 10, 15, 20, 25, 30, 34));
}

// Expected values of DeepSpeed's tests.
TEST(Baselines, LeastSpreadGivesDeepSpeedsPublishedDifferences) {
  const auto difference = [](const std::vector<std::int64_t>& weights) { return spread(weights, least_spread(weights, 4)); };
  EXPECT_EQ(difference({1, 1, 1, 1}), 0);
  EXPECT_EQ(difference({1, 1, 1, 1, 1}), 1);
  EXPECT_EQ(difference({1, 1, 1, 1, 0, 1}), 1);
}

TEST(Baselines, LeastSpreadIsTheLeastOfTwoStagesButNotOfMore) {
  std::mt19937 random(2);
  int worse = 0;
  for (int round = 0; round < 1000; ++round) {
    const RandomCase made = random_case(random, 4);
    const std::vector<std::int64_t>& times = made.costs.time_ns;
    const std::int64_t best = least(made.layers, made.stages, [&](const std::vector<int>& cuts) { return spread(times, cuts); });
    const std::int64_t found = spread(times, least_spread(times, made.stages));
    if (made.stages <= 2) {
      ASSERT_EQ(found, best) << "round " << round;
    } else {
      ASSERT_GE(found, best) << "round " << round;
      worse += found > best ? 1 : 0;
    }
  }
  EXPECT_GT(worse, 0);
}

TEST(Baselines, PipeDreamFindsTheLeastOfItsObjective) {
  std::mt19937 random(3);
  for (int round = 0; round < 1000; ++round) {
    const RandomCase made = random_case(random, 5);
    const std::int64_t best =
        least(made.layers, made.stages, [&](const std::vector<int>& cuts) { return slowest_stage_or_cut(made.costs, cuts); });
    ASSERT_EQ(slowest_stage_or_cut(made.costs, pipedream_cuts(made.costs, made.stages)), best) << "round " << round;
  }
}

TEST(Baselines, AlpaFindsTheLeastOfItsObjectiveForAnyNumberOfMicroBatches) {
  std::mt19937 random(4);
  for (int round = 0; round < 1000; ++round) {
    const RandomCase made = random_case(random, 5);
    const std::vector<int> cuts = alpa_cuts(made.costs, made.stages);
    for (const int microbatches : {1, 2, 8, 32}) {
      const auto objective = [&](const std::vector<int>& other) { return alpa_objective(made.costs, other, microbatches); };
      ASSERT_EQ(objective(cuts), least(made.layers, made.stages, objective)) << "round " << round;
    }
  }
}

TEST(Baselines, BlockPartitionGivesTorchgpipesPublishedBadCases) {
  const auto equal = [](std::size_t layers, int stages) { return block_partition(std::vector<std::int64_t>(layers, 7), stages); };
  EXPECT_THAT(equal(7, 4), ElementsAre(1, 2, 3));               // 1, 1, 1, 4
  EXPECT_THAT(equal(11, 4), ElementsAre(2, 4, 6));              // 2, 2, 2, 5
  EXPECT_THAT(equal(10, 4), ElementsAre(2, 4, 6));              // 2, 2, 2, 4
  EXPECT_THAT(equal(15, 8), ElementsAre(1, 2, 3, 4, 5, 6, 7));  // 1 seven times, 8
}

// The theorem of block partition: blocks differ by at most the largest element.
TEST(Baselines, BlocksDifferByAtMostTheRangeOfTimes) {
  std::mt19937 random(5);
  for (int round = 0; round < 1000; ++round) {
    const int stages = std::uniform_int_distribution<int>(2, 8)(random);
    std::vector<std::int64_t> times;
    for (int l = 0; l < 4 * stages; ++l) times.push_back(std::uniform_int_distribution<std::int64_t>(500, 1000)(random));
    const auto [shortest, longest] = std::minmax_element(times.begin(), times.end());
    std::vector<std::int64_t> shifted = times;
    for (std::int64_t& time : shifted) time -= *shortest;
    ASSERT_LE(spread(shifted, block_partition(times, stages)), *longest - *shortest) << "round " << round;
  }
}

struct PublishedLoss {
  int layers;
  int stages;
  double mean;  // of the largest stage over the least one
  std::function<double(std::mt19937&)> time;
};

constexpr int kPublishedChains = 300;

struct Mean {
  double mean = 0;
  double standard_error = 0;
};

Mean block_partition_loss(const PublishedLoss& published, std::mt19937& random) {
  double sum = 0;
  double squares = 0;
  for (int i = 0; i < kPublishedChains; ++i) {
    ChainCosts costs;
    for (int l = 0; l < published.layers; ++l) costs.time_ns.push_back(std::llround(1e6 * published.time(random)));
    const auto least_ns = static_cast<double>(largest_stage(costs.time_ns, alpa_cuts(costs, published.stages)));
    const double loss = static_cast<double>(largest_stage(costs.time_ns, block_partition(costs.time_ns, published.stages))) / least_ns;
    sum += loss;
    squares += loss * loss;
  }
  const double mean = sum / kPublishedChains;
  return {mean, std::sqrt((squares / kPublishedChains - mean * mean) / kPublishedChains)};
}

// Means of torchgpipe's own program on 300 other random chains of each kind, with a standard error.
TEST(Baselines, BlockPartitionLosesAsMuchAsTorchgpipeOnRandomChains) {
  const auto alike = [](std::mt19937& random) { return std::uniform_real_distribution(0.98, 1.02)(random); };
  const auto uniform = [](std::mt19937& random) { return std::uniform_real_distribution(0.2, 1.0)(random); };
  const auto lognormal = [](std::mt19937& random) { return std::lognormal_distribution(0.0, 1.0)(random); };
  std::mt19937 random(6);
  for (const PublishedLoss& published :
       {PublishedLoss{12, 4, 1.249, alike}, PublishedLoss{24, 4, 1.195, alike}, PublishedLoss{30, 8, 1.386, alike},
        PublishedLoss{62, 8, 1.291, alike}, PublishedLoss{12, 4, 1.046, uniform}, PublishedLoss{24, 4, 1.035, uniform},
        PublishedLoss{30, 8, 1.140, uniform}, PublishedLoss{62, 8, 1.081, uniform}, PublishedLoss{12, 4, 1.136, lognormal},
        PublishedLoss{62, 8, 1.256, lognormal}}) {
    const Mean loss = block_partition_loss(published, random);
    EXPECT_NEAR(loss.mean, published.mean, 4 * std::sqrt(2.0) * loss.standard_error)
        << published.layers << " layers, " << published.stages << " stages";
  }
}

TEST(Baselines, LayersThatMayNotBeCutApartAreOne) {
  Profile profile = testing::make_profile({.layers = 4, .devices = 2, .bytes_per_second = 1e5});
  profile.forbidden_cuts.push_back({2, "works in place"});
  const UncutChain chain = uncut_chain(CostModel(profile), 1);
  EXPECT_THAT(chain.first_layers, ElementsAre(0, 1, 3));
  EXPECT_THAT(chain.costs.time_ns, ElementsAre(3'000'000, 6'000'000, 3'000'000));
  EXPECT_THAT(chain.costs.parameters_bytes, ElementsAre(1000, 2000, 1000));
  EXPECT_THAT(chain.costs.copy_ns, ElementsAre(0, 1'000'000, 1'000'000));
}

}  // namespace
}  // namespace mptune::testing

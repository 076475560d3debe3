#include "planner/partition/path_mixture.h"
#include "profiler/base/index.h"

#include <gtest/gtest.h>

#include <random>

#include "planner/partition/cut_rater.h"
#include "planner/schedule/schedule_info.h"
#include "tests/planner/partition/problems.h"

namespace mptune::planner {
namespace {

using testing::BruteForce;
using testing::straight;

Windows open_windows(int stages, int layers) {
  Windows windows;
  windows.begins = {{0}};
  for (int s = 1; s < stages; ++s) {
    windows.begins.emplace_back();
    for (int layer = s; layer <= layers - (stages - s); ++layer) windows.begins.back().push_back(layer);
  }
  windows.begins.push_back({layers});
  std::vector<int> nearest;
  for (int first = 0; first <= layers; ++first) nearest.push_back(first + 1);
  windows.nearest.assign(as_index(stages), nearest);
  windows.furthest.assign(as_index(stages), std::vector<int>(nearest.size(), layers));
  return windows;
}

bool allow(const Windows& windows, const std::vector<int>& cuts, int layers) {
  int first = 0;
  for (int s = 0; s <= static_cast<int>(cuts.size()); ++s) {
    const int last = s < static_cast<int>(cuts.size()) ? cuts[as_index(s)] : layers;
    if (!windows.allows(s, first, last)) return false;
    first = last;
  }
  return true;
}

std::int64_t least_of_single_paths(PathBounds& paths, const Windows& windows) {
  paths.refresh(windows);
  std::int64_t least = 0;
  for (int path = 0; path < paths.paths(); ++path) least = std::max(least, paths.rest(path, 0, 0));
  return least;
}

TEST(PathMixture, BoundsEveryPlanBetterThanItsPaths) {
  std::mt19937 random(1);
  int better = 0;
  for (int round = 0; round < 200; ++round) {
    SCOPED_TRACE(round);
    const int stages = std::uniform_int_distribution<int>(2, 5)(random);
    const int layers = std::uniform_int_distribution<int>(stages, 9)(random);
    const CostModel cost(testing::random_chain(random, layers, stages));
    const PartitionProblem problem = straight(stages, split_evenly(9, std::uniform_int_distribution<int>(1, 9)(random)));
    const testing::SlowPlan best = BruteForce(problem, cost).plans.front();
    const Family family(problem, cost);
    CutRater rater(problem, cost, family);
    const std::int64_t limit_ns = best.step_ns - rater.step_cost_ns();
    const Windows all = open_windows(stages, layers);
    PathMixture mixture(rater.prices(), stages);
    for (const Path& row : rater.rows()) mixture.add(row);
    for (int i = 0; i < 30; ++i) {
      const auto least = mixture.least(all);
      ASSERT_TRUE(least.has_value());
      EXPECT_LE(least->ns * (1 - 1e-9), static_cast<double>(limit_ns));
      static_cast<void>(rater.consider(least->cuts, PathBounds::kFar));
      for (int path = mixture.paths(); path < rater.paths().paths(); ++path) mixture.add(rater.paths().path(path));
      mixture.reweigh(*least, static_cast<double>(limit_ns));
    }
    PathBounds& paths = rater.paths();
    const std::int64_t single_ns = least_of_single_paths(paths, all);
    const Path mean = mixture.best();
    const int index = paths.paths();
    paths.add(mean);
    if (paths.paths() == index) continue;  // the path is known
    paths.refresh(all, index);
    const std::int64_t mean_ns = paths.rest(index, 0, 0) / mean.of;
    EXPECT_LE(mean_ns, limit_ns);
    better += mean_ns > single_ns ? 1 : 0;
    Windows windows = all;
    paths.narrow(limit_ns, windows);
    EXPECT_TRUE(allow(windows, best.cuts, layers)) << "the best plan keeps to its own step";
    windows = all;
    paths.narrow(mean_ns - 1, windows);
    EXPECT_TRUE(windows.empty()) << "nothing is shorter than the least mean";
  }
  EXPECT_GT(better, 50);
}

// Steps of weeks, times their weights, would not fit into 64 bits.
TEST(PathMixture, LeavesLongStepsAlone) {
  const CostModel cost(testing::make_profile({.layers = 4, .devices = 2, .forward_s = 1e6, .backward_s = 2e6}));
  const PartitionProblem problem = straight(2, testing::ones(4));
  const Family family(problem, cost);
  CutRater rater(problem, cost, family);
  Path mean = rater.rows().front();
  mean.of = 1000;
  const int index = rater.paths().paths();
  rater.paths().add(mean);
  EXPECT_EQ(rater.paths().scaled(index, PathBounds::kMostMixed), PathBounds::kFar - 1);
  EXPECT_EQ(rater.paths().scaled(index, 7), 7000);
  EXPECT_EQ(rater.paths().scaled(0, PathBounds::kMostMixed), PathBounds::kMostMixed);
}

// Two stages on each of six devices: single paths of a device leave seven times as many partial plans.
TEST(PathMixture, ProvesWhereDevicesHaveSeveralStages) {
  std::mt19937 random(1);
  testing::ProfileShape shape = testing::random_shape(random, 30, 6);
  shape.sender_copies = false;
  const CostModel cost(testing::make_profile(shape, testing::random_factors(random, 30)));
  PartitionProblem problem = straight(6, split_evenly(12, 6), "interleaved");
  problem.stages.clear();
  for (const int device : stage_devices("interleaved", 6, 2)) problem.stages.push_back({device});
  problem.most_nodes = 20'000;
  const PartitionResult result = partition(problem, cost);
  EXPECT_TRUE(result.complete) << result.gap() << " after " << result.nodes;
}

}  // namespace
}  // namespace mptune::planner

#include "planner/topology/topology_search.h"

#include <gtest/gtest.h>

#include <functional>
#include <random>

#include "planner/schedule/schedule.h"
#include "planner/simulate/simulate.h"
#include "planner/topology/topology_profile.h"
#include "tests/planner/profiles.h"
#include "tests/planner/topology/topologies.h"
#include "tests/support/error_of.h"

namespace mptune::testing {
namespace {

using planner::Placement;
using planner::search_uniform;
using planner::Topology;
using planner::UniformShape;
using planner::UniformSpace;

// Every set of `count` cuts.
void each_cuts(int layers, int count, std::vector<int>& cuts, const std::function<void()>& use) {
  if (static_cast<int>(cuts.size()) == count) return use();
  for (int cut = cuts.empty() ? 1 : cuts.back() + 1; cut < layers; ++cut) {
    cuts.push_back(cut);
    each_cuts(layers, count, cuts, use);
    cuts.pop_back();
  }
}

// The fastest of all plans of the space that fit without recomputation, each simulated on all its devices.
class AllPlans {
 public:
  AllPlans(const UniformSpace& space, const Topology& topology, const Profile& profile)
      : space_(space), topology_(topology), profile_(planner::on_topology(profile, topology, "t")), cost_(profile_) {}

  double least_s() {
    for (int replicas = 1; replicas <= topology_.device_count(); ++replicas)
      for (int stages = 1; stages * replicas <= topology_.device_count() && stages <= cost_.layers(); ++stages)
        for (int m = 1; replicas * m <= space_.batch; ++m)
          if (space_.batch % (replicas * m) == 0)
            for (const Placement placement : {Placement::stages_near, Placement::replicas_near})
              try_shape({stages, replicas, m, placement});
    return least_s_;
  }

 private:
  void try_shape(const UniformShape& shape) {
    std::vector<int> cuts;
    each_cuts(cost_.layers(), shape.stages - 1, cuts, [&] {
      for (const std::string& schedule : space_.schedules) try_plan(shape, cuts, schedule);
    });
  }

  void try_plan(const UniformShape& shape, const std::vector<int>& cuts, const std::string& schedule) {
    const auto devices = planner::placed(shape, topology_);
    Plan plan;
    plan.microbatch_sizes =
        std::vector<int>(as_index(shape.replicas * shape.microbatches), space_.batch / shape.replicas / shape.microbatches);
    for (int s = 0; s < shape.stages; ++s) {
      Stage stage{s == 0 ? 0 : cuts[as_index(s) - 1], s + 1 == shape.stages ? cost_.layers() : cuts[as_index(s)], {}, {}};
      for (const std::vector<int>& pipeline : devices) {
        stage.devices.push_back(static_cast<int>(plan.devices.size()));
        plan.devices.push_back(profile_.devices[as_index(pipeline[as_index(s)])].name);
      }
      plan.stages.push_back(stage);
    }
    planner::make_schedule(plan, schedule);
    const Prediction prediction = predict(plan, cost_);
    for (const std::int64_t bytes : prediction.peak_bytes)
      if (space_.memory_bytes > 0 && bytes > space_.memory_bytes) return;
    least_s_ = std::min(least_s_, prediction.step_s);
  }

  const UniformSpace& space_;
  const Topology& topology_;
  const Profile profile_;
  const CostModel cost_;
  double least_s_ = std::numeric_limits<double>::infinity();
};

struct Case {
  Profile profile;
  Topology topology;
  UniformSpace space;
};

Case draw(std::mt19937& random, bool shared) {
  const auto number = [&](int low, int high) { return std::uniform_int_distribution<int>(low, high)(random); };
  const auto real = [&](double low, double high) { return std::uniform_real_distribution<double>(low, high)(random); };
  Case drawn;
  const int layers = number(2, 6);
  ProfileShape shape{.layers = layers,
                     .devices = 1,
                     .fixed_s = real(0, 1e-3),
                     .action_s = real(0, 1e-4),
                     .step_s = 1e-4,
                     .optimizer_s_per_byte = real(0, 1e-7)};
  std::vector<double> factors;
  for (int l = 0; l < layers; ++l) factors.push_back(real(0.2, 3));
  drawn.profile = make_profile(shape, factors);
  for (LayerEdge& edge : drawn.profile.edges) edge.bytes_per_sample = number(1, 100'000);
  for (ProfileLayer& layer : drawn.profile.layers) layer.parameters_bytes = number(0, 10'000'000);
  drawn.topology = make_topology(number(1, 3), number(1, 3), shared);
  drawn.topology.groups[0].link = {real(0, 1e-4), real(1e9, 1e10)};
  drawn.topology.between = {real(0, 1e-3), real(1e8, 2e9)};
  drawn.space.where = "t";
  drawn.space.batch = std::vector<int>{4, 6, 8, 12}[as_index(number(0, 3))];
  return drawn;
}

TEST(UniformSearch, FindsTheBestOfAllPlans) {
  std::mt19937 random(11);
  for (int round = 0; round < 60; ++round) {
    const Case drawn = draw(random, false);
    const SearchResult result = search_uniform(drawn.space, drawn.topology, drawn.profile);
    const double least_s = AllPlans(drawn.space, drawn.topology, drawn.profile).least_s();
    ASSERT_FALSE(result.ranked.empty());
    EXPECT_LE(result.lower_bound_s, least_s + 1e-12) << round;
    EXPECT_LE(result.ranked.front().prediction.step_s, least_s + 1e-12) << round;
    EXPECT_GE(result.ranked.front().prediction.step_s, least_s - 1e-12) << round;
    // The sum over replicas is bounded by a line below its cost.
    EXPECT_GE(result.lower_bound_s, least_s * 0.95) << round;
  }
}

TEST(UniformSearch, BoundHoldsWhereCopiesQueue) {
  std::mt19937 random(12);
  double worst = 1;
  for (int round = 0; round < 60; ++round) {
    const Case drawn = draw(random, true);
    const SearchResult result = search_uniform(drawn.space, drawn.topology, drawn.profile);
    const double least_s = AllPlans(drawn.space, drawn.topology, drawn.profile).least_s();
    EXPECT_LE(result.lower_bound_s, least_s + 1e-12) << round;
    EXPECT_GE(result.ranked.front().prediction.step_s, least_s - 1e-12) << round;
    worst = std::max(worst, result.ranked.front().prediction.step_s / least_s);
  }
  EXPECT_LE(worst, 1.05);
}

TEST(UniformSearch, BoundHoldsWhereHostsDifferInSpeed) {
  std::mt19937 random(15);
  int exact = 0;
  for (int round = 0; round < 60; ++round) {
    Case drawn = draw(random, false);
    drawn.topology = make_topology(1, std::uniform_int_distribution<int>(1, 3)(random));
    drawn.topology.groups.push_back(drawn.topology.groups.front());
    drawn.topology.groups.back().name = "other";
    drawn.topology.groups.back().speed = std::uniform_real_distribution<double>(0.3, 3)(random);
    const SearchResult result = search_uniform(drawn.space, drawn.topology, drawn.profile);
    const double least_s = AllPlans(drawn.space, drawn.topology, drawn.profile).least_s();
    EXPECT_LE(result.lower_bound_s, least_s + 1e-12) << round;
    EXPECT_GE(result.ranked.front().prediction.step_s, least_s - 1e-12) << round;
    exact += result.ranked.front().prediction.step_s <= least_s + 1e-12 ? 1 : 0;
  }
  EXPECT_GE(exact, 40);
}

TEST(UniformSearch, PlansAreValidAndNameTheTopologysDevices) {
  std::mt19937 random(13);
  const Case drawn = draw(random, false);
  const SearchResult result = search_uniform(drawn.space, drawn.topology, drawn.profile);
  const CostModel cost(planner::on_topology(drawn.profile, drawn.topology, "t"));
  for (const Candidate& candidate : result.ranked) {
    validate(candidate.plan, cost.layers(), "plan");
    planner::validate_schedule(candidate.plan, "plan");
    EXPECT_EQ(predict(candidate.plan, cost), candidate.prediction);
  }
}

TEST(UniformSearch, FitsCapsByRecomputation) {
  std::mt19937 random(14);
  int recomputing = 0;
  for (int round = 0; round < 30; ++round) {
    Case drawn = draw(random, false);
    for (ProfileLayer& layer : drawn.profile.layers) layer.parameters_bytes = 100;
    for (LayerEdge& edge : drawn.profile.edges) edge.bytes_per_sample = 100;
    const SearchResult free = search_uniform(drawn.space, drawn.topology, drawn.profile);
    const auto& peaks = free.ranked.front().prediction.peak_bytes;
    const Plan& fastest = free.ranked.front().plan;
    drawn.space.stage_counts = {fastest.num_stages()};
    drawn.space.replica_counts = {static_cast<int>(fastest.stages[0].devices.size())};
    drawn.space.microbatch_counts = {fastest.num_microbatches()};
    drawn.space.memory_bytes = *std::max_element(peaks.begin(), peaks.end()) * 3 / 4;
    const SearchResult capped = search_uniform(drawn.space, drawn.topology, drawn.profile);
    if (capped.ranked.empty()) continue;
    for (const std::int64_t bytes : capped.ranked.front().prediction.peak_bytes) EXPECT_LE(bytes, drawn.space.memory_bytes);
    EXPECT_GE(capped.ranked.front().prediction.step_s, free.ranked.front().prediction.step_s);
    for (const Stage& stage : capped.ranked.front().plan.stages) recomputing += stage.recompute.mode != Recompute::Mode::none ? 1 : 0;
  }
  EXPECT_GT(recomputing, 0);
}

TEST(UniformSearch, SaysWhatIsTooLarge) {
  UniformSpace space;
  space.where = "t";
  space.batch = 4;
  space.memory_bytes = 1000;
  const SearchResult result = search_uniform(space, make_topology(1, 2), make_profile({.layers = 4, .devices = 1}));
  EXPECT_TRUE(result.ranked.empty());
  EXPECT_GT(result.smallest_excess_bytes, 0);
  EXPECT_EQ(result.smallest_excess_device, "0@sleep:0");
}

TEST(UniformSearch, ObeysChoices) {
  UniformSpace space;
  space.where = "t";
  space.batch = 24;
  space.schedules = {"gpipe"};
  space.stage_counts = {3};
  space.replica_counts = {2};
  space.microbatch_counts = {12};
  const SearchResult result = search_uniform(space, make_topology(2, 4), make_profile({.layers = 6, .devices = 1}));
  ASSERT_FALSE(result.ranked.empty());
  for (const Candidate& candidate : result.ranked) {
    EXPECT_EQ(candidate.plan.num_stages(), 3);
    EXPECT_EQ(candidate.plan.stages[0].devices.size(), 2U);
    EXPECT_EQ(candidate.plan.num_microbatches(), 12);
    EXPECT_EQ(candidate.plan.schedule, "gpipe");
  }
  space.microbatch_counts = {7};
  EXPECT_EQ(error_of([&] { (void)search_uniform(space, make_topology(2, 4), make_profile({.layers = 6, .devices = 1})); }).problem(),
            "no uniform plan of 24 samples fits these choices on 2 hosts of 4 devices");
  space.schedules = {"interleaved"};
  EXPECT_EQ(error_of([&] { (void)search_uniform(space, make_topology(2, 4), make_profile({.layers = 6, .devices = 1})); }).where(),
            "--schedule");
}

TEST(UniformSearch, LimitedWorkLeavesAValidBound) {
  std::mt19937 random(15);
  for (int round = 0; round < 20; ++round) {
    Case drawn = draw(random, false);
    const double least_s = AllPlans(drawn.space, drawn.topology, drawn.profile).least_s();
    drawn.space.most_actions = 50 * (1 + round);
    EXPECT_LE(search_uniform(drawn.space, drawn.topology, drawn.profile).lower_bound_s, least_s + 1e-12);
  }
}

}  // namespace
}  // namespace mptune::testing

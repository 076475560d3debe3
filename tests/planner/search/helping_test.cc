// Plans whose idle devices help: against every such plan of small spaces.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "planner/plan/helping.h"
#include "planner/search/bounds/family_bound.h"
#include "planner/search/bounds/helping_bound.h"
#include "planner/search/joint/joint_search.h"
#include "planner/search/search.h"
#include "profiler/base/index.h"
#include "tests/planner/random_plans.h"
#include "tests/planner/search/brute_force.h"

namespace mptune::planner {
namespace {

using testing::BruteForce;
using testing::cpu_names;
using testing::step;

Profile with_halves(Profile profile, std::mt19937& random) {
  const double input = std::uniform_real_distribution<double>(0.3, 0.6)(random);
  for (LayerCosts& layer : profile.classes.front().layers) {
    for (LayerCost& cost : layer.by_samples) {
      cost.backward_input = exactly(median(cost.backward) * input);
      cost.backward_weight = exactly(median(cost.backward) * (1.02 - input));
    }
  }
  return profile;
}

CostModel small_cost(std::mt19937& random, int layers, int devices) {
  const Profile profile = testing::make_profile(testing::draw_shape(random, layers, devices), testing::random_factors(random, layers));
  return CostModel(testing::with_names(with_halves(profile, random), cpu_names(devices)));
}

SearchSpace small_space(int devices, int batch) {
  SearchSpace space;
  space.devices = cpu_names(devices);
  space.batch = batch;
  space.idle_devices_help = true;
  // All but `list`, whose rows take long to make.
  for (const ScheduleInfo& schedule : schedules())
    if (schedule.rows_from != RowsFrom::search) space.schedules.emplace_back(schedule.name);
  for (const ScheduleInfo& schedule : late_schedules()) space.schedules.emplace_back(schedule.name);
  return space;
}

// Those of the late orders, and all others with split backwards.
struct HelpingPlans {
  std::vector<Candidate> late;
  std::vector<Candidate> others;
};

HelpingPlans all_helping(const SearchSpace& space, const CostModel& cost) {
  const int devices = static_cast<int>(space.devices.size());
  BruteForce brute{space, cost, testing::counts_of(space.batch)};
  brute.run();
  BruteForce late{space, cost, brute.counts};
  for (int stages = 2; stages <= devices; ++stages)
    late.all_cuts(std::vector<int>(as_index(stages), 1), 1, {"naive-late", "gpipe-late", "1f1b-late"});
  for (int v = 2; v * devices <= cost.layers(); ++v)
    late.all_cuts(std::vector<int>(as_index(devices), 1), v, {"interleaved-late", "looped-bfs-late"});
  HelpingPlans plans;
  const auto help = [&](const std::vector<Candidate>& all, std::vector<Candidate>& helped) {
    for (Candidate candidate : all) {
      if (candidate.plan.num_stages() < 2 || !splits_backward(candidate.plan)) continue;
      candidate.plan.options.idle_devices_help = true;
      helped.push_back({candidate.plan, predict(candidate.plan, cost)});
    }
  };
  help(late.all, plans.late);
  help(brute.all, plans.others);
  return plans;
}

double fastest(const std::vector<Candidate>& plans) {
  return std::ranges::min(plans, {}, step).prediction.step_s;
}

TEST(SearchHelping, FindsTheBestLatePlanAndNoPlanBeatsTheBound) {
  std::mt19937 random(41);
  int best_helps = 0;
  int complete = 0;
  for (int round = 0; round < 6; ++round) {
    SCOPED_TRACE(round);
    const int devices = 2 + round % 2;
    const CostModel cost = small_cost(random, devices == 2 ? 6 : 5, devices);
    const SearchSpace space = small_space(devices, devices == 2 ? 6 : 4);
    const SearchResult result = search_plans(space, cost);
    const HelpingPlans plans = all_helping(space, cost);
    ASSERT_FALSE(plans.late.empty());
    EXPECT_LE(step(result.ranked.front()), fastest(plans.late) + 1e-12);
    EXPECT_GE(fastest(plans.late), result.lower_bound_s - 1e-12);
    EXPECT_GE(fastest(plans.others), result.lower_bound_s - 1e-12);
    if (result.complete) {
      EXPECT_GE(std::min(fastest(plans.late), fastest(plans.others)), step(result.ranked.front()) - 1e-12);
    }
    for (const Candidate& candidate : result.ranked) EXPECT_GE(step(candidate), result.lower_bound_s);
    best_helps += result.ranked.front().plan.options.idle_devices_help ? 1 : 0;
    complete += result.complete ? 1 : 0;
  }
  EXPECT_GT(best_helps, 0) << "helping is never worth while";
  EXPECT_GT(complete, 0) << "nothing is ever proved";
}

// Layers as those of a transformer, and copies that cost little: with more stages on a device the pipeline fills sooner.
CostModel even_cost(int layers, double bytes_per_second) {
  std::mt19937 random(0);
  const testing::ProfileShape shape{.layers = layers, .devices = 2, .bytes_per_second = bytes_per_second};
  return CostModel(testing::with_names(with_halves(testing::make_profile(shape), random), cpu_names(2)));
}

TEST(SearchStages, FindsMoreThanTwoStagesPerDeviceWhereTheyAreFastest) {
  const CostModel cost = even_cost(8, 1e12);
  SearchSpace space = small_space(2, 12);
  space.microbatch_counts = {4};
  const SearchResult result = search_plans(space, cost);
  std::vector<double> fastest_s;
  for (const int v : {1, 2, 3}) {
    BruteForce brute{space, cost, {4}};
    brute.all_cuts(
        {1, 1}, v,
        v == 1 ? std::vector<std::string>{"gpipe-late", "1f1b-late"} : std::vector<std::string>{"interleaved-late", "looped-bfs-late"});
    for (Candidate& candidate : brute.all) {
      candidate.plan.options.idle_devices_help = true;
      candidate.prediction = predict(candidate.plan, cost);
    }
    fastest_s.push_back(fastest(brute.all));
  }
  ASSERT_LT(fastest_s[2], 0.999 * std::min(fastest_s[0], fastest_s[1])) << "three stages per device are not the fastest here";
  ASSERT_GE(result.best_pipeline, 0);
  const Candidate& pipeline = result.ranked[as_index(result.best_pipeline)];
  EXPECT_LE(step(pipeline), fastest_s[2] + 1e-12);
  EXPECT_EQ(pipeline.plan.num_stages(), 6);
  EXPECT_EQ(result.stages_per_device.searched, 4);
  EXPECT_EQ(result.stages_per_device.possible, 4);
}

// Thirty layers on two devices allow fifteen stages on each.
TEST(SearchStages, StopsWhereMoreStagesFindNothingFaster) {
  const CostModel cost = even_cost(30, 1e6);
  SearchSpace space = small_space(2, 4);
  space.keep = 1;
  space.microbatch_counts = {4};
  space.most_actions = 400'000;
  const SearchResult result = search_plans(space, cost);
  EXPECT_EQ(result.stages_per_device.possible, 15);
  EXPECT_LT(result.stages_per_device.searched, 10);
  EXPECT_GE(result.stages_per_device.searched, 4);
  EXPECT_EQ(result.stages_per_device.end, StagesPerDevice::End::nothing_faster);
  EXPECT_TRUE(result.complete) << "the bounds of pipelines, tried or not, are above the step of data parallelism";
  EXPECT_EQ(result.ranked.front().plan.num_stages(), 1);
  space.virtual_counts = {1, 2};
  const SearchResult restricted = search_plans(space, cost);
  EXPECT_EQ(restricted.stages_per_device.searched, 0);
  EXPECT_LE(step(result.ranked.front()), step(restricted.ranked.front()) + 1e-12);
  EXPECT_LT(result.simulated, restricted.simulated + 1'000);
}

TEST(SearchHelping, RanksTheTwinsOfRankedPlans) {
  std::mt19937 random(42);
  const CostModel cost = small_cost(random, 8, 2);
  SearchSpace space = small_space(2, 8);
  space.schedules = {"zb1p"};
  space.keep = 200;
  const SearchResult result = search_plans(space, cost);
  int twins = 0;
  for (const Candidate& candidate : result.ranked) {
    if (candidate.plan.num_stages() < 2 || candidate.plan.options.idle_devices_help) continue;
    Plan helped = candidate.plan;
    helped.options.idle_devices_help = true;
    ++twins;
    EXPECT_TRUE(std::ranges::any_of(result.ranked, [&](const Candidate& other) { return other.plan == helped; }));
  }
  EXPECT_GT(twins, 2);
}

TEST(SearchHelping, OnlyWhereAllDevicesAndTheRuntimeCan) {
  std::mt19937 random(43);
  const Profile profile = testing::make_profile(testing::draw_shape(random, 6, 2), testing::random_factors(random, 6));
  const auto helps = [](const Profile& of, SearchSpace space) {
    const SearchResult result = search_plans(space, CostModel(of));
    return std::ranges::any_of(result.ranked, [](const Candidate& one) { return one.plan.options.idle_devices_help; });
  };
  const SearchSpace space = small_space(2, 4);
  EXPECT_TRUE(helps(testing::with_names(profile, cpu_names(2)), space));
  SearchSpace other = space;
  other.idle_devices_help = false;
  EXPECT_FALSE(helps(testing::with_names(profile, cpu_names(2)), other));
  other = space;
  other.capabilities.idle_devices_help = false;
  EXPECT_FALSE(helps(testing::with_names(profile, cpu_names(2)), other));
  other = space;
  other.capabilities.split_backward = false;
  EXPECT_FALSE(helps(testing::with_names(profile, cpu_names(2)), other));
  other = space;
  other.devices = {"cpu:0", "cpu:2-3"};
  EXPECT_FALSE(helps(testing::with_names(profile, other.devices), other)) << "other numbers of threads give other bits";
  other.devices = testing::names(2);
  EXPECT_FALSE(helps(profile, other)) << "sleeping devices compute nothing";
}

TEST(HelpingBound, HoldsForAnyRowsAndCuts) {
  std::mt19937 random(44);
  double closest = 0;
  for (int round = 0; round < 400; ++round) {
    const int devices = std::uniform_int_distribution<int>(2, 4)(random);
    const CostModel cost = small_cost(random, 8, devices);
    Plan plan = testing::random_virtual_plan(random, 8, devices, 1 + round % 2);
    plan.devices = cpu_names(devices);
    plan.options.idle_devices_help = true;
    std::vector<int> used;
    for (const Stage& stage : plan.stages) used.insert(used.end(), stage.devices.begin(), stage.devices.end());
    std::ranges::sort(used);
    if (std::ranges::unique(used).begin() - used.begin() < devices) continue;  // a device without a stage may help, too
    std::vector<std::vector<int>> stages;
    std::vector<int> cuts;
    for (const Stage& stage : plan.stages) {
      stages.push_back(stage.devices);
      if (stage.first_layer > 0) cuts.push_back(stage.first_layer);
    }
    const auto step_ns = static_cast<double>(std::llround(predict(plan, cost).step_s * 1e9));
    const HelpingBound bound(cost, stages, plan.microbatch_sizes);
    EXPECT_LE(static_cast<double>(bound.of(cuts)), step_ns) << round;
    closest = std::max(closest, static_cast<double>(bound.of(cuts)) / step_ns);
    EXPECT_LE(static_cast<double>(FamilyBound(cost).of(stages, plan.microbatch_sizes, true, true).step_ns), step_ns) << round;
  }
  EXPECT_GT(closest, 0.7) << "the bound is worth nothing";
}

// With fewer micro-batches than stages, the weight gradients of one micro-batch overlap: its halves are no chain.
TEST(FamilyBound, HoldsForSplitBackwardsOfFewMicrobatches) {
  std::mt19937 random(45);
  for (int round = 0; round < 60; ++round) {
    const int devices = std::uniform_int_distribution<int>(3, 6)(random);
    const CostModel cost = small_cost(random, 8, devices);
    Plan plan = testing::stages_of(8, std::vector<int>(as_index(devices), 1), split_evenly(8, 2));
    plan.devices = cpu_names(devices);
    std::vector<std::vector<int>> stages;
    for (const Stage& stage : plan.stages) stages.push_back(stage.devices);
    const std::int64_t bound_ns = FamilyBound(cost).of(stages, plan.microbatch_sizes, true).step_ns;
    for (const char* schedule : {"zb1p", "zb2p", "list", "1f1b-late"}) {
      Plan scheduled = plan;
      schedule_plan(scheduled, schedule, cost);
      EXPECT_LE(bound_ns, std::llround(predict(scheduled, cost).step_s * 1e9)) << schedule << " " << round;
    }
  }
}

}  // namespace
}  // namespace mptune::planner

#include "planner/search/search.h"
#include "planner/search/make_plan.h"
#include "profiler/base/index.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <array>
#include <random>
#include <set>

#include "planner/plan/file/plan_file.h"
#include "planner/plan/plan_words.h"
#include "profiler/base/error.h"
#include "tests/planner/search/brute_force.h"

namespace mptune::planner {
namespace {

using testing::BruteForce;
using testing::counts_of;
using testing::draw_shape;
using ::testing::HasSubstr;
using testing::make_profile;
using testing::names;
using testing::options_of;
using testing::step;

TEST(SearchPlans, EqualsBruteForce) {
  std::mt19937 random(12);
  int pipelines = 0;
  int hybrids = 0;
  for (int round = 0; round < 60; ++round) {
    const int layers = std::uniform_int_distribution<int>(2, 6)(random);
    const int devices = std::uniform_int_distribution<int>(1, 3)(random);
    testing::ProfileShape shape = draw_shape(random, layers, devices);
    if (round % 2 == 1) shape.reduce_s_per_byte = 1e-4;  // pipelines win
    const CostModel cost(make_profile(shape, testing::random_factors(random, layers)));
    SearchSpace space;
    space.devices = names(devices);
    space.batch = std::uniform_int_distribution<int>(4, 12)(random);
    space.keep = std::uniform_int_distribution<int>(1, 12)(random);
    space.capabilities = testing::kWholeBackwards;
    space.schedules = {"naive", "gpipe", "1f1b", "eager-1f1b", "interleaved", "looped-bfs"};
    BruteForce brute{space, cost, counts_of(space.batch)};
    brute.run();
    SearchResult result = search_plans(space, cost);
    // The plan for half the memory may recompute where the caps do not ask for it, or warm up less: a plan of another space.
    std::erase_if(result.ranked, [&](const Candidate& candidate) {
      Plan without_caps = candidate.plan;
      planner::schedule_plan(without_caps, without_caps.schedule, cost);
      const auto recomputes = [](const Stage& stage) { return stage.recompute.mode != Recompute::Mode::none; };
      return without_caps != candidate.plan || std::ranges::any_of(candidate.plan.stages, recomputes);
    });
    ASSERT_GE(result.ranked.size(), std::min(brute.all.size(), as_index(space.keep))) << round;
    for (std::size_t i = 0; i < std::min(brute.all.size(), as_index(space.keep)); ++i)
      ASSERT_EQ(step(result.ranked[i]), step(brute.all[i])) << round << " place " << i;
    EXPECT_TRUE(result.complete) << round;
    EXPECT_EQ(result.lower_bound_s, step(result.ranked[0]));
    pipelines += result.ranked[0].plan.num_stages() > 1;
    hybrids += std::ranges::any_of(result.ranked, [](const Candidate& candidate) {
      return candidate.plan.num_stages() > 1 && candidate.plan.devices.size() > candidate.plan.stages.size();
    });
  }
  EXPECT_GT(pipelines, 10);
  EXPECT_GT(hybrids, 3);
}

// Other runtimes wait for more, so the bound holds for them, too, and the best plan may be another.
TEST(SearchPlans, EqualsBruteForceUnderTheRulesOfEveryRuntime) {
  std::mt19937 random(48);
  int others = 0;
  for (int round = 0; round < 200; ++round) {
    const auto runtime = std::array{Runtime::torch, Runtime::megatron, Runtime::deepspeed}[as_index(round % 3)];
    const int layers = std::uniform_int_distribution<int>(2, 6)(random);
    const int devices = std::uniform_int_distribution<int>(2, 3)(random);
    testing::ProfileShape shape = draw_shape(random, layers, devices);
    shape.reduce_s_per_byte = 1e-4;
    shape.latency_s = std::uniform_real_distribution<double>(0, 0.004)(random);
    Profile profile = make_profile(shape, testing::random_factors(random, layers));
    const CostModel own(profile);
    profile.runtime = runtime;
    const CostModel cost(profile);
    SearchSpace space;
    space.devices = names(devices);
    space.batch = std::uniform_int_distribution<int>(4, 12)(random);
    space.capabilities = capabilities_of(runtime);
    space.look_beyond = false;  // another order may never end there
    space.schedules = {"1f1b"};
    if (runtime != Runtime::deepspeed) space.schedules.emplace_back("interleaved");
    if (runtime == Runtime::torch) space.schedules.insert(space.schedules.end(), {"gpipe", "looped-bfs", "zb1p"});
    BruteForce brute{space, cost, counts_of(space.batch)};
    brute.run();
    const SearchResult result = search_plans(space, cost);
    ASSERT_FALSE(result.ranked.empty()) << round;
    EXPECT_EQ(step(result.ranked[0]), step(brute.all[0]))
        << name_of(runtime) << " " << round << describe(result.ranked[0].plan) << " / " << describe(brute.all[0].plan);
    EXPECT_LE(result.lower_bound_s, step(brute.all[0]) + 1e-12) << round;
    EXPECT_EQ(step(result.ranked[0]), predict(result.ranked[0].plan, cost).step_s);
    others += predict(search_plans(space, own).ranked[0].plan, cost).step_s > step(result.ranked[0]) ? 1 : 0;
  }
  EXPECT_GT(others, 5) << "the rules decide between plans";
}

TEST(SearchPlans, EqualsBruteForceWithSplitBackwards) {
  std::mt19937 random(13);
  int split = 0;
  for (int round = 0; round < 12; ++round) {
    const int layers = std::uniform_int_distribution<int>(3, 6)(random);
    const int devices = std::uniform_int_distribution<int>(2, 3)(random);
    testing::ProfileShape shape = draw_shape(random, layers, devices);
    shape.reduce_s_per_byte = 1e-4;  // pipelines win
    const CostModel cost(make_profile(shape, testing::random_factors(random, layers)));
    SearchSpace space;
    space.devices = names(devices);
    space.batch = std::uniform_int_distribution<int>(4, 8)(random);
    space.schedules = {"naive", "1f1b", "interleaved", "zb1p", "zb2p", "zbv", "v-half", "v-min", "dualpipe-v"};
    BruteForce brute{space, cost, counts_of(space.batch)};
    brute.run();
    const SearchResult result = search_plans(space, cost);
    ASSERT_EQ(step(result.ranked[0]), step(brute.all[0])) << round;
    EXPECT_TRUE(result.complete) << round;
    EXPECT_TRUE(result.not_executable.empty());
    split += brute.all[0].plan.schedule.starts_with("z") ? 1 : 0;
  }
  EXPECT_GT(split, 0) << "no split backward is ever best";
}

TEST(SearchPlans, EqualsBruteForceUnderMemory) {
  std::mt19937 random(14);
  int capped = 0;
  int recomputed = 0;
  int infeasible = 0, only_in_pieces = 0;
  for (int round = 0; round < 60; ++round) {
    const int layers = std::uniform_int_distribution<int>(3, 5)(random);
    const int devices = std::uniform_int_distribution<int>(1, 3)(random);
    testing::ProfileShape shape = testing::random_shape(random, layers, devices);
    if (round % 2 == 1) shape.reduce_s_per_byte = 1e-4;  // pipelines win
    const CostModel cost(make_profile(shape, testing::random_factors(random, layers)));
    SearchSpace space;
    space.devices = names(devices);
    space.batch = 12;
    space.microbatch_counts = {1, 2, 3, 6};
    space.keep = 1;
    space.schedules = {"naive", "gpipe", "1f1b"};
    const double share = std::uniform_real_distribution<double>(0.2, 0.6)(random);
    const auto cap = static_cast<std::int64_t>(share * static_cast<double>(layers * (2000 + 330 * space.batch)));
    space.memory_bytes.assign(as_index(devices), cap);
    BruteForce brute{space, cost, space.microbatch_counts};
    for (const int m : brute.counts) {
      for (const int replicas : std::set<int>{1, devices}) {
        if (m % replicas != 0) continue;
        PlanOptions options = options_of(space.devices, space.batch, layers, m == 1 ? "naive" : "1f1b");
        options.stages = 1;
        options.microbatches = m;
        if (replicas > 1) options.replicas = {replicas};
        brute.consider(make_plan(options));
      }
    }
    for (int stages = 2; stages < devices; ++stages) brute.all_cuts(std::vector<int>(as_index(stages), 1), 1, space.schedules);
    std::vector<int> chosen;
    brute.shares(devices, chosen, [&] {
      if (chosen.size() > 1) brute.all_cuts(chosen, 1, space.schedules);
    });
    const SearchResult result = search_plans(space, cost);
    if (brute.all.empty()) {
      EXPECT_TRUE(result.ranked.empty());
      EXPECT_GE(result.smallest_excess_bytes, brute.smallest_excess);
      EXPECT_LE(static_cast<double>(result.smallest_excess_bytes), 1.02 * static_cast<double>(brute.smallest_excess));
      EXPECT_THAT(result.smallest_excess_device, HasSubstr("sleep:"));
      ++infeasible;
      continue;
    }
    ++capped;
    ASSERT_FALSE(result.ranked.empty()) << round;
    const Candidate& best = *std::ranges::min_element(brute.all, {}, step);
    EXPECT_EQ(step(result.ranked[0]), step(best)) << round;
    EXPECT_TRUE(result.complete) << round;
    EXPECT_EQ(result.lower_bound_s, step(best));
    Plan whole = best.plan;
    for (Stage& stage : whole.stages) stage.recompute = {Recompute::Mode::all, {}, {}};
    only_in_pieces += brute.excess(best.plan) == 0 && brute.excess(whole) > 0;
    for (const Candidate& candidate : result.ranked) {
      EXPECT_EQ(candidate.prediction, predict(candidate.plan, cost));
      for (const std::int64_t peak : candidate.prediction.peak_bytes) EXPECT_LE(peak, cap);
      recomputed += std::ranges::any_of(candidate.plan.stages, [](const Stage& s) { return s.recompute.mode != Recompute::Mode::none; });
    }
  }
  EXPECT_GT(capped, 10);
  EXPECT_GT(recomputed, 0);
  EXPECT_GT(infeasible, 3);
  EXPECT_GT(only_in_pieces, 3) << "with whole stages recomputed they do not fit";
}

TEST(SearchPlans, ListsEveryPlanOnce) {
  const CostModel cost(make_profile({.layers = 5, .devices = 3}));
  SearchSpace space;
  space.devices = names(3);
  space.batch = 8;
  space.keep = 100000;
  space.capabilities = testing::kWholeBackwards;
  space.schedules = {"naive", "gpipe", "1f1b", "looped-bfs"};
  const SearchResult result = search_plans(space, cost);
  std::set<std::string> keys;
  for (const Candidate& candidate : result.ranked) {
    EXPECT_TRUE(keys.insert(plan_key(candidate.plan)).second);
    EXPECT_NO_THROW(validate(candidate.plan, 5, ""));
    EXPECT_NO_THROW(validate_schedule(candidate.plan, ""));
    EXPECT_EQ(candidate.plan.global_batch_size(), 8);
    EXPECT_EQ(candidate.prediction, predict(candidate.plan, cost));
  }
  // 6 counts: one device; 2 data parallel of at most 8 micro-batches, 3 and 6; pipelines of 4 and 6 cuts and hybrids 1,2 and 2,1 of 4 cuts
  // and 5 counts, two schedules but for m = 1. Two stages on each of three devices would be six.
  EXPECT_EQ(keys.size(), 6u + 2u + (4u + 6u) * (1u + 5u * 2u) + 2u * 4u * 5u * 2u);
}

TEST(SearchPlans, RecomputesOnlyWhereMemoryAsks) {
  const CostModel cost(make_profile({.layers = 4, .devices = 2}));
  SearchSpace space;
  space.devices = names(2);
  space.batch = 8;
  space.capabilities = testing::kWholeBackwards;
  for (const Candidate& candidate : search_plans(space, cost).ranked)
    for (const Stage& stage : candidate.plan.stages) EXPECT_EQ(stage.recompute.mode, Recompute::Mode::none);
  space.memory_bytes = {7600, 7600};
  const SearchResult capped = search_plans(space, cost);
  ASSERT_FALSE(capped.ranked.empty());
  for (const Candidate& candidate : capped.ranked)
    for (const std::int64_t peak : candidate.prediction.peak_bytes) EXPECT_LE(peak, 7600);
  space.recompute = "none";
  EXPECT_LE(search_plans(space, cost).ranked.size(), capped.ranked.size());
}

TEST(SearchPlans, KeepsToTheGivenSpace) {
  const CostModel cost(make_profile({.layers = 6, .devices = 3}));
  SearchSpace space;
  space.devices = names(3);
  space.batch = 8;
  space.microbatch_counts = {4, 3};
  space.recompute = "none";
  space.schedules = {"gpipe"};
  space.cuts = {{2}, {1, 5}};
  const SearchResult result = search_plans(space, cost);
  EXPECT_EQ(result.ranked.size(), 2u * 4u) << "two counts; two stages, 1,2 and 2,1, three stages";
  for (const Candidate& candidate : result.ranked) {
    EXPECT_EQ(candidate.plan.schedule, "gpipe");
    EXPECT_TRUE(candidate.plan.num_microbatches() == 3 || candidate.plan.num_microbatches() == 4);
  }
  space.cuts = {{0}};
  EXPECT_THROW((void)search_plans(space, cost), Error);
  space.cuts = {};
  space.schedules = {"zigzag"};
  EXPECT_THROW((void)search_plans(space, cost), Error);
  space.schedules = {};
  space.devices.push_back("cpu:7");
  EXPECT_THROW((void)search_plans(space, cost), Error);
}

TEST(SearchPlans, NeverCutsWhereTheProfileForbidsIt) {
  Profile profile = make_profile({.layers = 6, .devices = 2});
  profile.forbidden_cuts = {{3, "a pair of layers that share memory"}, {2, "another"}};
  const CostModel cost(profile);
  SearchSpace space;
  space.devices = names(2);
  space.batch = 8;
  space.keep = 1000;
  const SearchResult result = search_plans(space, cost);
  ASSERT_GE(result.best_pipeline, 0);
  for (const Candidate& candidate : result.ranked)
    for (const Stage& stage : candidate.plan.stages) EXPECT_TRUE(cost.may_cut(stage.first_layer));
  space.cuts = {{3}};
  EXPECT_THROW((void)search_plans(space, cost), Error);
}

TEST(SearchPlans, PutsTheSlowDeviceWhereItCostsLeast) {
  Profile profile = make_profile({.layers = 4, .devices = 2}, {5, 1, 1, 1});
  profile.classes.push_back(make_profile({.layers = 4, .forward_s = 0.004, .backward_s = 0.008}, {5, 1, 1, 1}).classes[0]);
  profile.devices[0].device_class = 1;
  SearchSpace space;
  space.devices = names(2);
  space.batch = 8;
  space.capabilities = testing::kWholeBackwards;
  const SearchResult result = search_plans(space, CostModel(profile));
  ASSERT_GE(result.best_pipeline, 0);
  EXPECT_EQ(result.ranked[as_index(result.best_pipeline)].plan.devices, (std::vector<std::string>{"sleep:1", "sleep:0"}));
}

// Of three equal devices, one has fast links to both others: it has to be the middle one.
TEST(SearchPlans, PutsNeighboursOnTheFastLinks) {
  Profile profile = make_profile({.layers = 3, .devices = 3, .bytes_per_second = 3e4});
  for (LinkCost& link : profile.links)
    if (link.source == 2 || link.destination == 2) link.bytes_per_second = 1e9;
  SearchSpace space;
  space.devices = names(3);
  space.batch = 6;
  space.capabilities = testing::kWholeBackwards;
  space.stage_counts = {3};
  space.schedules = {"1f1b"};
  const SearchResult result = search_plans(space, CostModel(profile));
  EXPECT_EQ(result.ranked.at(0).plan.devices[1], "sleep:2");
  std::set<std::vector<int>> sizes;
  for (const Candidate& candidate : result.ranked) EXPECT_TRUE(sizes.insert(candidate.plan.microbatch_sizes).second) << "placements once";
}

TEST(SearchPlans, GivesTheSameAnswerTwice) {
  std::mt19937 random(30);
  const CostModel cost(make_profile(draw_shape(random, 7, 3), testing::random_factors(random, 7)));
  SearchSpace space;
  space.devices = names(3);
  space.batch = 12;
  space.most_actions = 40'000;
  const SearchResult a = search_plans(space, cost);
  const SearchResult b = search_plans(space, cost);
  ASSERT_EQ(a.ranked.size(), b.ranked.size());
  for (std::size_t i = 0; i < a.ranked.size(); ++i) EXPECT_EQ(a.ranked[i].plan, b.ranked[i].plan);
  EXPECT_EQ(a.lower_bound_s, b.lower_bound_s);
  EXPECT_EQ(a.simulated, b.simulated);
}

TEST(SearchPlans, LargeSpacesSayWhatTheyLeftOut) {
  std::mt19937 random(31);
  const CostModel cost(make_profile(testing::random_shape(random, 24, 4), testing::random_factors(random, 24)));
  SearchSpace space;
  space.devices = names(4);
  space.batch = 16;
  space.microbatch_counts = {4, 8};
  space.stage_counts = {4};
  space.schedules = {"gpipe", "1f1b"};
  space.keep = 1;
  const SearchResult result = search_plans(space, cost);
  std::int64_t rejected = 0;
  for (const Rejection& rejection : result.rejected) rejected += rejection.count;
  EXPECT_GE(rejected + result.simulated, 2 * 2 * 1771) << "C(23, 3) cuts, two counts, two schedules";
  EXPECT_TRUE(result.complete);
}

TEST(SearchPlans, SaysWhatItDidNotReachAndBoundsItToo) {
  std::mt19937 random(32);
  const CostModel cost(make_profile(draw_shape(random, 12, 3), testing::random_factors(random, 12)));
  SearchSpace space;
  space.devices = names(3);
  space.batch = 12;
  space.schedules = {"naive", "gpipe", "1f1b"};
  const SearchResult whole = search_plans(space, cost);
  space.most_actions = 100;
  const SearchResult part = search_plans(space, cost);
  const auto unreached = [](const SearchResult& result) {
    return std::count_if(result.rejected.begin(), result.rejected.end(),
                         [](const Rejection& rejection) { return rejection.reason == RejectedAs::not_reached && rejection.count > 0; });
  };
  EXPECT_EQ(unreached(whole), 0);
  EXPECT_EQ(unreached(part), 1);
  EXPECT_FALSE(part.complete);
  EXPECT_LT(part.simulated, whole.simulated);
  EXPECT_LE(part.lower_bound_s, step(whole.ranked[0]));
  EXPECT_LE(step(whole.ranked[0]), step(part.ranked[0]));
}

}  // namespace
}  // namespace mptune::planner

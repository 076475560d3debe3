#include "mptune/planner/search/search.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <random>
#include <set>

#include "mptune/planner/plan_file.h"
#include "mptune/planner/schedule/schedule.h"
#include "mptune/profiler/trace/error.h"
#include "mptune/tests/planner/search/spaces.h"

namespace mptune {
namespace {

using test::draw_shape;
using test::make_profile;
using test::names;
using test::options_of;
using ::testing::HasSubstr;

// Every plan of the space one after another, with no bound and no order.
struct BruteForce {
  const SearchSpace& space;
  const CostModel& cost;
  std::vector<Candidate> all;
  std::int64_t smallest_excess = -1;

  void consider(Plan plan, const std::vector<std::int64_t>& caps) {
    auto peaks = cost.peak_bytes(plan);
    std::int64_t over = 0;
    for (std::size_t d = 0; d < peaks.size(); ++d) {
      if (caps[d] == 0 || peaks[d] <= caps[d]) continue;
      for (Stage& stage : plan.stages) {
        if (std::count(stage.devices.begin(), stage.devices.end(), static_cast<int>(d)) > 0) stage.recompute.mode = Recompute::Mode::all;
      }
    }
    peaks = cost.peak_bytes(plan);
    for (std::size_t d = 0; d < peaks.size(); ++d) over = std::max(over, caps[d] > 0 ? peaks[d] - caps[d] : 0);
    if (over > 0) {
      smallest_excess = smallest_excess < 0 ? over : std::min(smallest_excess, over);
      return;
    }
    const Prediction prediction = predict(plan, cost);
    all.push_back({std::move(plan), prediction});
  }

  void cuts(int stages, int m, std::vector<int>& chosen, const std::vector<std::int64_t>& caps) {
    if (static_cast<int>(chosen.size()) == stages - 1) {
      PlanOptions options = options_of(space.devices, space.batch, cost.layers());
      options.stages = stages;
      options.cuts = chosen;
      options.microbatches = m;
      for (const std::string schedule : {"naive", "gpipe", "1f1b"}) {
        if ((schedule == "naive") != (m == 1)) continue;
        options.schedule = schedule;
        consider(make_plan(options), caps);
      }
      return;
    }
    for (int cut = chosen.empty() ? 1 : chosen.back() + 1; cut < cost.layers(); ++cut) {
      chosen.push_back(cut);
      cuts(stages, m, chosen, caps);
      chosen.pop_back();
    }
  }

  void run(const std::vector<int>& counts) {
    std::vector<std::int64_t> caps = space.memory_bytes;
    caps.resize(space.devices.size(), 0);
    const int devices = static_cast<int>(space.devices.size());
    for (const int m : counts) {
      PlanOptions one = options_of(space.devices, space.batch, cost.layers());
      one.stages = 1;
      one.microbatches = m;
      one.schedule = m == 1 ? "naive" : "1f1b";
      consider(make_plan(one), caps);
      if (devices > 1 && m * devices <= space.batch) {
        one.stages = 0;
        one.replicas = {devices};
        one.microbatches = m * devices;
        one.schedule = "1f1b";
        consider(make_plan(one), caps);
      }
      std::vector<int> chosen;
      for (int stages = 2; stages <= std::min(devices, cost.layers()); ++stages) cuts(stages, m, chosen, caps);
    }
    std::stable_sort(all.begin(), all.end(),
                     [](const Candidate& a, const Candidate& b) { return a.prediction.step_s < b.prediction.step_s; });
  }
};

TEST(SearchPlans, EqualsBruteForce) {
  std::mt19937 random(12);
  int capped = 0;
  int infeasible = 0;
  for (int round = 0; round < 120; ++round) {
    const int layers = std::uniform_int_distribution<int>(2, 7)(random);
    const int devices = std::uniform_int_distribution<int>(1, 3)(random);
    const CostModel cost(make_profile(draw_shape(random, layers, devices), test::random_factors(random, layers)));
    SearchSpace space;
    space.devices = names(devices);
    space.batch = std::uniform_int_distribution<int>(4, 12)(random);
    space.keep = std::uniform_int_distribution<int>(1, 12)(random);
    if (round % 2 == 1) {
      const double share = std::uniform_real_distribution<double>(0.1, 1.1)(random);
      const auto cap = static_cast<std::int64_t>(share * static_cast<double>(layers * (2000 + 330 * space.batch)));
      space.memory_bytes.assign(static_cast<std::size_t>(devices), cap);
    }
    BruteForce brute{space, cost, {}};
    std::vector<int> counts;
    for (const int m : {1, 2, 3, 4, 6, 8, 12}) {
      if (m <= space.batch) counts.push_back(m);
    }
    brute.run(counts);
    SearchResult result = search_plans(space, cost);
    if (brute.all.empty()) {
      EXPECT_TRUE(result.ranked.empty());
      EXPECT_EQ(result.smallest_excess_bytes, brute.smallest_excess);
      EXPECT_THAT(result.smallest_excess_device, HasSubstr("sleep:"));
      ++infeasible;
      continue;
    }
    capped += round % 2;
    // The plan for half the memory may recompute where the caps do not ask for it: a plan of another space.
    std::erase_if(result.ranked, [&](const Candidate& candidate) {
      return std::none_of(brute.all.begin(), brute.all.end(), [&](const Candidate& known) { return known.plan == candidate.plan; });
    });
    ASSERT_GE(result.ranked.size(), std::min(brute.all.size(), static_cast<std::size_t>(space.keep))) << round;
    for (std::size_t i = 0; i < std::min(brute.all.size(), static_cast<std::size_t>(space.keep)); ++i)
      EXPECT_EQ(result.ranked[i].prediction.step_s, brute.all[i].prediction.step_s) << round << " place " << i;
    EXPECT_LE(result.lower_bound_s, result.ranked[0].prediction.step_s);
    for (const Candidate& candidate : brute.all) EXPECT_LE(result.lower_bound_s, candidate.prediction.lower_bound_s + 1e-12);
  }
  EXPECT_GT(capped, 10);
  EXPECT_GT(infeasible, 3);
}

TEST(SearchPlans, ListsEveryPlanOnce) {
  const CostModel cost(make_profile({.layers = 5, .devices = 3}));
  SearchSpace space;
  space.devices = names(3);
  space.batch = 8;
  space.keep = 100000;
  const SearchResult result = search_plans(space, cost);
  std::set<std::string> keys;
  for (const Candidate& candidate : result.ranked) {
    EXPECT_TRUE(keys.insert(plan_key(candidate.plan)).second);
    EXPECT_NO_THROW(validate(candidate.plan, 5, ""));
    EXPECT_NO_THROW(validate_schedule(candidate.plan, ""));
    EXPECT_EQ(candidate.plan.global_batch_size(), 8);
    EXPECT_EQ(candidate.prediction, predict(candidate.plan, cost));
  }
  // 6 counts; one device; 3 data parallel of at most 8 micro-batches would be 3, 6; pipelines of 4 and 6 cuts, two schedules but for m = 1.
  EXPECT_EQ(keys.size(), 6u + 2u + (4u + 6u) * (1u + 5u * 2u));
}

TEST(SearchPlans, AlwaysReturnsTheBestOfEachKind) {
  std::mt19937 random(21);
  for (int round = 0; round < 40; ++round) {
    Profile profile = make_profile(draw_shape(random, 6, 2), test::random_factors(random, 6));
    profile.classes.push_back(profile.classes[0]);
    profile.devices.push_back({"cpu:0-1", 1, 0});
    const CostModel cost(profile);
    SearchSpace space;
    space.devices = names(2);
    space.whole_machine = {"cpu:0-1"};
    space.batch = 8;
    space.keep = 1;
    const SearchResult few = search_plans(space, cost);
    space.keep = 100000;
    const SearchResult all = search_plans(space, cost);
    const auto kind = [](const Plan& plan) {
      if (plan.num_stages() > 1) return 3;
      if (plan.devices.size() > 1) return 2;
      return plan.devices[0] == "cpu:0-1" ? 1 : 0;
    };
    double best[4] = {1e9, 1e9, 1e9, 1e9};
    for (const Candidate& candidate : few.ranked) {
      double& fastest = best[kind(candidate.plan)];
      fastest = std::min(fastest, candidate.prediction.step_s);
    }
    for (const Candidate& candidate : all.ranked) EXPECT_LE(best[kind(candidate.plan)], candidate.prediction.step_s) << round;
    ASSERT_GE(few.best_pipeline, 0);
    EXPECT_EQ(few.ranked[static_cast<std::size_t>(few.best_pipeline)].prediction.step_s, best[3]);
    EXPECT_TRUE(std::is_sorted(few.ranked.begin(), few.ranked.end(),
                               [](const auto& a, const auto& b) { return a.prediction.step_s < b.prediction.step_s; }));
  }
}

TEST(SearchPlans, FindsTheBestPipelineInHalfTheMemory) {
  std::mt19937 random(22);
  int found = 0;
  for (int round = 0; round < 60; ++round) {
    const CostModel cost(make_profile(draw_shape(random, 6, 2), test::random_factors(random, 6)));
    SearchSpace space;
    space.devices = names(2);
    space.batch = 12;
    space.keep = 3;
    const SearchResult result = search_plans(space, cost);
    const std::int64_t half = cost.peak_bytes(make_plan(options_of({"sleep:0"}, 12, 6, "naive"))).front() / 2;
    SearchSpace within = space;
    within.memory_bytes = {half, half};
    within.stage_counts = {2};
    BruteForce brute{within, cost, {}};
    std::vector<int> chosen;
    for (const int m : {1, 2, 3, 4, 6, 8, 12}) brute.cuts(2, m, chosen, within.memory_bytes);
    double best = 1e9;
    for (const Candidate& candidate : brute.all) best = std::min(best, candidate.prediction.step_s);
    ASSERT_EQ(result.best_half_memory >= 0, !brute.all.empty());
    if (brute.all.empty()) continue;
    const Candidate& candidate = result.ranked[static_cast<std::size_t>(result.best_half_memory)];
    EXPECT_EQ(candidate.prediction.step_s, best) << round;
    for (const std::int64_t peak : candidate.prediction.peak_bytes) EXPECT_LE(peak, half);
    ++found;
  }
  EXPECT_GT(found, 20);
}

TEST(SearchPlans, RecomputesOnlyWhereMemoryAsks) {
  const CostModel cost(make_profile({.layers = 4, .devices = 2}));
  SearchSpace space;
  space.devices = names(2);
  space.batch = 8;
  for (const Candidate& candidate : search_plans(space, cost).ranked) {
    for (const Stage& stage : candidate.plan.stages) EXPECT_EQ(stage.recompute.mode, Recompute::Mode::none);
  }
  space.memory_bytes = {7600, 7600};
  const SearchResult capped = search_plans(space, cost);
  ASSERT_FALSE(capped.ranked.empty());
  for (const Candidate& candidate : capped.ranked) {
    for (const std::int64_t peak : candidate.prediction.peak_bytes) EXPECT_LE(peak, 7600);
  }
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
  EXPECT_EQ(result.ranked.size(), 4u);
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

TEST(SearchPlans, PutsTheSlowDeviceWhereItCostsLeast) {
  Profile profile = make_profile({.layers = 4, .devices = 2}, {5, 1, 1, 1});
  profile.classes.push_back(make_profile({.layers = 4, .forward_s = 0.004, .backward_s = 0.008}, {5, 1, 1, 1}).classes[0]);
  profile.devices[0].device_class = 1;
  SearchSpace space;
  space.devices = names(2);
  space.batch = 8;
  const SearchResult result = search_plans(space, CostModel(profile));
  ASSERT_GE(result.best_pipeline, 0);
  EXPECT_EQ(result.ranked[static_cast<std::size_t>(result.best_pipeline)].plan.devices, (std::vector<std::string>{"sleep:1", "sleep:0"}));
}

TEST(SearchPlans, GivesTheSameAnswerTwice) {
  std::mt19937 random(30);
  const CostModel cost(make_profile(draw_shape(random, 7, 3), test::random_factors(random, 7)));
  SearchSpace space;
  space.devices = names(3);
  space.batch = 12;
  const SearchResult a = search_plans(space, cost);
  const SearchResult b = search_plans(space, cost);
  ASSERT_EQ(a.ranked.size(), b.ranked.size());
  for (std::size_t i = 0; i < a.ranked.size(); ++i) EXPECT_EQ(a.ranked[i].plan, b.ranked[i].plan);
}

TEST(SearchPlans, LargeSpacesSayWhatTheyLeftOut) {
  std::mt19937 random(31);
  const CostModel cost(make_profile(test::random_shape(random, 40, 4), test::random_factors(random, 40)));
  SearchSpace space;
  space.devices = names(4);
  space.batch = 16;
  space.microbatch_counts = {4, 8};
  space.stage_counts = {4};
  space.keep = 1;
  const SearchResult result = search_plans(space, cost);
  std::int64_t rejected = 0;
  for (const Rejection& rejection : result.rejected) rejected += rejection.count;
  EXPECT_GE(rejected + result.simulated, 2 * 2 * 9139) << "C(39, 3) cuts, two counts, two schedules";
  EXPECT_LT(result.simulated, 2 * 2 * 9139 / 4) << "the bound leaves most of them out";
}

TEST(SearchPlans, SaysWhatItDidNotReachAndBoundsItToo) {
  std::mt19937 random(32);
  const CostModel cost(make_profile(draw_shape(random, 12, 3), test::random_factors(random, 12)));
  SearchSpace space;
  space.devices = names(3);
  space.batch = 12;
  const SearchResult whole = search_plans(space, cost);
  space.most_actions = 100;
  const SearchResult part = search_plans(space, cost);
  const auto unreached = [](const SearchResult& result) {
    return std::count_if(result.rejected.begin(), result.rejected.end(),
                         [](const Rejection& rejection) { return rejection.reason.starts_with("not reached") && rejection.count > 0; });
  };
  EXPECT_EQ(unreached(whole), 0);
  EXPECT_EQ(unreached(part), 1);
  EXPECT_LT(part.simulated, whole.simulated);
  EXPECT_LE(part.lower_bound_s, whole.ranked[0].prediction.step_s);
  EXPECT_LE(whole.ranked[0].prediction.step_s, part.ranked[0].prediction.step_s);
}

}  // namespace
}  // namespace mptune

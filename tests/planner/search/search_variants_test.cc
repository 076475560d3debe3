// Searches over several execution options, against a search of each by itself.
#include <gmock/gmock.h>

#include <algorithm>
#include <random>

#include "planner/plan/file/plan_file.h"
#include "planner/plan/plan_words.h"
#include "planner/plan/threads.h"
#include "planner/search/baselines.h"
#include "planner/search/joint/ranking.h"
#include "planner/search/search.h"
#include "profiler/base/error.h"
#include "profiler/base/index.h"
#include "tests/planner/search/spaces.h"
#include "tests/support/variants.h"
#include "tuner/runtime/graph/capabilities.h"

namespace mptune::planner {
namespace {

using ::testing::HasSubstr;

constexpr ExecutionVariant kInChannelsLast{.memory_format = MemoryFormat::channels_last};

SearchSpace space_of_variants(int devices, int batch) {
  SearchSpace space;
  space.devices = testing::names(devices);
  space.batch = batch;
  space.schedules = {"naive", "gpipe", "1f1b"};
  space.capabilities = tuner::kRuntime;
  space.variants = {{}, kInChannelsLast};
  return space;
}

bool in_channels_last(const Candidate& candidate) {
  return candidate.plan.options == ExecutionOptions{.memory_format = MemoryFormat::channels_last};
}

// No search chooses the precision: every plan has the one that the profile was measured in, and costs what it cost there.
TEST(SearchVariants, EveryPlanComputesInThePrecisionOfTheProfile) {
  std::mt19937 random(29);
  const Profile plain = testing::make_profile(testing::draw_shape(random, 5, 3), testing::random_factors(random, 5));
  Profile profile = plain;
  profile.precision = Precision::bf16;
  SearchSpace space = space_of_variants(3, 6);
  space.schedules.clear();
  space.variants = {{}};
  const SearchResult result = search_plans(space, profile);
  std::vector<Plan> plans;
  for (const Candidate& candidate : result.ranked) plans.push_back(candidate.plan);
  for (const NotExecutable& beyond : result.not_executable) plans.push_back(beyond.candidate.plan);
  for (const Candidate& candidate : memory_front(space, profile, 0.9, result.ranked)) plans.push_back(candidate.plan);
  for (const NamedPlan& baseline : baseline_plans(space, 5, profile.precision)) plans.push_back(baseline.plan);
  EXPECT_GT(plans.size(), 10U);
  for (const Plan& plan : plans) {
    EXPECT_EQ(plan.options.precision, Precision::bf16) << describe(plan);
    EXPECT_THAT(describe(plan), HasSubstr("bf16"));
    EXPECT_EQ(plan_from_json(plan_to_json(plan, {}), "memory"), plan);
    EXPECT_GT(predict(plan, CostModel(profile, plan)).step_s, 0);
    EXPECT_THROW(CostModel(plain, plan), Error);
  }
  const SearchResult in_float32 = search_plans(space, plain);
  ASSERT_EQ(in_float32.ranked.size(), result.ranked.size());
  for (std::size_t i = 0; i < result.ranked.size(); ++i)
    EXPECT_EQ(result.ranked[i].prediction.step_s, in_float32.ranked[i].prediction.step_s);
}

TEST(SearchVariants, FindTheFastestPlansOfAll) {
  std::mt19937 random(23);
  int faster = 0;
  for (int round = 0; round < 20; ++round) {
    const Profile plain = testing::make_profile(testing::draw_shape(random, 5, 2), testing::random_factors(random, 5));
    // Some layers are faster in channels_last, others slower.
    Profile profile = testing::with_channels_last(plain, 1);
    for (LayerCosts& layer : profile.classes.back().layers) {
      const double factor = std::uniform_real_distribution<double>(0.5, 1.6)(random);
      for (LayerCost& cost : layer.by_samples)
        for (Samples* samples : {&cost.forward, &cost.backward, &cost.forward_busy, &cost.backward_busy})
          for (Sample& sample : samples->values) sample.value *= factor;
    }
    SearchSpace space = space_of_variants(2, 6);
    space.keep = 5;
    std::vector<double> best;
    std::vector<Candidate> each;
    for (const ExecutionVariant& options : space.variants) {
      const SearchResult alone = search_plans(space, CostModel(profile, options));
      ASSERT_TRUE(alone.complete);
      best.push_back(alone.ranked.front().prediction.step_s);
      each.insert(each.end(), alone.ranked.begin(), alone.ranked.end());
    }
    std::ranges::stable_sort(each, {}, [](const Candidate& candidate) { return candidate.prediction.step_s; });
    const SearchResult result = search_plans(space, profile);
    ASSERT_GE(result.ranked.size(), 5u);
    EXPECT_TRUE(result.complete) << round;
    EXPECT_EQ(result.lower_bound_s, *std::ranges::min_element(best));
    for (std::size_t i = 0; i < 5; ++i) EXPECT_EQ(result.ranked[i].prediction.step_s, each[i].prediction.step_s) << round;
    for (const Candidate& candidate : result.ranked)
      EXPECT_EQ(candidate.prediction.step_s, predict(candidate.plan, CostModel(profile, candidate.plan)).step_s);
    const auto several = [](const Candidate& candidate) { return candidate.plan.num_stages() > 1; };
    ASSERT_GE(result.best_pipeline, 0);
    EXPECT_EQ(result.ranked[as_index(result.best_pipeline)].plan, std::ranges::find_if(each, several)->plan);
    faster += in_channels_last(result.ranked.front()) ? 1 : 0;
  }
  EXPECT_GT(faster, 2);
  EXPECT_LT(faster, 18);
}

TEST(SearchVariants, KeepTheOptionsThatWereMeasuredAndAllowed) {
  const Profile plain = testing::make_profile({.layers = 4, .devices = 2});
  const Profile both = testing::with_channels_last(plain, 0.5);
  SearchSpace space = space_of_variants(2, 4);
  EXPECT_TRUE(in_channels_last(search_plans(space, both).ranked.front()));
  EXPECT_TRUE(std::ranges::none_of(search_plans(space, plain).ranked, in_channels_last));

  space.exact = true;
  for (const Candidate& candidate : search_plans(space, both).ranked) EXPECT_TRUE(is_exact(candidate.plan));

  space.exact = false;
  space.variants = {kInChannelsLast};
  EXPECT_TRUE(std::ranges::all_of(search_plans(space, both).ranked, in_channels_last));
  EXPECT_THROW((void)search_plans(space, plain), Error);

  space.variants.clear();
  EXPECT_TRUE(std::ranges::none_of(search_plans(space, both).ranked, in_channels_last));
}

TEST(SearchVariants, SlowKernelsThatWereNotMeasuredAreNotSearchedTwice) {
  const Profile profile = testing::make_profile({.layers = 4, .devices = 2});
  SearchSpace space = space_of_variants(2, 4);
  const std::int64_t once = search_plans(space, profile).simulated;
  space.variants = {{}, {.replaces_slow_kernels = true}};
  const SearchResult result = search_plans(space, profile);
  EXPECT_EQ(result.simulated, once);
  for (const Candidate& candidate : result.ranked) EXPECT_TRUE(is_exact(candidate.plan));
}

TEST(SearchVariants, PlansThatReplaceSlowKernelsAreProposedWhereThatPays) {
  const Profile plain = testing::make_profile({.layers = 4, .devices = 2});
  SearchSpace space = space_of_variants(2, 4);
  space.variants = {{}, {.replaces_slow_kernels = true}};
  const SearchResult result = search_plans(space, testing::with_replaced_kernels(plain, 0.5));
  ASSERT_TRUE(result.complete);
  const Candidate& best = result.ranked.front();
  EXPECT_EQ(best.plan.options, ExecutionOptions{.replace_slow_kernels = true});
  EXPECT_FALSE(is_exact(best.plan));
  EXPECT_THAT(describe(best.plan), ::testing::EndsWith(", slow kernels replaced"));
  EXPECT_LT(best.prediction.step_s, search_plans(space, plain).ranked.front().prediction.step_s);
  space.exact = true;
  for (const Candidate& candidate : search_plans(space, testing::with_replaced_kernels(plain, 0.5)).ranked)
    EXPECT_TRUE(is_exact(candidate.plan));
}

TEST(SearchVariants, PlansThatReplaceKernelsForNothingAreLeftOut) {
  const Profile plain = testing::make_profile({.layers = 4, .devices = 2});
  SearchSpace space = space_of_variants(2, 4);
  const SearchResult exact = search_plans(space, plain);
  space.variants = {{}, {.replaces_slow_kernels = true}};
  const SearchResult result = search_plans(space, testing::with_replaced_kernels(plain, 1));
  ASSERT_EQ(result.ranked.size(), exact.ranked.size());
  for (std::size_t i = 0; i < result.ranked.size(); ++i) EXPECT_EQ(result.ranked[i].plan, exact.ranked[i].plan);
}

// Two devices of four cores and one of a single core; with one thread, layers take `factor` times as long.
Profile profile_of_threads(double factor) {
  Profile profile = testing::with_names(testing::make_profile({.layers = 4, .devices = 3}), {"cpu:0-3", "cpu:4-7", "cpu:8"});
  profile.devices[2].device_class = 1;
  profile.classes.push_back(profile.classes[0]);
  Profile measured = testing::with_variant(profile, {.threads = 1}, factor);
  measured.classes.pop_back();  // one core has one thread anyway
  return measured;
}

SearchSpace space_of_threads() {
  SearchSpace space = space_of_variants(3, 6);
  space.devices = {"cpu:0-3", "cpu:4-7", "cpu:8"};
  space.variants = {{}, {.threads = 1}, {.threads = 2}};
  return space;
}

TEST(SearchVariants, FewerThreadsAreProposedWhereThatPays) {
  const SearchSpace space = space_of_threads();
  const SearchResult result = search_plans(space, profile_of_threads(0.5));
  ASSERT_TRUE(result.complete);
  const Candidate& best = result.ranked.front();
  EXPECT_EQ(best.plan.options.threads, std::vector<int>(best.plan.devices.size(), 1));
  EXPECT_FALSE(is_exact(best.plan));
  EXPECT_THAT(describe(best.plan), HasSubstr(", 1 thread a device"));
  EXPECT_EQ(best.prediction.step_s, predict(best.plan, CostModel(profile_of_threads(0.5), best.plan)).step_s);
  for (const Candidate& candidate : result.ranked) EXPECT_NO_THROW(validate(candidate.plan, 4, "found"));
  EXPECT_TRUE(has_default_threads(search_plans(space, profile_of_threads(2)).ranked.front().plan));
}

TEST(SearchVariants, EqualPlansOfSeveralNumbersOfThreadsAreListedOnce) {
  SearchSpace space = space_of_threads();
  const SearchResult result = search_plans(space, profile_of_threads(0.9));
  for (std::size_t i = 0; i < result.ranked.size(); ++i)
    for (std::size_t k = 0; k < i; ++k) EXPECT_NE(plan_key(result.ranked[i].plan), plan_key(result.ranked[k].plan)) << i << " " << k;
  space.exact = true;
  for (const Candidate& candidate : search_plans(space, profile_of_threads(0.5)).ranked) EXPECT_TRUE(is_exact(candidate.plan));
}

TEST(SearchVariants, NumbersOfThreadsThatNoDeviceHasAreTheDefault) {
  const Profile profile = testing::with_names(testing::make_profile({.layers = 4, .devices = 2}), {"cpu:0", "cpu:1"});
  SearchSpace space = space_of_variants(2, 4);
  space.devices = {"cpu:0", "cpu:1"};
  space.variants = {{}};
  const std::int64_t once = search_plans(space, profile).simulated;
  space.variants = {{}, {.threads = 1}, {.threads = 7}};
  const SearchResult result = search_plans(space, profile);
  EXPECT_EQ(result.simulated, once);
  for (const Candidate& candidate : result.ranked) EXPECT_TRUE(candidate.plan.options.threads.empty());
}

TEST(SearchVariants, SayByHowMuchTheNearestPlanExceedsTheCap) {
  const Profile profile = testing::with_channels_last(testing::make_profile({.layers = 4, .devices = 2}), 0.5);
  SearchSpace space = space_of_variants(2, 4);
  space.memory_bytes = {10, 10};
  const SearchResult result = search_plans(space, profile);
  EXPECT_TRUE(result.ranked.empty());
  EXPECT_EQ(result.smallest_excess_bytes, search_plans(space, CostModel(profile)).smallest_excess_bytes);
  EXPECT_FALSE(result.smallest_excess_device.empty());
}

TEST(SearchVariants, MemoryFrontFallsOverAllOptions) {
  const Profile profile = testing::with_channels_last(testing::make_profile({.layers = 6, .devices = 3}), 0.7);
  const SearchSpace space = space_of_variants(3, 6);
  const std::vector<Candidate> front = memory_front(space, profile, 0.9);
  ASSERT_GT(front.size(), 1u);
  EXPECT_EQ(front.front().prediction.step_s, search_plans(space, profile).ranked.front().prediction.step_s);
  for (std::size_t i = 1; i < front.size(); ++i) {
    EXPECT_LT(most_bytes(front[i]), most_bytes(front[i - 1]));
    EXPECT_GE(front[i].prediction.step_s, front[i - 1].prediction.step_s);
  }
}

TEST(SearchVariants, AllCoresInChannelsLastIsABaseline) {
  SearchSpace space = space_of_variants(2, 4);
  space.whole_machine = {"cpu:0-1"};
  const auto names = [&] {
    std::vector<std::string> all;
    for (const NamedPlan& baseline : baseline_plans(space, 4)) all.push_back(baseline.name);
    return all;
  };
  EXPECT_THAT(names(), ::testing::ElementsAre("single_device", "all_cores", "all_cores_channels_last", "naive_model_parallel",
                                              "default_pipeline", "data_parallel"));
  EXPECT_EQ(describe(baseline_plans(space, 4)[2].plan), "one device of 2 cores, channels_last");
  space.exact = true;
  EXPECT_THAT(names(), ::testing::Not(::testing::Contains("all_cores_channels_last")));
  space.exact = false;
  space.variants = {{}};
  EXPECT_THAT(names(), ::testing::Not(::testing::Contains("all_cores_channels_last")));
}

// A clock that only questions move: the first options may use half of the time, the second ones what is left of the whole.
TEST(SearchVariants, ShareTheTime) {
  std::mt19937 random(29);
  const Profile plain = testing::make_profile(testing::random_shape(random, 30, 6), testing::random_factors(random, 30));
  const Profile profile = testing::with_channels_last(plain, 1.1);
  SearchSpace space = space_of_variants(6, 64);
  space.schedules.clear();
  int asked = 0;
  std::vector<int> ended;
  space.stop = [&](double part) {
    ++asked;
    if (asked < 200 * part) return false;
    ended.push_back(asked);
    return true;
  };
  const SearchResult result = search_plans(space, profile);
  EXPECT_EQ(ended, (std::vector<int>{100, 200}));
  EXPECT_FALSE(result.complete);
  EXPECT_TRUE(std::ranges::any_of(result.ranked, in_channels_last));
}

}  // namespace
}  // namespace mptune::planner

#include "planner/search/search_divisions.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <random>

#include "planner/search/search.h"
#include "profiler/base/error.h"
#include "tests/planner/pool_profiles.h"
#include "tests/planner/search/spaces.h"
#include "tests/support/cases.h"

namespace mptune::planner {
namespace {

using ::testing::ElementsAre;
using testing::measured_pool;
using testing::PoolShape;

SearchSpace pool_space(const Profile& profile, int batch) {
  const DevicePool pool = pools_of(profile).front();
  SearchSpace space;
  space.devices = even_division(pool);
  space.whole_machine = {pool.whole.name};
  for (const auto& names : divisions_of(pool)) space.divisions.push_back({names, {}});
  space.batch = batch;
  space.schedules = {"naive", "gpipe", "1f1b"};
  space.capabilities = testing::kWholeBackwards;
  return space;
}

double best_s(const SearchResult& result) {
  return result.ranked.front().prediction.step_s;
}

// The slow truth: each division by itself.
double best_of_fixed(const SearchSpace& space, const Profile& profile) {
  double best = std::numeric_limits<double>::infinity();
  for (const Division& division : space.divisions) {
    SearchSpace fixed = space;
    fixed.divisions.clear();
    fixed.devices = division.devices;
    fixed.memory_bytes = division.memory_bytes;
    best = std::min(best, best_s(search_plans(fixed, profile)));
  }
  return best;
}

PoolShape random_pool(std::mt19937& random, int layers) {
  PoolShape pool;
  pool.shape = testing::draw_shape(random, layers, 1);
  pool.shape.sizes = {1, 2, 4};
  pool.cores = std::uniform_int_distribution<int>(2, 5)(random);
  pool.serial = std::uniform_real_distribution<double>(0, 0.8)(random);
  return pool;
}

TEST(Divisions, AnswerIsTheBestOfAllFixedDivisions) {
  std::mt19937 random(18);
  for (int i = 0; i < testing::cases(40); ++i) {
    const int layers = std::uniform_int_distribution<int>(1, 5)(random);
    const PoolShape pool = random_pool(random, layers);
    const Profile profile = with_pool_devices(measured_pool(pool, testing::random_factors(random, layers)));
    SearchSpace space = pool_space(profile, std::uniform_int_distribution<int>(1, 6)(random));
    if (i % 4 == 0)
      for (Division& division : space.divisions) division.memory_bytes.assign(division.devices.size(), 4000 + 300 * i);
    const SearchResult found = search_plans(space, profile);
    if (found.ranked.empty()) {
      EXPECT_GT(found.smallest_excess_bytes, 0);
      continue;
    }
    EXPECT_DOUBLE_EQ(best_s(found), best_of_fixed(space, profile)) << "case " << i << ", " << pool.cores << " cores";
    EXPECT_LE(found.lower_bound_s, best_s(found));
  }
}

TEST(Divisions, AnswerIsTheBestOfAllFixedDivisionsWithEverySchedule) {
  std::mt19937 random(19);
  for (int i = 0; i < testing::cases(12); ++i) {
    const int layers = std::uniform_int_distribution<int>(2, 4)(random);
    PoolShape pool = random_pool(random, layers);
    pool.cores = 2 + i % 3;
    const Profile profile = with_pool_devices(measured_pool(pool, testing::random_factors(random, layers)));
    SearchSpace space = pool_space(profile, std::uniform_int_distribution<int>(2, 5)(random));
    space.schedules.clear();
    space.capabilities = {};
    space.idle_devices_help = true;
    EXPECT_DOUBLE_EQ(best_s(search_plans(space, profile)), best_of_fixed(space, profile)) << "case " << i << ", " << pool.cores << " cores";
  }
}

TEST(Divisions, UnequalLayersGetUnequalDevices) {
  PoolShape pool;
  pool.cores = 3;
  pool.serial = 0.01;
  pool.shape.sizes = {1, 16};
  const Profile profile = with_pool_devices(measured_pool(pool, {2, 0.5, 1, 0.5}));
  SearchSpace space = pool_space(profile, 16);
  space.stage_counts = {2};
  space.microbatch_counts = {16};
  const SearchResult found = search_plans(space, profile);
  EXPECT_EQ(found.ranked.front().plan.devices.size(), 2U);
  EXPECT_THAT(found.ranked.front().plan.devices, ::testing::UnorderedElementsAre("cpu:0-1", "cpu:2"));
}

TEST(Divisions, AllCoresAsOneDeviceIsAmongThem) {
  PoolShape pool;
  pool.cores = 2;
  pool.serial = 0;                      // perfect scaling: nothing is idle
  pool.shape.reduce_s_per_byte = 1e-4;  // replicas are slower
  const Profile profile = with_pool_devices(measured_pool(pool));
  const SearchResult found = search_plans(pool_space(profile, 8), profile);
  EXPECT_THAT(found.ranked.front().plan.devices, ElementsAre("cpu:0-1"));
  const auto pipeline = [](const Candidate& candidate) { return candidate.plan.num_stages() > 1; };
  EXPECT_TRUE(std::ranges::any_of(found.ranked, pipeline)) << "the best of each kind is listed";
}

TEST(Divisions, ChoicesThatADivisionCannotMeetLeaveTheOthers) {
  PoolShape pool;
  pool.cores = 4;
  const Profile profile = with_pool_devices(measured_pool(pool));
  SearchSpace space = pool_space(profile, 8);
  space.replicas = {2, 1};
  space.stage_counts = {2};
  const SearchResult found = search_plans(space, profile);
  EXPECT_EQ(found.ranked.front().plan.devices.size(), 3U);
  space.replicas = {7};
  space.stage_counts = {1};
  EXPECT_THROW((void)search_plans(space, profile), Error);
}

TEST(Divisions, PlansOnEqualCoresAreListedOnce) {
  PoolShape pool;
  pool.cores = 4;
  pool.serial = 0.5;
  const Profile profile = with_pool_devices(measured_pool(pool));
  const SearchResult found = search_plans(pool_space(profile, 8), profile);
  const auto sizes = [](Plan plan) {
    for (std::string& name : plan.devices) name = device_class(parse_device(name));
    return plan;
  };
  for (std::size_t a = 0; a < found.ranked.size(); ++a)
    for (std::size_t b = a + 1; b < found.ranked.size(); ++b)
      if (found.ranked[a].prediction.step_s == found.ranked[b].prediction.step_s) {
        EXPECT_FALSE(sizes(found.ranked[a].plan) == sizes(found.ranked[b].plan)) << a << " and " << b;
      }
}

TEST(Divisions, LimitOfTheWorkHoldsForAllTogether) {
  PoolShape pool;
  pool.shape.layers = 8;
  pool.cores = 12;
  const Profile profile = with_pool_devices(measured_pool(pool));
  SearchSpace space = pool_space(profile, 16);
  space.most_actions = 200'000;
  std::int64_t worked = 0;
  for (const SearchResult& result : search_divisions(space, profile, {ExecutionVariant()})) worked += result.worked;
  EXPECT_LT(worked, 2 * space.most_actions) << "each search may exceed its part by what it does between two looks at the limit";
  space.stop = [](double) { return true; };
  EXPECT_FALSE(search_plans(space, profile).ranked.empty()) << "what a stopped search has seen";
}

TEST(Divisions, FastestOnesAreThoseOfTheFastestPlans) {
  PoolShape pool;
  pool.cores = 3;
  const Profile profile = with_pool_devices(measured_pool(pool));
  const SearchSpace space = pool_space(profile, 8);
  const SearchResult found = search_plans(space, profile);
  const std::vector<Division> fastest = fastest_divisions(space, found, 2);
  ASSERT_FALSE(fastest.empty());
  EXPECT_LE(fastest.size(), 2U);
  for (const std::string& device : found.ranked.front().plan.devices) EXPECT_THAT(fastest.front().devices, ::testing::Contains(device));
}

}  // namespace
}  // namespace mptune::planner

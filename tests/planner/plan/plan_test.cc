#include "planner/plan/plan.h"
#include "profiler/base/index.h"

#include <gmock/gmock.h>

#include <functional>
#include <numeric>

#include "profiler/base/error.h"
#include "tests/planner/profiles.h"

namespace mptune::planner {
namespace {

using ::testing::HasSubstr;
using testing::stages_of;

TEST(Split, EvenlyAddsUpAndDiffersByAtMostOne) {
  for (int batch = 1; batch <= 40; ++batch) {
    for (int m = 1; m <= batch; ++m) {
      const std::vector<int> sizes = split_evenly(batch, m);
      ASSERT_EQ(sizes.size(), as_index(m));
      EXPECT_EQ(std::accumulate(sizes.begin(), sizes.end(), 0), batch);
      EXPECT_TRUE(std::is_sorted(sizes.rbegin(), sizes.rend()));
      EXPECT_LE(sizes.front() - sizes.back(), 1);
    }
    for (int size = 1; size <= batch; ++size) {
      const std::vector<int> sizes = split_by_size(batch, size);
      EXPECT_EQ(std::accumulate(sizes.begin(), sizes.end(), 0), batch);
      for (std::size_t i = 0; i + 1 < sizes.size(); ++i) EXPECT_EQ(sizes[i], size);
      EXPECT_GT(sizes.back(), 0);
    }
  }
  EXPECT_EQ(split_evenly(10, 4), (std::vector<int>{3, 3, 2, 2}));
  EXPECT_EQ(split_by_size(10, 4), (std::vector<int>{4, 4, 2}));
  EXPECT_EQ(equal_cuts(18, 4), (std::vector<int>{5, 10, 14}));
  EXPECT_EQ(equal_cuts(3, 1), (std::vector<int>{}));
}

TEST(Plan, ReplicasShareTheMicrobatches) {
  const Plan plan = stages_of(2, {2, 3}, {1, 1, 1, 1, 1});
  EXPECT_EQ(plan.global_batch_size(), 5);
  EXPECT_EQ(device_of(plan.stages[0], 3), 1);
  EXPECT_EQ(device_of(plan.stages[1], 3), 2);
  EXPECT_EQ(device_of(plan.stages[1], 4), 3);
  EXPECT_EQ(replica_of(plan.stages[1], 4), 1);
}

TEST(Plan, RecomputesWhatIsListed) {
  EXPECT_FALSE(recomputes({}, 0));
  EXPECT_TRUE(recomputes({Recompute::Mode::all, {}, {}}, 5));
  EXPECT_TRUE(recomputes({Recompute::Mode::some, {1}, {}}, 5));
  EXPECT_TRUE(recomputes({Recompute::Mode::some, {1}, {5}}, 5));
  EXPECT_FALSE(recomputes({Recompute::Mode::some, {1}, {5}}, 4));
  EXPECT_TRUE(recomputes_layer({Recompute::Mode::all, {}, {}}, 5));
  EXPECT_TRUE(recomputes_layer({Recompute::Mode::some, {1, 5}, {}}, 5));
  EXPECT_FALSE(recomputes_layer({Recompute::Mode::some, {1, 5}, {}}, 4));
  EXPECT_FALSE(recomputes_layer({}, 4));
  const auto early = [](const Recompute& recompute) { return first_recomputed_early({2, 6, {0}, recompute}); };
  EXPECT_EQ(early({}), 6) << "nothing";
  EXPECT_EQ(early({Recompute::Mode::all, {}, {}}), 2);
  EXPECT_EQ(early({Recompute::Mode::some, {2, 4, 5}, {}}), 4);
  EXPECT_EQ(early({Recompute::Mode::some, {2, 4}, {}}), 6) << "layer 5 is kept";
}

std::string refusal(const std::function<void(Plan&)>& damage, int layers = 6) {
  Plan plan = stages_of(6, {1, 2, 1}, {2, 2, 1});
  damage(plan);
  try {
    validate(plan, layers, "file.json");
  } catch (const Error& error) {
    EXPECT_EQ(error.where(), "file.json");
    EXPECT_FALSE(error.remedy().empty());
    return error.problem();
  }
  return "";
}

TEST(Validate, NamesTheFirstViolation) {
  EXPECT_EQ(refusal([](Plan&) {}), "");
  EXPECT_EQ(refusal([](Plan&) {}, -1), "");
  EXPECT_THAT(refusal([](Plan&) {}, 7), HasSubstr("6 layers, the model has 7"));
  EXPECT_THAT(refusal([](Plan& p) { p.stages[1].first_layer = 1; }), HasSubstr("stage 1 (layers 1 to 4) overlaps"));
  EXPECT_THAT(refusal([](Plan& p) { p.stages[1].first_layer = 3; }), HasSubstr("leaves layers out"));
  EXPECT_THAT(refusal([](Plan& p) { p.stages[0].last_layer = 0; }), HasSubstr("stage 0 (layers 0 to 0) is empty"));
  EXPECT_THAT(refusal([](Plan& p) { p.stages[2].last_layer = -5; }), HasSubstr("empty"));
  EXPECT_THAT(refusal([](Plan& p) { p.stages[1].devices = {}; }), HasSubstr("no device"));
  EXPECT_THAT(refusal([](Plan& p) { p.stages[1].devices = {1, 1}; }), HasSubstr("sleep:1 twice"));
  EXPECT_THAT(refusal([](Plan& p) { p.stages[1].devices = {1, 4}; }), HasSubstr("device 4"));
  EXPECT_THAT(refusal([](Plan& p) { p.stages[1].devices = {-1}; }), HasSubstr("device -1"));
  EXPECT_THAT(refusal([](Plan& p) { p.microbatch_sizes[1] = 0; }), HasSubstr("micro-batch 1 has no samples"));
  EXPECT_THAT(refusal([](Plan& p) { p.microbatch_sizes = {2000000000, 2000000000}; }), HasSubstr("larger"));
  EXPECT_THAT(refusal([](Plan& p) { p.microbatch_sizes = {}; }), HasSubstr("no micro-batches"));
  EXPECT_THAT(refusal([](Plan& p) { p.stages = {}; }), HasSubstr("no stages"));
  EXPECT_THAT(refusal([](Plan& p) { p.devices = {}; }), HasSubstr("no devices"));
  EXPECT_THAT(refusal([](Plan& p) { p.devices[1] = p.devices[0]; }), HasSubstr("listed twice"));
  EXPECT_THAT(refusal([](Plan& p) { p.stages[0].recompute = {Recompute::Mode::some, {2}, {}}; }), HasSubstr("does not hold"));
  EXPECT_THAT(refusal([](Plan& p) { p.stages[0].recompute = {Recompute::Mode::some, {1, 0}, {}}; }), HasSubstr("out of order"));
  EXPECT_THAT(refusal([](Plan& p) { p.stages[0].recompute = {Recompute::Mode::some, {}, {}}; }), HasSubstr("recomputes no layer"));
  EXPECT_THAT(refusal([](Plan& p) { p.stages[0].recompute = {Recompute::Mode::some, {1}, {3}}; }), HasSubstr("micro-batch 3"));
  EXPECT_THAT(refusal([](Plan& p) { p.stages[0].recompute = {Recompute::Mode::all, {1}, {}}; }), HasSubstr("mode"));
}

}  // namespace
}  // namespace mptune::planner

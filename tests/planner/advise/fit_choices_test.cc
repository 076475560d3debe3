#include "planner/advise/fit_choices.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "tests/planner/profiles.h"

namespace mptune::planner {
namespace {

SearchSpace space_of(std::int64_t cap) {
  SearchSpace space;
  space.devices = {"sleep:0", "sleep:1"};
  space.memory_bytes = {cap, cap};
  space.batch = 8;
  return space;
}

std::int64_t fullest(const Plan& plan, const CostModel& cost) {
  const std::vector<std::int64_t> peaks = cost.peak_bytes(plan);
  return *std::ranges::max_element(peaks);
}

FitAnswer asked(const SearchSpace& space, const CostModel& cost) {
  const SearchResult failed = search_plans(space, cost);
  EXPECT_TRUE(failed.ranked.empty());
  FitAnswer answer = choices_that_fit(space, failed, cost);
  EXPECT_EQ(answer.excess.bytes, failed.smallest_excess_bytes);
  for (const FittingChange& change : answer.changes) EXPECT_LE(fullest(change.plan, cost), space.memory_bytes[0]);
  return answer;
}

TEST(ChoicesThatFit, NameTheOneRestrictionThatIsInTheWay) {
  const CostModel cost(testing::make_profile({.layers = 6, .devices = 2}));
  SearchSpace space = space_of(2 * 6000 - 1);  // parameters and gradients of one stage do not fit
  space.stage_counts = {1};
  const FitAnswer stages = asked(space, cost);
  ASSERT_EQ(stages.changes.size(), 1u);
  const int count = stages.changes[0].plan.num_stages();
  std::vector<FieldValue> options{{Field::stages, std::to_string(count)}};
  if (count > 2) options.push_back({Field::virtual_stages, std::to_string(count / 2)});
  EXPECT_EQ(stages.changes[0].options, options);

  space = space_of(2 * 3000 + 3 * 300 * 3);  // two stages of three layers, three samples in hand
  space.stage_counts = {2};
  space.microbatch_counts = {1};
  space.recompute = "none";
  const FitAnswer split = asked(space, cost);
  ASSERT_FALSE(split.changes.empty());
  EXPECT_EQ(split.changes[0].options[0].field, Field::microbatches);
}

TEST(ChoicesThatFit, LeaveOutAllWhereOneIsNotEnough) {
  const CostModel cost(testing::make_profile({.layers = 6, .devices = 2}));
  SearchSpace space = space_of(2 * 3000 + 3 * 300 * 3);
  space.stage_counts = {1};
  space.microbatch_counts = {1};
  space.recompute = "none";
  const FitAnswer answer = asked(space, cost);
  ASSERT_EQ(answer.changes.size(), 1u);
  EXPECT_EQ(answer.changes[0].changes, 3);
  EXPECT_EQ(answer.changes[0].options.size(), 3u);
  EXPECT_EQ(answer.changes[0].plan.num_stages(), 2);
}

TEST(ChoicesThatFit, SayHowManyDevicesWouldDo) {
  const CostModel cost(testing::make_profile({.layers = 6, .devices = 2}));
  const FitAnswer answer = asked(space_of(2 * 2000 + 2800), cost);
  EXPECT_TRUE(answer.changes.empty());
  EXPECT_EQ(answer.needed.count, 3);
  EXPECT_EQ(asked(space_of(100), cost).needed.count, 0);
}

}  // namespace
}  // namespace mptune::planner

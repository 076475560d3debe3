#include "planner/advise/fit_choices.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "planner/search/make_plan.h"
#include "planner/search/search.h"
#include "profiler/base/units.h"
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

/// One number, none for "".
std::vector<int> number_or_none(const std::string& value) {
  return value.empty() ? std::vector<int>{} : std::vector<int>{std::stoi(value)};
}

SearchSpace with_stated(SearchSpace space, const std::vector<FieldValue>& values) {
  for (const auto& [field, value] : values) {
    if (field == Field::stages) space.stage_counts = number_or_none(value);
    if (field == Field::virtual_stages) space.virtual_counts = number_or_none(value);
    if (field == Field::microbatches) space.microbatch_counts = number_or_none(value);
    if (field == Field::schedule) space.schedules = {value};
    if (field == Field::recompute) space.recompute = value;
    if (field == Field::batch) space.batch = std::stoi(value);
    if (field == Field::memory) space.memory_bytes.assign(space.devices.size(), parse_bytes(value, "memory"));
  }
  return space;
}

FitAnswer asked(const SearchSpace& space, const Profile& profile) {
  const SearchResult failed = search_plans(space, profile);
  EXPECT_TRUE(failed.ranked.empty());
  const auto search_with = [&](const std::vector<FieldValue>& values) { return quick_search(with_stated(space, values), profile); };
  FitAnswer answer = choices_that_fit(space, failed, profile, search_with);
  EXPECT_EQ(answer.excess.bytes, failed.smallest_excess_bytes);
  const CostModel cost(profile);
  for (const FittingChange& change : answer.changes) {
    EXPECT_LE(fullest(change.plan, cost), space.memory_bytes[0]);
    EXPECT_FALSE(search_plans(with_stated(space, change.options), profile).ranked.empty());
  }
  if (answer.raised.empty()) return answer;
  EXPECT_FALSE(search_plans(with_stated(space, answer.raised), profile).ranked.empty());
  return answer;
}

TEST(ChoicesThatFit, NameTheOneRestrictionThatIsInTheWay) {
  const Profile profile = testing::make_profile({.layers = 6, .devices = 2});
  SearchSpace space = space_of(2 * 6000 - 1);  // parameters and gradients of one stage do not fit
  space.stage_counts = {1};
  const FitAnswer stages = asked(space, profile);
  ASSERT_EQ(stages.changes.size(), 1u);
  const int count = stages.changes[0].plan.num_stages();
  std::vector<FieldValue> options{{Field::stages, std::to_string(count)}};
  if (count > 2) options.push_back({Field::virtual_stages, std::to_string(count / 2)});
  EXPECT_EQ(stages.changes[0].options, options);

  space = space_of(2 * 3000 + 3 * 300 * 3);  // two stages of three layers, three samples in hand
  space.stage_counts = {2};
  space.microbatch_counts = {1};
  space.recompute = "none";
  const FitAnswer split = asked(space, profile);
  ASSERT_FALSE(split.changes.empty());
  EXPECT_EQ(split.changes[0].options[0].field, Field::microbatches);
}

TEST(ChoicesThatFit, LeaveOutAllWhereOneIsNotEnough) {
  const Profile profile = testing::make_profile({.layers = 6, .devices = 2});
  SearchSpace space = space_of(2 * 3000 + 3 * 300 * 3);
  space.stage_counts = {1};
  space.microbatch_counts = {1};
  space.recompute = "none";
  const FitAnswer answer = asked(space, profile);
  ASSERT_EQ(answer.changes.size(), 1u);
  EXPECT_EQ(answer.changes[0].changes, 3);
  EXPECT_EQ(answer.changes[0].options.size(), 3u);
  EXPECT_EQ(answer.changes[0].plan.num_stages(), 2);
}

TEST(ChoicesThatFit, SayHowManyDevicesWouldDo) {
  const Profile profile = testing::make_profile({.layers = 6, .devices = 2});
  const FitAnswer answer = asked(space_of(2 * 2000 + 2800), profile);
  for (const FittingChange& change : answer.changes) EXPECT_EQ(change.options[0].field, Field::batch);
  EXPECT_FALSE(answer.raised.empty());
  EXPECT_EQ(answer.needed.count, 3);
  EXPECT_EQ(asked(space_of(100), profile).needed.count, 0);
}

TEST(ChoicesThatFit, NameTheLargestHalfOfTheBatchThatFits) {
  const Profile profile = testing::make_profile({.layers = 6, .devices = 2});
  PlanOptions two;
  two.devices = {"sleep:0"};
  two.batch = 2;
  two.layers = 6;
  two.microbatches = 1;
  SearchSpace space = space_of(fullest(make_plan(two), CostModel(profile)));
  space.devices.pop_back();
  space.memory_bytes.pop_back();
  space.microbatch_counts = {1};
  space.recompute = "none";
  space.batch = 8;
  space.schedules = {"gpipe"};
  const SearchResult failed = search_plans(space, profile);
  ASSERT_TRUE(failed.ranked.empty());
  const auto search_with = [&](const std::vector<FieldValue>& values) {
    const bool others = std::ranges::any_of(values, [](const FieldValue& v) { return v.field != Field::batch; });
    return others ? SearchResult{} : quick_search(with_stated(space, values), profile);  // nothing but the batch may change
  };
  const FitAnswer answer = choices_that_fit(space, failed, profile, search_with);
  ASSERT_EQ(answer.changes.size(), 1U);
  EXPECT_EQ(answer.changes[0].options, (std::vector<FieldValue>{{Field::batch, "2"}}));
  EXPECT_TRUE(answer.raised.empty());
}

}  // namespace
}  // namespace mptune::planner

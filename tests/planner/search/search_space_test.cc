#include <gmock/gmock.h>

#include "planner/plan/field.h"
#include "planner/search/space/given_choices.h"
#include "tests/planner/search/spaces.h"

namespace mptune::planner {
namespace {

using ::testing::HasSubstr;
using Ints = std::vector<int>;

PlanOptions nothing_asked() {
  PlanOptions wanted = testing::options_of(testing::names(3), 12, 10, "");
  wanted.recompute = "";
  return wanted;
}

SearchSpace space_with(const std::function<void(PlanOptions&)>& ask) {
  PlanOptions wanted = nothing_asked();
  ask(wanted);
  return search_space(wanted);
}

/// "field: what; remedy" of the refusal.
std::string space_refusal(const std::function<void(PlanOptions&)>& ask) {
  try {
    (void)space_with(ask);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::usage);
    return error.where() + ": " + error.problem() + "; " + error.remedy();
  }
  return "";
}

TEST(SearchSpaceOf, NothingAskedRestrictsNothing) {
  const SearchSpace space = search_space(nothing_asked());
  EXPECT_EQ(space.devices, testing::names(3));
  EXPECT_EQ(space.batch, 12);
  EXPECT_TRUE(space.microbatch_counts.empty());
  EXPECT_TRUE(space.schedules.empty());
  EXPECT_TRUE(space.stage_counts.empty());
  EXPECT_TRUE(space.virtual_counts.empty());
  EXPECT_TRUE(space.cuts.empty());
  EXPECT_TRUE(space.replicas.empty());
  EXPECT_EQ(space.recompute, "");
}

TEST(SearchSpaceOf, EachFieldRestrictsItsChoice) {
  EXPECT_EQ(space_with([](PlanOptions& o) { o.microbatches = 5; }).microbatch_counts, Ints{5});
  EXPECT_EQ(space_with([](PlanOptions& o) { o.split_size = 5; }).microbatch_counts, Ints{3}) << "5, 5 and 2 samples";
  EXPECT_EQ(space_with([](PlanOptions& o) { o.schedule = "gpipe"; }).schedules, std::vector<std::string>{"gpipe"});
  EXPECT_EQ(space_with([](PlanOptions& o) { o.stages = 2; }).stage_counts, Ints{2});
  EXPECT_EQ(space_with([](PlanOptions& o) { o.virtual_stages = 2; }).virtual_counts, Ints{2});
  EXPECT_EQ(space_with([](PlanOptions& o) { o.recompute = "all"; }).recompute, "all");
  const SearchSpace cut = space_with([](PlanOptions& o) { o.cuts = {4, 9}; });
  EXPECT_EQ(cut.cuts, std::vector<Ints>{(Ints{4, 9})});
  EXPECT_EQ(cut.stage_counts, Ints{3});
  const SearchSpace replicated = space_with([](PlanOptions& o) { o.replicas = {2, 1}; });
  EXPECT_EQ(replicated.replicas, (Ints{2, 1}));
  EXPECT_EQ(replicated.stage_counts, Ints{2});
}

TEST(SearchSpaceOf, SchedulesForSeveralStagesPerDeviceBringThem) {
  EXPECT_EQ(space_with([](PlanOptions& o) { o.schedule = "zbv"; }).virtual_counts, Ints{2});
  EXPECT_TRUE(space_with([](PlanOptions& o) { o.schedule = "1f1b"; }).virtual_counts.empty());
}

TEST(SearchSpaceOf, RefusesByField) {
  EXPECT_THAT(space_refusal([](PlanOptions& o) { o.batch = 0; }), HasSubstr("batch: "));
  EXPECT_THAT(space_refusal([](PlanOptions& o) { o.microbatches = 13; }), HasSubstr("microbatches: 13 micro-batches of a batch of 12"));
  EXPECT_THAT(space_refusal([](PlanOptions& o) { o.split_size = 13; }), HasSubstr("split_size: micro-batches of 13"));
  EXPECT_THAT(space_refusal([](PlanOptions& o) { o.split_size = o.microbatches = 2; }), HasSubstr("split_size: "));
  EXPECT_THAT(space_refusal([](PlanOptions& o) { o.schedule = "zigzag"; }),
              HasSubstr("schedule: 'zigzag' is not a schedule that can be searched"));
  EXPECT_THAT(space_refusal([](PlanOptions& o) { o.stages = 11; }), HasSubstr("stages: 11 stages, but the model has 10 layers"));
  EXPECT_THAT(space_refusal([](PlanOptions& o) { o.stages = 4; }), HasSubstr("stages: 4 stages for 3 devices; use at most 3"));
  EXPECT_THAT(space_refusal([](PlanOptions& o) { o.virtual_stages = 4; }), HasSubstr("virtual_stages: 4 stages on each of 3 devices"));
  EXPECT_THAT(space_refusal([](PlanOptions& o) { o.cuts = {10}; }), HasSubstr("cuts: cut 10 is out of range"));
  EXPECT_THAT(space_refusal([](PlanOptions& o) { o.cuts = {4, 4}; }), HasSubstr("cuts: cut 4 leaves an empty stage"));
  EXPECT_THAT(space_refusal([](PlanOptions& o) { o.cuts = {1, 2, 3}; }), HasSubstr("cuts: 4 stages for 3 devices"));
  EXPECT_THAT(space_refusal([](PlanOptions& o) { o.recompute = "3"; }), HasSubstr("recompute: "));
  EXPECT_THAT(space_refusal([](PlanOptions& o) { o.replicas = {2, 2}; }), HasSubstr("replicas: the replicas do not add up"));
}

TEST(SearchSpaceOf, RefusesChoicesThatExcludeEachOther) {
  EXPECT_THAT(space_refusal([](PlanOptions& o) {
                o.schedule = "naive";
                o.microbatches = 2;
              }),
              HasSubstr("schedule: naive runs the batch as one micro-batch, not as 2; leave `microbatches` and `split_size` out"));
  EXPECT_THAT(space_refusal([](PlanOptions& o) {
                o.schedule = "1f1b";
                o.virtual_stages = 2;
              }),
              HasSubstr("one stage on a device"));
  EXPECT_THAT(space_refusal([](PlanOptions& o) {
                o.stages = 3;
                o.virtual_stages = 2;
              }),
              HasSubstr("stages: 3 stages are not 2 stages on each of 3 devices; use 6"));
  EXPECT_THAT(space_refusal([](PlanOptions& o) {
                o.stages = 3;
                o.cuts = {4};
              }),
              HasSubstr("cuts: 1 cuts do not make 3 stages"));
  EXPECT_THAT(space_refusal([](PlanOptions& o) {
                o.virtual_stages = 2;
                o.cuts = {4, 5};
              }),
              HasSubstr("cuts: 3 stages for 3 devices with 2 on each; give 5 cuts"));
  EXPECT_THAT(space_refusal([](PlanOptions& o) {
                o.replicas = {2, 1};
                o.virtual_stages = 2;
              }),
              HasSubstr("replicas: "));
  EXPECT_THAT(space_refusal([](PlanOptions& o) {
                o.replicas = {2, 1};
                o.stages = 3;
              }),
              HasSubstr("replicas: 2 replica counts for 3 stages"));
  EXPECT_THAT(space_refusal([](PlanOptions& o) {
                o.replicas = {2, 1};
                o.microbatches = 1;
              }),
              HasSubstr("replicas: 1 micro-batch for 2 replicas of a stage"));
  EXPECT_THAT(space_refusal([](PlanOptions& o) {
                o.replicas = {3};
                o.microbatches = 4;
              }),
              HasSubstr("replicas: 4 micro-batches can't be shared evenly by 3 replicas"));
}

TEST(SearchSpaceOf, OneScheduleMayNotRun) {
  const Capabilities whole_backward{.split_backward = false};
  EXPECT_EQ(why_not_executable(space_with([](PlanOptions& o) { o.schedule = "1f1b"; }), whole_backward), "");
  EXPECT_THAT(why_not_executable(space_with([](PlanOptions& o) { o.schedule = "zbv"; }), whole_backward), HasSubstr("split backward"));
  EXPECT_EQ(why_not_executable(search_space(nothing_asked()), whole_backward), "") << "others run";
}

}  // namespace
}  // namespace mptune::planner

#include <gmock/gmock.h>

#include <functional>
#include <map>

#include "planner/plan/plan_words.h"
#include "planner/schedule/schedule.h"
#include "planner/schedule/schedule_info.h"
#include "planner/search/baselines.h"
#include "planner/search/make_plan.h"
#include "planner/search/space/search_space.h"
#include "profiler/base/error.h"

namespace mptune::planner {
namespace {

using ::testing::HasSubstr;

PlanOptions two_devices() {
  PlanOptions options;
  options.devices = {"cpu:0", "cpu:1"};
  options.batch = 32;
  options.layers = 18;
  return options;
}

std::string refusal(const std::function<void(PlanOptions&)>& change) {
  PlanOptions options = two_devices();
  change(options);
  try {
    (void)make_plan(options);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::usage);
    EXPECT_FALSE(error.remedy().empty());
    return error.where() + ": " + error.problem();
  }
  return "";
}

TEST(MakePlan, DefaultsAreThoseOfTheInterface) {
  const Plan plan = make_plan(two_devices());
  EXPECT_EQ(plan.num_stages(), 2);
  EXPECT_EQ(plan.stages[1].first_layer, 9);
  EXPECT_EQ(plan.num_microbatches(), 8);
  EXPECT_EQ(plan.schedule, "1f1b");
  EXPECT_EQ(plan.global_batch_size(), 32);
  EXPECT_EQ(describe(plan), "pipeline of 2 stages, 1f1b, 8 micro-batches of 4");
}

TEST(MakePlan, FollowsTheOptions) {
  PlanOptions options = two_devices();
  options.cuts = {7};
  options.split_size = 12;
  options.schedule = "gpipe";
  options.recompute = "1";
  const Plan plan = make_plan(options);
  EXPECT_EQ(plan.stages[0].last_layer, 7);
  EXPECT_EQ(plan.microbatch_sizes, (std::vector<int>{12, 12, 8}));
  EXPECT_EQ(plan.stages[0].recompute.mode, Recompute::Mode::none);
  EXPECT_EQ(plan.stages[1].recompute.mode, Recompute::Mode::all);
  EXPECT_EQ(describe(plan), "pipeline of 2 stages, gpipe, 3 micro-batches of 8 to 12, recomputing stage 1");
  options.devices = {"sleep:0", "sleep:1", "sleep:2"};
  options.cuts = {};
  options.recompute = "0,2";
  EXPECT_THAT(describe(make_plan(options)), ::testing::EndsWith(", recomputing stages 0,2"));
  options.recompute = "none";
  options.schedule = "interleaved";
  options.split_size = 8;
  EXPECT_EQ(describe(make_plan(options)), "pipeline of 6 stages on 3 devices, interleaved, 4 micro-batches of 8");
}

TEST(MakePlan, PlacesReplicasAndVirtualStages) {
  PlanOptions options = two_devices();
  options.devices = {"a", "b", "c"};
  options.replicas = {2, 1};
  EXPECT_EQ(make_plan(options).stages[0].devices, (std::vector<int>{0, 1}));
  EXPECT_EQ(make_plan(options).stages[1].devices, (std::vector<int>{2}));
  EXPECT_THAT(describe(make_plan(options)), HasSubstr("replicas 2,1"));
  options = two_devices();
  options.virtual_stages = 2;
  options.schedule = "gpipe";
  const Plan plan = make_plan(options);
  ASSERT_EQ(plan.num_stages(), 4);
  EXPECT_EQ(plan.stages[2].devices, (std::vector<int>{0}));
  options.stages = 3;
  EXPECT_EQ(make_plan(options).num_stages(), 3);
}

std::vector<int> devices_of_stages(const Plan& plan) {
  std::vector<int> of;
  for (const Stage& stage : plan.stages) of.push_back(stage.devices.front());
  return of;
}

TEST(MakePlan, PlacesStagesAsTheScheduleHasThem) {
  PlanOptions options = two_devices();
  const std::vector<int> straight = {0, 1};
  const std::vector<int> looped = {0, 1, 0, 1};
  const std::vector<int> in_a_v = {0, 1, 1, 0};
  const std::map<std::string, std::vector<int>> wanted = {
      {"naive", straight},    {"gpipe", straight},     {"1f1b", straight},    {"eager-1f1b", straight}, {"zb1p", straight},
      {"zb2p", straight},     {"list", straight},      {"zbv", in_a_v},       {"v-half", in_a_v},       {"v-min", in_a_v},
      {"dualpipe-v", in_a_v}, {"interleaved", looped}, {"looped-bfs", looped}};
  ASSERT_EQ(wanted.size(), schedule_names().size());
  for (const auto& [name, devices] : wanted) {
    options.schedule = name;
    EXPECT_EQ(devices_of_stages(make_plan(options)), devices) << name;
  }
  options.virtual_stages = 3;
  options.schedule = "interleaved";
  EXPECT_EQ(devices_of_stages(make_plan(options)), (std::vector<int>{0, 1, 0, 1, 0, 1}));
  options.virtual_stages = 0;
  options.devices = {"a", "b", "c"};
  options.schedule = "zbv";
  EXPECT_EQ(devices_of_stages(make_plan(options)), (std::vector<int>{0, 1, 2, 2, 1, 0}));
  options.stages = 4;
  EXPECT_EQ(devices_of_stages(make_plan(options)), in_a_v);
  EXPECT_EQ(make_plan(options).devices, (std::vector<std::string>{"a", "b"}));
}

TEST(MakePlan, PlacesStagesWhereTheirRowsAre) {
  PlanOptions options = two_devices();
  options.schedule = "zbv";
  options.microbatches = 4;
  const Plan plan = make_plan(options);
  options.schedule = "";
  options.microbatches = 0;
  options.actions = plan.actions;
  EXPECT_EQ(devices_of_stages(make_plan(options)), devices_of_stages(plan));
  EXPECT_EQ(make_plan(options).actions, plan.actions);
  options.devices = {"cpu:0"};
  EXPECT_THROW((void)make_plan(options), Error);
}

TEST(MakePlan, SaysWhichSchedulesRun) {
  const Capabilities whole{.split_backward = false};
  for (const std::string& name : schedule_names()) {
    EXPECT_EQ(why_schedule_not_executable(name, 0, {}), "") << name;
    const bool splits = name.starts_with("zb") || name.starts_with("v-") || name == "dualpipe-v" || name == "list";
    EXPECT_EQ(why_schedule_not_executable(name, 0, whole).empty(), !splits) << name;
  }
  EXPECT_THAT(why_schedule_not_executable("interleaved", 4, {.several_stages_per_device = false}), HasSubstr("several stages"));
  EXPECT_THROW((void)why_schedule_not_executable("zbv", 3, whole), Error);
}

TEST(MakePlan, UsesOnlyTheDevicesItNeeds) {
  PlanOptions options = two_devices();
  options.stages = 1;
  options.schedule = "naive";
  const Plan plan = make_plan(options);
  EXPECT_EQ(plan.devices, (std::vector<std::string>{"cpu:0"}));
  EXPECT_EQ(plan.num_microbatches(), 1);
  EXPECT_EQ(describe(plan), "one device");
}

TEST(MakePlan, TakesStagesAndMicrobatchesFromActions) {
  PlanOptions options = two_devices();
  options.schedule = "";
  options.actions = schedule_from_csv("0F0,0F1,0B0,0B1\n1F0,1B0,1F1,1B1\n", "");
  const Plan plan = make_plan(options);
  EXPECT_EQ(plan.schedule, "custom");
  EXPECT_EQ(plan.microbatch_sizes, (std::vector<int>{16, 16}));
  options.actions[0].pop_back();
  EXPECT_THROW((void)make_plan(options), Error);
  options.actions = schedule_from_csv("0F0,0F1,0I0,0I1,0W0-1\n1F0,1B0,1F1,1B1\n", "");
  const Plan fused = make_plan(options);
  EXPECT_EQ(fused.num_microbatches(), 2);
  EXPECT_THAT(describe(fused), ::testing::EndsWith(", weight gradients of micro-batches 0-1 fused"));
  EXPECT_FALSE(is_exact(fused));
  EXPECT_TRUE(is_exact(plan));
}

TEST(MakePlan, RefusesNonsenseByField) {
  EXPECT_THAT(refusal([](PlanOptions& o) { o.stages = 19; }), HasSubstr("stages: 19 stages, but the model has 18 layers"));
  EXPECT_THAT(refusal([](PlanOptions& o) { o.stages = 3; }), HasSubstr("stages: 3 stages for 2 devices"));
  EXPECT_THAT(refusal([](PlanOptions& o) { o.stages = -1; }), HasSubstr("stages: "));
  EXPECT_THAT(refusal([](PlanOptions& o) { o.cuts = {18}; }), HasSubstr("cuts: cut 18 is out of range"));
  EXPECT_THAT(refusal([](PlanOptions& o) { o.cuts = {0}; }), HasSubstr("cuts: "));
  EXPECT_THAT(refusal([](PlanOptions& o) { o.cuts = {9, 4}; }), HasSubstr("cuts: "));
  EXPECT_THAT(refusal([](PlanOptions& o) {
                o.cuts = {4, 9};
                o.stages = 2;
              }),
              HasSubstr("2 cuts do not make 2 stages"));
  EXPECT_THAT(refusal([](PlanOptions& o) { o.microbatches = 33; }), HasSubstr("microbatches: 33 micro-batches of a batch of 32"));
  EXPECT_THAT(refusal([](PlanOptions& o) { o.split_size = 33; }), HasSubstr("split_size: "));
  EXPECT_THAT(refusal([](PlanOptions& o) { o.split_size = o.microbatches = 4; }), HasSubstr("split_size: "));
  EXPECT_THAT(refusal([](PlanOptions& o) { o.microbatches = -4; }), HasSubstr("microbatches: "));
  EXPECT_THAT(refusal([](PlanOptions& o) { o.batch = 0; }), HasSubstr("batch: "));
  EXPECT_THAT(refusal([](PlanOptions& o) { o.devices = {}; }), HasSubstr("devices: "));
  EXPECT_THAT(refusal([](PlanOptions& o) { o.schedule = "zigzag"; }), HasSubstr("zigzag"));
  EXPECT_THAT(refusal([](PlanOptions& o) { o.replicas = {1, 2}; }), HasSubstr("replicas: "));
  EXPECT_THAT(refusal([](PlanOptions& o) { o.replicas = {3, -1}; }), HasSubstr("replicas: "));
  EXPECT_THAT(refusal([](PlanOptions& o) {
                o.replicas = {1, 1};
                o.virtual_stages = 2;
              }),
              HasSubstr("replicas: "));
  EXPECT_THAT(refusal([](PlanOptions& o) { o.virtual_stages = 2; }), HasSubstr("1f1b"));
  EXPECT_THAT(refusal([](PlanOptions& o) { o.virtual_stages = -1; }), HasSubstr("virtual_stages: "));
  EXPECT_THAT(refusal([](PlanOptions& o) {
                o.virtual_stages = 3;
                o.schedule = "zbv";
              }),
              HasSubstr("two stages on a device, not 3"));
  EXPECT_THAT(refusal([](PlanOptions& o) {
                o.stages = 3;
                o.schedule = "zbv";
              }),
              HasSubstr("2 D - 1 - s"));
  EXPECT_THAT(refusal([](PlanOptions& o) {
                o.replicas = {1, 1};
                o.schedule = "v-half";
              }),
              HasSubstr("2 D - 1 - s"));
  for (const char* text : {"2", "-1", "0,", ",0", "0 1", "some", "0,5", "99999999999"})
    EXPECT_THAT(refusal([&](PlanOptions& o) { o.recompute = text; }), HasSubstr("recompute: ")) << text;
}

TEST(BaselinePlans, AreTheFiveOfTheInterface) {
  SearchSpace space;
  space.devices = {"cpu:0", "cpu:1"};
  space.whole_machine = {"cpu:0-1"};
  space.batch = 32;
  std::map<std::string, std::string> words;
  for (const NamedPlan& baseline : baseline_plans(space, 18)) {
    EXPECT_NO_THROW(validate(baseline.plan, 18, ""));
    EXPECT_NO_THROW(validate_schedule(baseline.plan, ""));
    words[baseline.name] = describe(baseline.plan);
  }
  EXPECT_EQ(words, (std::map<std::string, std::string>{
                       {"single_device", "one device"},
                       {"all_cores", "one device of 2 cores"},
                       {"naive_model_parallel", "pipeline of 2 stages, naive, 1 micro-batch of 32"},
                       {"default_pipeline", "pipeline of 2 stages, 1f1b, 8 micro-batches of 4"},
                       {"data_parallel", "data parallel over 2 devices"},
                   }));
}

TEST(BaselinePlans, LeaveOutWhatCannotExist) {
  const auto names = [](const SearchSpace& space, int layers) {
    std::vector<std::string> list;
    for (const NamedPlan& baseline : baseline_plans(space, layers)) list.push_back(baseline.name);
    return list;
  };
  SearchSpace space;
  space.devices = {"a", "b", "c"};
  space.batch = 2;
  EXPECT_EQ(names(space, 2), (std::vector<std::string>{"single_device"}));
  space.batch = 3;
  EXPECT_EQ(names(space, 2), (std::vector<std::string>{"single_device", "data_parallel"}));
  space.devices = {"a"};
  EXPECT_EQ(names(space, 9), (std::vector<std::string>{"single_device"}));
}

}  // namespace
}  // namespace mptune::planner

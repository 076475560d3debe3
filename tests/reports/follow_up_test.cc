#include "reports/values/follow_up.h"

#include <gmock/gmock.h>

#include "planner/plan/plan_words.h"
#include "planner/schedule/schedule_info.h"
#include "planner/search/make_plan.h"
#include "profiler/base/text.h"
#include "reports/cli/options/plan_choice.h"

namespace mptune::reports {
namespace {

constexpr int kLayers = 12;

std::vector<ProfileLayer> layers() {
  std::vector<ProfileLayer> all(kLayers);
  for (int i = 0; i < kLayers; ++i) all[static_cast<std::size_t>(i)].name = "block" + std::to_string(i);
  return all;
}

/// What the command line makes of the words.
Plan plan_of(const PlanOptionWords& words) {
  PlanChoice choice;
  std::vector<std::string> devices;
  int batch = 0;
  for (const auto& [option, value] : words) {
    if (option == "--devices")
      for (const std::string& device : split(value, ',')) devices.push_back(device);
    else if (option == "--batch")
      batch = std::stoi(value);
    else
      (option == "--stages"          ? choice.stages
       : option == "--virtual"       ? choice.virtual_stages
       : option == "--cuts"          ? choice.cuts
       : option == "--microbatches"  ? choice.microbatches
       : option == "--split-size"    ? choice.split_size
       : option == "--schedule"      ? choice.schedule
       : option == "--recompute"     ? choice.recompute
       : option == "--offload"       ? choice.offload
       : option == "--replicas"      ? choice.replicas
       : option == "--memory-format" ? choice.memory_format
                                     : choice.threads) = value;
  }
  return plan_from_options(choice, devices, batch, layers());
}

void expect_named(const Plan& plan) {
  const auto words = options_of_plan(plan);
  ASSERT_TRUE(words) << describe(plan);
  EXPECT_EQ(plan_of(*words), plan) << describe(plan);
}

PlanOptions three_stages() {
  PlanOptions options;
  options.devices = {"cpu:0", "cpu:1", "cpu:2"};
  options.batch = 10;
  options.layers = kLayers;
  options.microbatches = 5;
  return options;
}

TEST(OptionsOfPlan, NameEveryScheduleAgain) {
  int named = 0;
  for (const std::string& schedule : planner::schedule_names()) {
    PlanOptions options = three_stages();
    options.devices = {"cpu:0", "cpu:1"};
    options.microbatches = schedule == "naive" ? 1 : 4;
    options.schedule = schedule;
    if (schedule == "list") continue;  // is made by costs
    expect_named(make_plan(options));
    ++named;
  }
  EXPECT_GT(named, 8);
}

TEST(OptionsOfPlan, NameCutsReplicasSizesRecomputationAndOffloading) {
  PlanOptions options = three_stages();
  options.cuts = {2, 3};
  options.recompute = "0,2";
  expect_named(make_plan(options));
  options.offload = "1";
  expect_named(make_plan(options));
  options.recompute = "all";
  options.offload = "none";
  options.microbatches = 0;
  options.split_size = 3;
  expect_named(make_plan(options));
  options = three_stages();
  options.replicas = {2, 1};
  options.microbatches = 10;
  expect_named(make_plan(options));
  options = three_stages();
  options.devices = {"cpu:0"};
  expect_named(make_plan(options));
}

TEST(OptionsOfPlan, NameThreadsAndMemoryFormat) {
  PlanOptions options = three_stages();
  options.devices = {"cpu:0-3", "cpu:4-5"};
  Plan plan = make_plan(options);
  plan.options.memory_format = MemoryFormat::channels_last;
  plan.options.threads = {3, 2};
  expect_named(plan);
  plan.options.threads = {1, 2};
  EXPECT_FALSE(options_of_plan(plan)) << "one option can't name it";
}

TEST(OptionsOfPlan, SayNothingWhereTheyWouldMakeAnotherPlan) {
  Plan plan = make_plan(three_stages());
  plan.actions.front().pop_back();
  EXPECT_FALSE(options_of_plan(plan));
  plan = make_plan(three_stages());
  plan.stages.front().recompute = {.mode = Recompute::Mode::some, .layers = {1}, .microbatches = {}};
  EXPECT_FALSE(options_of_plan(plan));
  plan = make_plan(three_stages());
  plan.microbatch_sizes = {1, 1, 1, 1, 6};
  EXPECT_FALSE(options_of_plan(plan));
}

TEST(Commands, TrainWithAPlanFile) {
  TrainingSpec spec;
  spec.model = "toy:layers=6";
  spec.batch = "8";
  spec.devices = "cpu:0,cpu:1";
  spec.memory = "cpu:0=1GiB,cpu:7=2GiB";
  spec.link = "1GB/s";
  Plan plan = make_plan(three_stages());
  EXPECT_EQ(command_with_plan_file(spec, plan, "/a b/p.json"),
            "mptune run toy:layers=6 --memory cpu:0=1GiB --link 1GB/s --plan '/a b/p.json'");
  plan.devices.front() = "sleep:0";
  EXPECT_THAT(command_with_plan_file(spec, plan, "/p.json"), ::testing::StartsWith("mptune profile toy:layers=6"))
      << "sleeping devices can't train";
}

TEST(Commands, NameSleepingDevicesByTheirNumber) {
  EXPECT_EQ(devices_option({"cpu:0-3", "cuda:0/1of2"}), "cpu:0-3,cuda:0/1of2");
  EXPECT_EQ(devices_option({"sleep:0", "sleep:1", "sleep:2"}), "sleep:3");
  EXPECT_EQ(devices_option({"sleep:1"}), "") << "no option names it alone";
}

TEST(Commands, ShowAFailedPlan) {
  TrainingSpec spec;
  spec.model = "toy";
  spec.batch = "99";
  const Plan plan = make_plan(three_stages());
  const tuner::UnmeasuredPlan unmeasured{.name = "candidate", .plan_key = "", .plan = plan, .description = "", .alone_s = {}, .why = {}};
  EXPECT_EQ(command_that_shows({tuner::Crashed{}, {unmeasured}}, spec),
            "mptune run toy --devices cpu:0,cpu:1,cpu:2 --batch 10 --stages 3 --cuts 4,8 --microbatches 5 --schedule 1f1b");
  EXPECT_THAT(*command_that_shows({tuner::WrongResult{}, {unmeasured}}, spec), ::testing::StartsWith("mptune check toy --devices"));
  EXPECT_FALSE(command_that_shows({tuner::OutOfMemory{}, {unmeasured}}, spec)) << "shows nothing new";
  EXPECT_FALSE(command_that_shows({tuner::Crashed{}, {unmeasured}}, {})) << "the model is not known";
}

TEST(Commands, ResumeWithTwiceTheTime) {
  EXPECT_EQ(resume_command("/s/a.study", 142), "mptune tune --resume /s/a.study --budget 5min");
  EXPECT_EQ(resume_command("/s", 0.1), "mptune tune --resume /s --budget 1min");
  EXPECT_EQ(shared_resume_command("a b.study", 142), "mptune tune --resume 'a b.study' --budget 5min");
}

}  // namespace
}  // namespace mptune::reports

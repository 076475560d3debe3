#include "reports/cli/options/plan_choice.h"

#include <gmock/gmock.h>

#include <fstream>

#include "reports/cli/options/options.h"
#include "tests/support/error_of.h"
#include "tests/support/files.h"
#include "tuner/runtime/graph/capabilities.h"

namespace mptune::reports {
namespace {

using testing::error_of;
using ::testing::HasSubstr;
using testing::refusal_of;

std::vector<ProfileLayer> six_layers() {
  std::vector<ProfileLayer> layers(6);
  for (std::size_t i = 0; i < layers.size(); ++i) layers[i].name = std::string(1, static_cast<char>('a' + i));
  layers[3].name = "1";
  return layers;
}

Plan plan_of(const PlanChoice& choice) {
  return plan_from_options(choice, {"sleep:0", "sleep:1"}, 8, six_layers());
}

TEST(ParseCuts, AreNumbersOrNamesOfLayers) {
  EXPECT_TRUE(parse_cuts("", six_layers()).empty());
  EXPECT_EQ(parse_cuts("2,4", six_layers()), (std::vector<int>{2, 4}));
  EXPECT_EQ(parse_cuts("c,f", six_layers()), (std::vector<int>{2, 5}));
  EXPECT_EQ(parse_cuts("1", six_layers()), std::vector<int>{1}) << "a number is a position even where a layer has that name";
}

TEST(ParseCuts, RefuseWhatIsNoLayerOrLeavesAnEmptyStage) {
  for (const std::string text : {"x", "0", "6", "-1", "2,", ",2", "2,x", "1e1", "99999999999", "3,3", "4,2", "a"})
    EXPECT_THAT(refusal_of([&] { (void)parse_cuts(text, six_layers()); }), HasSubstr("--cuts: ")) << text;
}

TEST(PlanValues, AreZeroOrEmptyWhereNothingIsTyped) {
  const PlanOptions values = plan_values({});
  EXPECT_EQ(values.stages + values.virtual_stages + values.microbatches + values.split_size, 0);
  EXPECT_EQ(values.schedule + values.recompute, "");
  EXPECT_TRUE(values.replicas.empty());
}

TEST(PlanValues, AreTheOptions) {
  PlanChoice choice;
  choice.stages = "4";
  choice.virtual_stages = "2";
  choice.microbatches = "8";
  choice.split_size = "3";
  choice.schedule = "gpipe";
  choice.recompute = "0,2";
  choice.replicas = "2,1";
  const PlanOptions values = plan_options(choice, {"sleep:0"}, 24, six_layers());
  EXPECT_EQ(values.devices, std::vector<std::string>{"sleep:0"});
  EXPECT_EQ(values.batch, 24);
  EXPECT_EQ(values.layers, 6);
  EXPECT_EQ(values.stages, 4);
  EXPECT_EQ(values.virtual_stages, 2);
  EXPECT_EQ(values.microbatches, 8);
  EXPECT_EQ(values.split_size, 3);
  EXPECT_EQ(values.schedule, "gpipe");
  EXPECT_EQ(values.recompute, "0,2");
  EXPECT_EQ(values.replicas, (std::vector<int>{2, 1}));
}

TEST(PlanValues, RefuseWhatIsNoNumberByItsOption) {
  struct Option {
    std::string PlanChoice::*text;
    std::string name;
  };
  for (const Option& option : {Option{&PlanChoice::stages, "--stages"}, Option{&PlanChoice::virtual_stages, "--virtual"},
                               Option{&PlanChoice::microbatches, "--microbatches"}, Option{&PlanChoice::split_size, "--split-size"},
                               Option{&PlanChoice::replicas, "--replicas"}}) {
    for (const std::string text : {"0", "-1", "x", "1.5", " 1", "99999999999999999999"}) {
      PlanChoice choice;
      choice.*option.text = text;
      EXPECT_THAT(refusal_of([&] { (void)plan_values(choice); }), HasSubstr(option.name + ": '")) << text;
    }
  }
  PlanChoice choice;
  choice.replicas = "1,";
  EXPECT_THAT(refusal_of([&] { (void)plan_values(choice); }), HasSubstr("--replicas")) << "a count is missing";
}

TEST(PlanFromOptions, HasTheDefaultsOfHelp) {
  const Plan plan = plan_of({});
  EXPECT_EQ(plan.schedule, "1f1b");
  EXPECT_EQ(plan.num_stages(), 2);
  EXPECT_EQ(plan.num_microbatches(), 8);
  EXPECT_EQ(plan.stages[0].recompute.mode, Recompute::Mode::none);
}

TEST(PlanFromOptions, TakesActionsFromAFile) {
  const testing::TestFolder folder("plan-choice");
  const std::string path = folder.path("rows.csv");
  std::ofstream(path) << "0F0,0F1,0B0,0B1\n1F0,1B0,1F1,1B1\n";
  PlanChoice choice;
  choice.schedule = path;
  const Plan plan = plan_of(choice);
  EXPECT_EQ(plan.schedule, "custom");
  EXPECT_EQ(plan.num_microbatches(), 2);
  choice.schedule = folder.path("missing.csv");
  EXPECT_THAT(refusal_of([&] { (void)plan_of(choice); }), HasSubstr("--schedule: "));
}

TEST(PlanFromOptions, RefusesReplicasWithoutAMicrobatch) {
  PlanChoice choice;
  choice.replicas = "2";
  choice.microbatches = "1";
  EXPECT_THAT(refusal_of([&] { (void)plan_of(choice); }), HasSubstr("1 micro-batch for 2 replicas"));
}

TEST(PlanFileOrOptions, NotBoth) {
  PlanChoice choice;
  choice.plan = "plan.json";
  choice.strict = true;
  EXPECT_FALSE(choice.any()) << "these two name no part of a plan";
  EXPECT_NO_THROW(check_one_plan(choice.any(), "plan.json"));
  choice.cuts = "3";
  EXPECT_TRUE(choice.any());
  EXPECT_THAT(refusal_of([&] { check_one_plan(choice.any(), "plan.json"); }), HasSubstr("plan.json: "));
}

TEST(CheckExecutable, EverySchedule) {
  for (const std::string schedule : {"1f1b", "zb1p", "zbv", "dualpipe-v", "interleaved-late", "list"}) {
    PlanChoice choice;
    choice.schedule = schedule;
    EXPECT_NO_THROW(check_executable(plan_of(choice), "plan.json")) << schedule;
    SearchSpace space;
    space.schedules = {schedule};
    EXPECT_NO_THROW(check_schedule_executable(space)) << schedule;
  }
}

TEST(SearchSpaceFromOptions, AllCoresAsOneDeviceHaveTheMemoryOfOne) {
  const std::vector<DeviceSpec> devices = parse_devices("sleep:2");
  const auto cap_of = [&](const std::vector<std::int64_t>& caps) {
    return search_space({}, devices, caps, 8, {}).whole_machine_memory_bytes;
  };
  EXPECT_EQ(cap_of({200, 200}), 200);
  EXPECT_EQ(cap_of({200, 300}), 300);
  EXPECT_EQ(cap_of({200, 0}), 0) << "one device may use all there is";
}

TEST(MemoryFormatOption, NamesThePlansFormat) {
  PlanChoice choice;
  EXPECT_EQ(plan_of(choice).options, ExecutionOptions());
  choice.memory_format = "channels_last";
  EXPECT_TRUE(choice.any());
  EXPECT_EQ(plan_of(choice).options.memory_format, MemoryFormat::channels_last);
  EXPECT_NO_THROW(check_memory_format(choice, true));
  EXPECT_EQ(error_of([&] { check_memory_format(choice, false); }).where(), "--memory-format");
  choice.memory_format = "nhwc";
  EXPECT_THAT(error_of([&] { (void)plan_of(choice); }).remedy(), HasSubstr("contiguous or channels_last"));
}

TEST(MemoryFormatOption, RestrictsASearch) {
  const auto searched = [](const PlanChoice& choice) {
    return search_space(choice, parse_devices("sleep:2"), {}, 8, six_layers()).variants;
  };
  const ExecutionVariant plain, last{.memory_format = MemoryFormat::channels_last}, replaced{.replaces_slow_kernels = true};
  const ExecutionVariant last_replaced{MemoryFormat::channels_last, true};
  PlanChoice choice;
  EXPECT_THAT(searched(choice), ::testing::ElementsAre(plain, last, replaced, last_replaced));
  EXPECT_TRUE(choice.allows_channels_last());
  EXPECT_TRUE(choice.allows_replaced_kernels());
  choice.memory_format = "channels_last";
  EXPECT_THAT(searched(choice), ::testing::ElementsAre(last, last_replaced));
  EXPECT_TRUE(choice.allows_channels_last());
  EXPECT_TRUE(choice.allows_replaced_kernels());
  choice.exact = true;
  EXPECT_EQ(error_of([&] { (void)searched(choice); }).where(), "--exact");
  choice.memory_format = "contiguous";
  EXPECT_THAT(searched(choice), ::testing::ElementsAre(plain));
  EXPECT_FALSE(choice.allows_channels_last());
  EXPECT_FALSE(choice.allows_replaced_kernels());
  choice.exact = false;
  EXPECT_THAT(searched(choice), ::testing::ElementsAre(plain, replaced));
  choice = {};
  choice.exact = true;
  EXPECT_TRUE(search_space(choice, parse_devices("sleep:2"), {}, 8, six_layers()).exact);
  EXPECT_FALSE(choice.allows_channels_last());
}

const std::vector<std::string> kFourCoresAndOne{"cpu:0-3", "cpu:4"};

Plan plan_on_cores(const PlanChoice& choice) {
  return plan_from_options(choice, kFourCoresAndOne, 8, six_layers());
}

TEST(ThreadsOption, NamesThePlansThreads) {
  PlanChoice choice;
  EXPECT_TRUE(plan_on_cores(choice).options.threads.empty());
  choice.threads = "3";
  EXPECT_TRUE(choice.any());
  EXPECT_EQ(plan_on_cores(choice).options.threads, (std::vector<int>{3, 1}));
  choice.threads = "4";
  EXPECT_TRUE(plan_on_cores(choice).options.threads.empty()) << "the default";
  for (const char* const bad : {"0", "-1", "x", "5", "1.5", " 1", "99999999999999999999"}) {
    choice.threads = bad;
    const Error error = error_of([&] { (void)plan_on_cores(choice); });
    EXPECT_EQ(error.code(), ExitCode::usage);
    EXPECT_THAT(error.problem(), HasSubstr("the largest device has 4 cores")) << bad;
    EXPECT_EQ(error.where() + error.remedy(), "--threadsuse 1 to 4") << bad;
  }
  choice.threads = "2";
  EXPECT_THAT(error_of([&] { (void)plan_from_options(choice, {"cpu:0", "cpu:1"}, 8, six_layers()); }).remedy(), HasSubstr("cpu:0-3"));
  EXPECT_THAT(refusal_of([&] { (void)plan_of(choice); }), HasSubstr("only CPU devices have intra-op threads"));
}

TEST(ThreadsOption, RestrictsASearch) {
  const auto searched = [](const PlanChoice& choice) {
    std::vector<int> threads;
    for (const ExecutionVariant& variant :
         search_space(choice, {parse_device("cpu:0-3"), parse_device("cpu:4")}, {}, 8, six_layers()).variants)
      if (variant == ExecutionVariant{.threads = variant.threads}) threads.push_back(variant.threads);
    return threads;
  };
  PlanChoice choice;
  EXPECT_THAT(searched(choice), ::testing::ElementsAre(0, 1, 2, 3));
  choice.threads = "1";
  EXPECT_THAT(searched(choice), ::testing::ElementsAre(1));
  choice.exact = true;
  const Error error = error_of([&] { (void)searched(choice); });
  EXPECT_EQ(error.where(), "--exact");
  EXPECT_THAT(error.remedy(), HasSubstr("--threads"));
  choice.threads = "4";
  EXPECT_THAT(searched(choice), ::testing::ElementsAre(0)) << "the default";
  choice.threads = "";
  EXPECT_THAT(searched(choice), ::testing::ElementsAre(0));
}

TEST(ThreadsOption, DecidesWhatIsMeasured) {
  using ::testing::ElementsAre;
  using ::testing::IsEmpty;
  PlanChoice choice;
  EXPECT_THAT(measured_threads(choice, kFourCoresAndOne, nullptr), ElementsAre(1));
  EXPECT_THAT(measured_threads(choice, {"cpu:0", "sleep:0"}, nullptr), IsEmpty()) << "one core";
  Plan plan = plan_on_cores(choice);
  EXPECT_THAT(measured_threads(choice, kFourCoresAndOne, &plan), ElementsAre(1));
  plan.options.threads = {2, 1};
  EXPECT_THAT(measured_threads(choice, kFourCoresAndOne, &plan), ElementsAre(1, 2));
  choice.threads = "3";
  EXPECT_THAT(measured_threads(choice, kFourCoresAndOne, nullptr), ElementsAre(1, 3));
  choice.threads = "4";
  EXPECT_THAT(measured_threads(choice, kFourCoresAndOne, nullptr), IsEmpty());
  choice = {};
  choice.exact = true;
  EXPECT_THAT(measured_threads(choice, kFourCoresAndOne, nullptr), IsEmpty());
}

TEST(SearchSpaceFromOptions, IsOfTheDevicesTheirCapsAndTheRuntime) {
  PlanChoice choice;
  choice.stages = "2";
  const SearchSpace space = search_space(choice, parse_devices("sleep:2"), {100, 0}, 8, six_layers());
  EXPECT_EQ(space.devices, (std::vector<std::string>{"sleep:0", "sleep:1"}));
  EXPECT_EQ(space.memory_bytes, (std::vector<std::int64_t>{100, 0}));
  EXPECT_EQ(space.batch, 8);
  EXPECT_EQ(space.stage_counts, std::vector<int>{2});
  EXPECT_EQ(space.capabilities, tuner::kRuntime);
}

TEST(SearchSpaceFromOptions, DivisionsThatCannotHaveTheChoicesAreLeftOut) {
  const std::vector<DevicePool> pools{parse_pool("cpu:0-3/auto")};
  std::vector<DeviceSpec> even;
  for (const std::string& name : even_division(pools[0])) even.push_back(parse_device(name));
  const std::vector<Division> divisions = divisions_with_caps("1GiB", even, pools);
  ASSERT_EQ(divisions.size(), 5U);
  for (const Division& division : divisions)
    EXPECT_EQ(division.memory_bytes, std::vector<std::int64_t>(division.devices.size(), std::int64_t{1} << 30));
  const auto space_for = [&](const PlanChoice& choice) {
    return search_space(choice, even, memory_caps("1GiB", even, pools), 8, six_layers(), divisions);
  };
  PlanChoice choice;
  EXPECT_EQ(space_for(choice).divisions.size(), 5U);
  EXPECT_EQ(space_for(choice).devices.size(), 4U);
  EXPECT_EQ(space_for(choice).variants.size(), 4U * 4U) << "threads of the largest device, formats, replaced kernels";
  choice.stages = "3";
  EXPECT_EQ(space_for(choice).divisions.size(), 2U);
  choice = {};
  choice.replicas = "2,1";
  EXPECT_EQ(space_for(choice).divisions.size(), 1U);
  EXPECT_EQ(space_for(choice).devices, (std::vector<std::string>{"cpu:0-1", "cpu:2", "cpu:3"})) << "in place of the even division";
  choice.replicas = "3,3";
  EXPECT_THAT(refusal_of([&] { (void)space_for(choice); }), HasSubstr("add up"));
}

TEST(MemoryCaps, OfPoolsAreTheSameForAllDevices) {
  const std::vector<DevicePool> pools{parse_pool("cpu:0-1/auto")};
  const std::vector<DeviceSpec> devices{parse_device("cpu:0"), parse_device("cpu:1"), parse_device("cpu:2")};
  EXPECT_EQ(memory_caps("100B", devices, pools), (std::vector<std::int64_t>{100, 100, 100}));
  EXPECT_EQ(memory_caps("cpu:2=100B", devices, pools), (std::vector<std::int64_t>{0, 0, 100}));
  EXPECT_THAT(refusal_of([&] { (void)memory_caps("cpu:0=100B", devices, pools); }), HasSubstr("cpu:0=100B"));
}

}  // namespace
}  // namespace mptune::reports

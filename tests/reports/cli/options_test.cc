#include "reports/cli/options/options.h"

#include <gmock/gmock.h>

#include "tests/support/error_of.h"

namespace mptune::reports {
namespace {

using ::testing::HasSubstr;
using testing::refusal_of;

DeviceOptions two_sleeping() {
  DeviceOptions devices;
  devices.devices = "sleep:2";
  return devices;
}

TEST(ParseWhole, TakesTheWholeRangeAndNothingBeyond) {
  EXPECT_EQ(parse_whole("", "--steps", 1, 10, 7), 7) << "not given";
  EXPECT_EQ(parse_whole("1", "--steps", 1, 10, 7), 1);
  EXPECT_EQ(parse_whole("10", "--steps", 1, 10, 7), 10);
  for (const std::string text : {"0", "11", "-1", "x", "1x", "1.0", "1e3", " 1", "99999999999999999999"})
    EXPECT_THAT(refusal_of([&] { (void)parse_whole(text, "--steps", 1, 10, 7); }), HasSubstr("--steps: '" + text + "'")) << text;
}

TEST(ParseCount, IsAtLeastOne) {
  EXPECT_EQ(parse_count("", "--stages", 4), 0) << "not given";
  EXPECT_EQ(parse_count("4", "--stages", 4), 4);
  EXPECT_THAT(refusal_of([] { (void)parse_count("0", "--stages", 4); }), HasSubstr("--stages: "));
}

TEST(ParseNumber, IsFiniteAndInRange) {
  EXPECT_EQ(parse_number("", "--target", 0, 100, 1), 1) << "not given";
  EXPECT_EQ(parse_number("0", "--target", 0, 100, 1), 0);
  EXPECT_EQ(parse_number("2.5", "--target", 0, 100, 1), 2.5);
  EXPECT_EQ(parse_number("1e1", "--target", 0, 100, 1), 10);
  for (const std::string text : {"-1", "101", "x", "nan", "inf", "1e999", "2.5%", " 1"})
    EXPECT_THAT(refusal_of([&] { (void)parse_number(text, "--target", 0, 100, 1); }), HasSubstr("--target: ")) << text;
}

TEST(MakeSetup, HasTheDefaultsOfHelp) {
  const tuner::TrainingSetup setup = make_setup({.model = "toy", .batch = "", .input = ""}, two_sleeping(), {});
  EXPECT_EQ(setup.model, "toy");
  EXPECT_EQ(setup.batch, 0) << "the model's";
  EXPECT_EQ(setup.devices, (std::vector<std::string>{"sleep:0", "sleep:1"}));
  EXPECT_TRUE(setup.memory_bytes.empty());
  EXPECT_EQ(text_of(setup.optimizer), "sgd");
  EXPECT_EQ(setup.learning_rate, 0) << "the optimizer's";
  EXPECT_EQ(setup.loss, "") << "the model's";
  EXPECT_EQ(setup.seed, 0u);
}

TEST(MakeSetup, TakesEveryOption) {
  DeviceOptions devices = two_sleeping();
  devices.link = "12GB/s,10us";
  devices.memory = "sleep:1=2GiB";
  StepOptions step;
  step.optimizer = "adamw";
  step.learning_rate = "0.5";
  step.loss = "cross_entropy:weight=1,2:ignore_index=0";
  step.seed = "9223372036854775807";
  const tuner::TrainingSetup setup = make_setup({.model = "toy", .batch = "32", .input = "3x8x8"}, devices, step);
  EXPECT_EQ(setup.batch, 32);
  EXPECT_EQ(setup.input, "3x8x8");
  EXPECT_EQ(setup.memory_bytes.at("sleep:1"), std::int64_t{2} << 30);
  EXPECT_FALSE(setup.memory_bytes.contains("sleep:0"));
  EXPECT_EQ(text_of(setup.optimizer), "adamw");
  EXPECT_EQ(setup.learning_rate, 0.5);
  EXPECT_EQ(setup.loss, "cross_entropy:ignore_index=0:weight=1,2");
  EXPECT_EQ(setup.seed, 9223372036854775807u);
  step.loss = "model";
  EXPECT_EQ(make_setup({}, devices, step).loss, "") << "the model's own";
}

TEST(MakeSetup, RefusesByOption) {
  const auto refused = [](const std::string& option, ModelOptions model, DeviceOptions devices, StepOptions step) {
    EXPECT_THAT(refusal_of([&] { (void)make_setup(model, devices, step); }), HasSubstr(option)) << option;
  };
  const auto with = [](auto member, const std::string& value) {
    StepOptions step;
    step.*member = value;
    return step;
  };
  refused("--batch: ", {.model = "toy", .batch = "0", .input = ""}, two_sleeping(), {});
  refused("--devices: ", {}, {.devices = "", .link = "", .memory = ""}, {});
  refused("--link: ", {}, {.devices = "sleep:2", .link = "fast", .memory = ""}, {});
  refused("--memory: ", {}, {.devices = "sleep:2", .link = "", .memory = "sleep:7=1GiB"}, {});
  refused("--optimizer: ", {}, two_sleeping(), with(&StepOptions::optimizer, "best"));
  refused("--lr: ", {}, two_sleeping(), with(&StepOptions::learning_rate, "0"));
  refused("--loss: ", {}, two_sleeping(), with(&StepOptions::loss, "none"));
  refused("--seed: ", {}, two_sleeping(), with(&StepOptions::seed, "-1"));
  refused("missing.pt: ", {}, two_sleeping(), with(&StepOptions::data, "missing.pt"));
}

TEST(WholeMachineCap, IsTheLargestOfCappedDevices) {
  EXPECT_EQ(whole_machine_cap({}), 0);
  EXPECT_EQ(whole_machine_cap({100, 200}), 200);
  EXPECT_EQ(whole_machine_cap({100, 0}), 0) << "one device is not capped";
}

}  // namespace
}  // namespace mptune::reports

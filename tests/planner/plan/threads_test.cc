// Intra-op threads of a plan's devices: values, plan files, exactness.
#include "planner/plan/threads.h"

#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "planner/plan/file/plan_file.h"
#include "tests/planner/profiles.h"
#include "tests/support/error_of.h"

namespace mptune::planner {
namespace {

using ::testing::HasSubstr;
using testing::refusal_of;

// Devices of 4, 1 and 2 cores.
Plan plan_on_cores(std::vector<int> threads) {
  Plan plan = testing::scheduled(testing::stages_of(6, {1, 1, 1}, {2, 2}), "1f1b");
  plan.devices = {"cpu:0-3", "cpu:4", "cpu:6-7"};
  plan.options.threads = std::move(threads);
  return plan;
}

Plan plan_in_file(const std::string& options) {
  auto json = nlohmann::json::parse(plan_to_json(plan_on_cores({}), {}));
  json["options"] = nlohmann::json::parse(options);
  return plan_from_json(json.dump(), "here");
}

TEST(Threads, AreOnePerCoreUnlessFewerAreAsked) {
  EXPECT_EQ(default_threads("cpu:0-3"), 4);
  EXPECT_EQ(default_threads("cpu:7"), 1);
  for (const char* const other : {"sleep:0", "cuda:0", "elsewhere", ""}) EXPECT_EQ(default_threads(other), 1) << other;
  const std::vector<std::string> devices{"cpu:0-3", "cpu:4", "cpu:6-7", "sleep:0"};
  EXPECT_TRUE(threads_of_devices(devices, 0).empty());
  EXPECT_EQ(threads_of_devices(devices, 1), (std::vector<int>{1, 1, 1, 1}));
  EXPECT_EQ(threads_of_devices(devices, 3), (std::vector<int>{3, 1, 2, 1}));
  EXPECT_TRUE(threads_of_devices(devices, 4).empty()) << "the default";
  EXPECT_TRUE(threads_of_devices({"cpu:0", "cpu:1"}, 1).empty()) << "the default";
  EXPECT_EQ(threads_of(plan_on_cores({}), 0), 4);
  EXPECT_EQ(threads_of(plan_on_cores({3, 1, 2}), 0), 3);
}

TEST(Threads, OtherNumbersThanTheDefaultAreNotExact) {
  EXPECT_TRUE(is_exact(plan_on_cores({})));
  EXPECT_TRUE(is_exact(plan_on_cores({4, 1, 2})));
  EXPECT_FALSE(is_exact(plan_on_cores({4, 1, 1})));
}

TEST(Threads, AreSaidInWords) {
  EXPECT_EQ(threads_in_words(plan_on_cores({})), "");
  EXPECT_EQ(threads_in_words(plan_on_cores({4, 1, 2})), "");
  EXPECT_EQ(threads_in_words(plan_on_cores({1, 1, 1})), "1 thread a device");
  EXPECT_EQ(threads_in_words(plan_on_cores({3, 1, 2})), "3, 1, 2 threads");
}

TEST(Threads, APlanHasOneNumberForEachDeviceAndNoMoreThanCores) {
  EXPECT_NO_THROW(validate(plan_on_cores({}), 6, "here"));
  EXPECT_NO_THROW(validate(plan_on_cores({4, 1, 1}), 6, "here"));
  const auto refusal = [](std::vector<int> threads) { return refusal_of([&] { validate(plan_on_cores(std::move(threads)), 6, "here"); }); };
  EXPECT_THAT(refusal({1}), HasSubstr("1 number of threads for 3 devices"));
  EXPECT_THAT(refusal({1, 1, 1, 1}), HasSubstr("4 numbers of threads for 3 devices"));
  EXPECT_THAT(refusal({5, 1, 1}), HasSubstr("cpu:0-3 can't have 5 threads"));
  EXPECT_THAT(refusal({1, 2, 1}), HasSubstr("cpu:4 can't have 2 threads"));
  EXPECT_THAT(refusal({1, 1, 0}), HasSubstr("cpu:6-7 can't have 0 threads"));
  EXPECT_THAT(refusal({-1, 1, 1}), HasSubstr("-1 threads"));
  Plan sleeping = plan_on_cores({4, 1, 2});
  sleeping.devices[1] = "sleep:0";
  EXPECT_NO_THROW(validate(sleeping, 6, "here"));
  sleeping.options.threads[1] = 2;
  EXPECT_THAT(refusal_of([&] { validate(sleeping, 6, "here"); }), HasSubstr("sleep:0 can't have 2 threads"));
}

TEST(Threads, StandInThePlanFileUnlessTheyAreTheDefault) {
  const Plan plan = plan_on_cores({2, 1, 1});
  const std::string text = plan_to_json(plan, {});
  EXPECT_THAT(text, HasSubstr(R"("threads":[2,1,1],"exact":false)"));
  EXPECT_EQ(plan_from_json(text, "here"), plan);
  EXPECT_NE(plan_key(plan), plan_key(plan_on_cores({})));
  EXPECT_EQ(plan_key(plan_on_cores({4, 1, 2})), plan_key(plan_on_cores({}))) << "the same plan";
  for (const char* const options : {R"({"threads": []})", R"({"threads": [4, 1, 2]})", R"({"threads": [4, 1, 2], "exact": true})", "{}"})
    EXPECT_EQ(plan_in_file(options), plan_on_cores({})) << options;
}

TEST(Threads, OfAPlanFileAreChecked) {
  for (const char* const options :
       {R"({"threads": [1]})", R"({"threads": [5, 1, 2]})", R"({"threads": [0, 1, 2]})", R"({"threads": [-1, 1, 2]})", R"({"threads": 1})",
        R"({"threads": ["1", 1, 1]})", R"({"threads": [1.5, 1, 1]})", R"({"threads": [99999999999, 1, 1]})",
        R"({"threads": [1, 1, 1], "exact": true})", R"({"threads": [4, 1, 2], "exact": false})"})
    EXPECT_THROW((void)plan_in_file(options), Error) << options;
}

}  // namespace
}  // namespace mptune::planner

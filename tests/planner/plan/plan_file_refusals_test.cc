// Damaged, foreign and hostile plan files: an Error that names the place, never anything else.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <vector>

#include "planner/plan/file/plan_file.h"
#include "profiler/base/error.h"
#include "tests/planner/plan/plan_file_example.h"

namespace mptune::planner {
namespace {

using Json = nlohmann::ordered_json;
using ::testing::HasSubstr;

std::string refusal(const std::string& text) {
  try {
    (void)parse_plan_file(text, "my.plan.json");
  } catch (const Error& error) {
    EXPECT_THAT(error.where(), HasSubstr("my.plan.json"));
    EXPECT_FALSE(error.remedy().empty());
    EXPECT_EQ(error.code(), ExitCode::usage);
    EXPECT_EQ(error.problem().find('\n'), std::string::npos);
    return error.problem();
  }
  return "";
}

template <typename Damage>
std::string damaged(Damage damage) {
  Json json = Json::parse(to_json(example()));
  damage(json, json["plan"]);
  return refusal(json.dump());
}

TEST(PlanFile, ChecksThatRedundantFieldsAgree) {
  EXPECT_THAT(damaged([](Json&, Json& p) { p["num_stages"] = 4; }), HasSubstr("plan.num_stages disagrees"));
  EXPECT_THAT(damaged([](Json&, Json& p) { p["data_parallel_size"] = 2; }), HasSubstr("data_parallel_size disagrees"));
  EXPECT_THAT(damaged([](Json&, Json& p) { p["num_microbatches"] = 4; }), HasSubstr("num_microbatches disagrees"));
  EXPECT_THAT(damaged([](Json&, Json& p) { p["micro_batch_size"] = 6; }), HasSubstr("disagrees"));
  EXPECT_THAT(damaged([](Json&, Json& p) { p["global_batch_size"] = 16; }), HasSubstr("disagrees"));
  EXPECT_THAT(damaged([](Json&, Json& p) { p["microbatch_sizes"] = {5, 5, 3}; }), HasSubstr("does not add up"));
  EXPECT_THAT(damaged([](Json&, Json& p) { p["microbatch_sizes"] = {4, 4, 4}; }), HasSubstr("disagrees"));
  EXPECT_THAT(damaged([](Json&, Json& p) { p["microbatch_sizes"] = {5, 7}; }), HasSubstr("disagrees"));
  EXPECT_THAT(damaged([](Json&, Json& p) { p["stages"][0]["first_module"] = "fc"; }), HasSubstr("plan.stages[0].first_module disagrees"));
  EXPECT_THAT(damaged([](Json&, Json& p) { p["stages"][1]["index"] = 2; }), HasSubstr("plan.stages[1].index"));
  EXPECT_THAT(damaged([](Json&, Json& p) { p["stages"][1]["devices"] = {"cpu:9", "sleep:2"}; }), HasSubstr("cpu:9"));
}

TEST(PlanFile, RefusesInvalidPlans) {
  EXPECT_THAT(damaged([](Json&, Json& p) { p["stages"][1]["layers"] = {1, 4}; }), HasSubstr("overlaps"));
  EXPECT_THAT(damaged([](Json&, Json& p) { p["stages"][1]["layers"] = {2}; }), HasSubstr("layers"));
  EXPECT_THAT(damaged([](Json&, Json& p) { p["schedule"]["actions"][0] = "0F0 0B0"; }), HasSubstr("too few"));
  EXPECT_THAT(damaged([](Json&, Json& p) { p["schedule"]["actions"][0] = "0F0 oops"; }), HasSubstr("'oops' is not an action"));
  EXPECT_THAT(damaged([](Json&, Json& p) { p["schedule"]["actions"].erase(0); }), HasSubstr("rows"));
  EXPECT_THAT(damaged([](Json&, Json& p) { p["stages"][0]["recompute"] = "some"; }), HasSubstr("recompute"));
  EXPECT_THAT(damaged([](Json&, Json& p) { p["stages"][1]["recompute"]["layers"] = {9}; }), HasSubstr("does not hold"));
  EXPECT_THAT(damaged([](Json& j, Json&) { j["alternatives"][0]["plan"]["num_stages"] = 9; }), HasSubstr("num_stages"));
}

TEST(PlanFile, RefusesNamesThatATerminalWouldObeyOrThatHaveNoEnd) {
  for (const char* place : {"/plan/stages/0/modules/1", "/plan/devices/0", "/plan/schedule/name", "/created", "/study",
                            "/fingerprint/model", "/fingerprint/devices/0", "/alternatives/0/reason", "/measured/speedup/over"}) {
    for (const std::string& name :
         {std::string("a\x1b[2J"), std::string("a\nb"), std::string("a\0b", 3), std::string("a\u0085b"), std::string(1001, 'x')}) {
      const std::string what = damaged([&](Json& j, Json&) { j[Json::json_pointer(place)] = name; });
      EXPECT_THAT(what, ::testing::AnyOf(HasSubstr("control character"), HasSubstr("longer than 1000 bytes"))) << place;
      EXPECT_LT(what.size(), 200u);
    }
  }
  EXPECT_THAT(damaged([](Json&, Json& p) { p["stages"][0]["modules"] = "conv1"; }), HasSubstr("plan.stages[0].modules"));
  EXPECT_THAT(damaged([](Json&, Json& p) { p["stages"][0]["modules"] = {"conv1", 3}; }), HasSubstr("plan.stages[0].modules[1]"));
}

TEST(PlanFile, RefusesNumbersThatCanNotBe) {
  for (const char* place : {"/predicted/step_s", "/predicted/lower_bound_s", "/measured/step_s"})
    for (const double value : {-1.0, 1e8, 1e300})
      EXPECT_THAT(damaged([&](Json& j, Json&) { j[Json::json_pointer(place)] = value; }), HasSubstr("is not a time of 0 to 1e7 s"))
          << place;
  EXPECT_THAT(damaged([](Json& j, Json&) { j["measured"]["step_samples"] = -1; }), HasSubstr("step_samples"));
  EXPECT_THAT(damaged([](Json& j, Json&) { j["measured"]["step_ci95_s"] = {-1, 1}; }), HasSubstr("[low, high]"));
  EXPECT_THAT(damaged([](Json& j, Json&) { j["predicted"]["peak_bytes"] = std::vector<int>(100, 1); }), HasSubstr("more entries"));
  EXPECT_THAT(damaged([](Json& j, Json&) { j["trial"] = -2; }), HasSubstr("trial"));
}

TEST(PlanFile, RefusesOtherVersionsAndOtherFiles) {
  EXPECT_THAT(damaged([](Json& j, Json&) { j["schema"] = "mptune.plan/2"; }), HasSubstr("another version"));
  EXPECT_THAT(damaged([](Json& j, Json&) { j["schema"] = "mptune.plan/10"; }), HasSubstr("another version"));
  EXPECT_THAT(damaged([](Json& j, Json&) { j["schema"] = "mptune.tune/1"; }), HasSubstr("not a plan file"));
  EXPECT_THAT(damaged([](Json& j, Json&) { j["schema"] = 1; }), HasSubstr("schema"));
  EXPECT_THAT(damaged([](Json& j, Json&) { j.erase("schema"); }), HasSubstr("schema is missing"));
  EXPECT_THAT(damaged([](Json& j, Json&) { j.erase("plan"); }), HasSubstr("plan is missing"));
  EXPECT_THAT(refusal("[]"), HasSubstr("not a JSON object"));
  EXPECT_THAT(refusal("null"), HasSubstr("not a JSON object"));
  EXPECT_THAT(refusal(""), HasSubstr("not JSON"));
}

TEST(PlanFile, RefusesTruncatedFiles) {
  const std::string text = to_json(example());
  for (std::size_t length = 0; length + 2 < text.size(); length += 7) ASSERT_NE(refusal(text.substr(0, length)), "") << length;
}

TEST(PlanFile, RefusesWrongTypesEverywhere) {
  // Every value of the file is replaced by values of other types: an Error or a valid file, never anything else.
  const Json whole = Json::parse(to_json(example()));
  const Json original = whole.flatten();
  const std::vector<Json> others = {
      nullptr, true, -1, 1e300, 18446744073709551615ull, "text", Json::array(), Json::object(), Json::array({1, "x"})};
  int refused = 0;
  for (const auto& [pointer, value] : original.items()) {
    for (const Json& other : others) {
      Json json = whole;
      json[Json::json_pointer(pointer)] = other;
      refused += refusal(json.dump()).empty() ? 0 : 1;
    }
  }
  EXPECT_GT(refused, static_cast<int>(original.size()) * 4);
}

TEST(PlanFile, SurvivesRandomDamage) {
  std::mt19937 random(10);
  const std::string text = to_json(example());
  for (int round = 0; round < 800; ++round) {
    std::string changed = text;
    for (int k = 0; k < 3; ++k) {
      changed[std::uniform_int_distribution<std::size_t>(0, text.size() - 1)(random)] =
          static_cast<char>(std::uniform_int_distribution<int>(0, 255)(random));
    }
    (void)refusal(changed);
  }
}

TEST(PlanFile, LimitsWhatAFileMayAskFor) {
  EXPECT_THAT(refusal(std::string(1 << 20, '[')), HasSubstr("too deep"));
  std::string long_list = "[0";
  for (int i = 0; i < 5'000'000; ++i) long_list += ",0";
  EXPECT_THAT(refusal(long_list + "]"), HasSubstr("too long"));
  const auto huge = [](Json&, Json& p) {
    p["global_batch_size"] = 1'000'000'000;
    p["micro_batch_size"] = 1;
    p["num_microbatches"] = 1'000'000'000;
  };
  EXPECT_THAT(damaged(huge), HasSubstr("num_microbatches"));
  EXPECT_NE(damaged([](Json&, Json& p) { p["stages"][0]["layers"] = {0, 2147483647}; }), "");
  EXPECT_NE(damaged([](Json&, Json& p) { p["global_batch_size"] = 1e30; }), "");
}

}  // namespace
}  // namespace mptune::planner

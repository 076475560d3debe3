#include "reports/render/unmeasured.h"

#include <gmock/gmock.h>

#include "reports/render/json.h"
#include "reports/render/markdown.h"
#include "reports/render/recommendation_text.h"
#include "reports/render/report_text.h"
#include "tests/reports/golden.h"
#include "tests/reports/samples.h"

namespace mptune::reports {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

tuner::UnmeasuredPlan unmeasured(const std::string& name, const Plan& plan, tuner::WhyNot why, double predicted_step_s) {
  return {.name = name,
          .plan_key = name,
          .plan = plan,
          .description = describe(plan),
          .predicted_step_s = predicted_step_s,
          .alone_s = {},
          .why = std::move(why)};
}

// A baseline of each sort, and seven failed candidates.
StudyReport study_with_failures() {
  StudyReport report = testing::sample_study();
  tuner::Recommendation& all = report.recommendation;
  const Plan plan = all.recommended.trial.plan;
  all.baselines.erase(all.baselines.begin());
  all.unmeasured.baselines = {unmeasured("single_device", plan, tuner::TrialFailed{tuner::Crashed{11, 0}}, 0.52),
                              unmeasured("default_pipeline", plan, tuner::FailedInFinal{tuner::NonFinite{}}, 0.4),
                              unmeasured("all_cores", plan, tuner::NotTried{}, 0.36), unmeasured("current", plan, tuner::NotInFinal{}, 0)};
  all.unmeasured.baselines[1].alone_s = 0.41;
  all.unmeasured.baselines[2].plan.reset();
  all.unmeasured.baselines[3].alone_s = 0.9;
  for (int i = 0; i < 6; ++i)
    all.unmeasured.candidates.push_back(unmeasured("candidate", plan, tuner::TrialFailed{tuner::TimedOut{30}}, 0.01 * (i + 20)));
  all.unmeasured.candidates.push_back(
      unmeasured("candidate", plan, tuner::TrialFailed{tuner::OutOfMemory{"cpu:1", 3 << 20, 2 << 20}}, 0.25));
  all.warnings = {tuner::BaselinesFailed{{"single_device"}, tuner::Crashed{11, 0}},
                  tuner::FasterPlansFailed{.plans = 6, .time_ratio = 0.7, .cause = tuner::TimedOut{30}}};
  return report;
}

TEST(Unmeasured, AStudyTellsBaselinesAndPlansThatFailed) {
  for (const int width : {80, 120}) {
    const TextStyle style{.width = width, .unicode = false, .color = false};
    const std::string text = render_study_report(study_with_failures(), style);
    testing::expect_width(text, width);
    EXPECT_THAT(text, HasSubstr("How they fail"));
    EXPECT_THAT(text, HasSubstr("\nsingle_device         crashed by signal 11; predicted 520 ms\n"));
    EXPECT_THAT(text, HasSubstr("\nall_cores             not tried: no time in the budget; predicted 360 ms\n"));
    EXPECT_THAT(text, HasSubstr("\n7 plans failed ---"));
    EXPECT_THAT(text, HasSubstr("\ntimed out: a step took more than 30.0 s: 6 plans\n"
                                "  pipeline of 2 stages, 1f1b, 4 micro-batches of 4; cuts 7; predicted 200 ms\n"));
    EXPECT_THAT(text,
                HasSubstr("; predicted 220 ms\n  and 3 more: -v lists all\nout of memory on cpu:1: 3.00 MiB asked with a cap of 2.00 MiB: "
                          "1 plan\n"));
  }
  const std::string text = render_study_report(study_with_failures(), {.width = 120, .unicode = false, .color = false});
  EXPECT_THAT(text, HasSubstr("\ndefault_pipeline      failed in the final comparison: the loss is not finite; 410 ms in its own trial\n"));
  EXPECT_THAT(text,
              HasSubstr("current               tried, but not in the final comparison: no time in the budget; 900 ms in its own trial\n"));
  EXPECT_THAT(text, HasSubstr("warning: the recommendation is not compared with single_device, which failed: crashed by signal 11"));
}

TEST(Unmeasured, AllPlansAreListedWhenAsked) {
  const std::vector<tuner::UnmeasuredPlan> plans = study_with_failures().recommendation.unmeasured.candidates;
  const TextStyle style{.width = 80, .unicode = false, .color = false};
  EXPECT_THAT(render_failed(plans, Listing::all, style), HasSubstr("predicted 250 ms"));
  EXPECT_THAT(render_failed(plans, Listing::all, style), Not(HasSubstr("-v lists all")));
  const std::vector<FailedLines> four = failed_lines({plans.begin(), plans.begin() + 4}, Listing::few);
  ASSERT_EQ(four.size(), 1U);
  EXPECT_EQ(four[0].plans.size(), 4U) << "a line that counts one plan is no shorter than that plan";
  EXPECT_EQ(render_failed({}, Listing::few, style), "");
}

TEST(Unmeasured, MarkdownTellsThem) {
  const std::string text = render_study_markdown(study_with_failures());
  EXPECT_THAT(text, HasSubstr("| single\\_device | - | - | crashed by signal 11; predicted 520 ms | - |\n"));
  EXPECT_THAT(text, HasSubstr("\n## 7 plans failed\n\ntimed out: a step took more than 30.0 s: 6 plans\n\n- pipeline of 2 stages"));
  EXPECT_THAT(text, HasSubstr("- and 3 more: -v lists all\n\nout of memory on cpu:1"));
  EXPECT_THAT(render_study_markdown(study_with_failures(), Listing::all), Not(HasSubstr("more: -v")));
  EXPECT_THAT(render_study_markdown(testing::sample_study()), Not(HasSubstr("failed")));
}

TEST(Unmeasured, JsonHasAllOfThem) {
  const planner::Json json = study_json(study_with_failures(), {});
  std::vector<std::string> names;
  for (const planner::Json& baseline : json["baselines"]) names.push_back(baseline["name"]);
  EXPECT_THAT(names, ElementsAre("naive_model_parallel", "data_parallel"));
  const planner::Json& missing = json["baselines_not_measured"];
  ASSERT_EQ(missing.size(), 4U);
  EXPECT_EQ(missing[0]["outcome"], "crashed");
  EXPECT_EQ(missing[0]["why_not"], "crashed by signal 11");
  EXPECT_EQ(missing[0]["failed_in_final"], false);
  EXPECT_EQ(missing[1]["failed_in_final"], true);
  EXPECT_EQ(missing[1]["own_trial_step_s"], 0.41);
  EXPECT_TRUE(missing[2]["outcome"].is_null());
  EXPECT_TRUE(missing[2]["plan"].is_null());
  EXPECT_EQ(json["failed_plans"].size(), 7U);
  EXPECT_EQ(json["failed_plans"][6]["plan"]["num_stages"], 2);
}

TEST(Unmeasured, EachFailureHasItsRemedy) {
  const auto remedy = [](const tuner::Outcome& cause) {
    const std::string text = text_of(tuner::Warning(tuner::FinalistsFailed{{"a plan", "another"}, cause}));
    return text.substr(text.find("; ", text.find("measured:")) + 2);
  };
  EXPECT_EQ(remedy(tuner::OutOfMemory{}), "raise --memory or lower --batch");
  EXPECT_EQ(remedy(tuner::TimedOut{1}), "train with it (run) to see where it hangs");
  EXPECT_EQ(remedy(tuner::Crashed{0, 1}), "train with it (run) to see what fails");
  EXPECT_EQ(remedy(tuner::WrongResult{"loss"}), "check it (check) to see where it differs");
  EXPECT_EQ(remedy(tuner::NonFinite{}), "lower --lr or check the data");
  EXPECT_EQ(remedy(tuner::Infeasible{"why"}), "train with it (run) to see what fails");
  EXPECT_EQ(remedy(tuner::Environment{}), "see `mptune doctor`");
  EXPECT_THAT(text_of(tuner::Warning(tuner::FinalistsFailed{{"a plan", "another"}, tuner::NonFinite{}})),
              ::testing::StartsWith("a plan; another failed in the final comparison though their own trials were measured: the loss"));
  EXPECT_THAT(text_of(tuner::Warning(tuner::FasterPlansFailed{.plans = 3, .time_ratio = 0.8, .cause = tuner::NonFinite{}})),
              ::testing::StartsWith("3 plans predicted to be up to 20.0 % faster than the recommended one failed: the loss is not finite"));
}

TEST(Unmeasured, NothingUnmeasuredIsCalledSlower) {
  const Plan one = testing::sample_kinds(testing::sample_study().recommendation.recommended.trial.plan).rows[0].trial->plan;
  tuner::FastestHere fastest{.name = "single_device", .plan = one, .any_pipeline = true};
  EXPECT_EQ(text_of(tuner::PlanAdvice(fastest)), "no split beats the un-pipelined model here: single_device is fastest");
  fastest.all_measured = false;
  EXPECT_EQ(text_of(tuner::PlanAdvice(fastest)),
            "no split that was measured beats the un-pipelined model: single_device is fastest of those plans");
  fastest.shortest = false;
  EXPECT_EQ(text_of(tuner::PlanAdvice(fastest)),
            "no split that was measured beats the un-pipelined model: single_device is among the fastest of those plans");
  fastest.any_pipeline = false;
  EXPECT_EQ(text_of(tuner::PlanAdvice(fastest)), "single_device is among the fastest plans that were measured; no pipeline was measured");
}

}  // namespace
}  // namespace mptune::reports

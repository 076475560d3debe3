#include "tuner/study/recommend/recommend.h"

#include <gtest/gtest.h>

#include <random>

#include "planner/plan/file/plan_file.h"
#include "planner/plan/plan_words.h"
#include "reports/render/recommendation_text.h"
#include "tests/support/tuner_fakes.h"

namespace mptune::tuner {
namespace {

struct Contender {
  std::string name;
  Plan plan;
  double step_s = 1;
  std::int64_t peak_bytes = 100;
  double predicted_s = 0;
};

// One interleaved series with noise, and drift that all share.
std::vector<Trial> interleaved_trials(const std::vector<Contender>& contenders, int rounds, double noise, std::uint64_t seed = 1) {
  std::mt19937_64 engine(seed);
  std::normal_distribution<double> gaussian;
  std::vector<Trial> trials;
  for (const Contender& contender : contenders) {
    Trial trial;
    trial.name = contender.name;
    trial.plan = contender.plan;
    trial.plan_key = plan_key(contender.plan);
    Prediction prediction;
    prediction.step_s = contender.predicted_s > 0 ? contender.predicted_s : contender.step_s;
    trial.prediction = prediction;
    Measured measured;
    measured.peak_bytes = {contender.peak_bytes, contender.peak_bytes / 2};
    for (int r = 0; r < rounds; ++r)
      measured.step_s.values.push_back({contender.step_s * std::exp(noise * gaussian(engine) + 0.01 * r), r, 0, 0.0});
    trial.outcome = measured;
    trials.push_back(trial);
  }
  return trials;
}

const Contender kSingle{"single_device", testing::fake_plan(0, 1), 2.0, 200, 0};
const Contender kNaive{"naive_model_parallel", testing::fake_plan(4, 1), 2.1, 150, 0};
const Contender kPipeline{"candidate", testing::fake_plan(4, 8), 1.08, 55, 0};
const Contender kReplicas{"data_parallel", testing::fake_data_parallel_plan(), 1.0, 100, 0};

template <class Fact>
bool any_contains(const std::vector<Fact>& facts, const std::string& part) {
  return std::ranges::any_of(reports::texts_of(facts), [&](const std::string& text) { return text.find(part) != std::string::npos; });
}

TEST(Recommend, NothingMeasuredIsNoRecommendation) {
  EXPECT_FALSE(recommend({}, 0));
  Trial failed;
  failed.outcome = NonFinite{};
  EXPECT_FALSE(recommend({failed}, 0));
}

TEST(Recommend, FastestWhateverItsKindAndThePipelineBesideIt) {
  const auto result = recommend(interleaved_trials({kSingle, kNaive, kReplicas, kPipeline}, 20, 0.003), 200);
  ASSERT_TRUE(result);
  EXPECT_EQ(result->recommended.trial.name, "data_parallel");
  EXPECT_TRUE(result->decided);
  ASSERT_TRUE(result->best_pipeline);
  EXPECT_EQ(result->best_pipeline->trial.plan, kPipeline.plan);
  ASSERT_TRUE(result->best_half_memory);
  EXPECT_EQ(result->best_half_memory->trial.plan, kReplicas.plan);
  EXPECT_TRUE(any_contains(result->advice, "data parallel is fastest here; the best pipeline (")) << reports::text_of(result->advice.at(0));
  EXPECT_TRUE(any_contains(result->advice, "is 8 % slower and needs 45 % less memory per device"))
      << reports::text_of(result->advice.at(0));
  ASSERT_EQ(result->baselines.size(), 3u);
  EXPECT_EQ(result->baselines[1].name, "naive_model_parallel");
  EXPECT_NEAR(result->baselines[1].speedup.estimate, 2.1, 0.01);
  EXPECT_EQ(result->baselines[1].speedup.verdict, Verdict::fast);
  EXPECT_EQ(result->baselines[2].speedup.estimate, 1);
  EXPECT_EQ(result->recommended.verdict, Verdict::fast);
  ASSERT_TRUE(result->recommended.step_ci95_s);
  EXPECT_LE(result->recommended.step_ci95_s->low, result->recommended.step_s);
  EXPECT_GE(result->recommended.step_ci95_s->high, result->recommended.step_s);
  EXPECT_TRUE(result->warnings.empty()) << reports::text_of(result->warnings.at(0));
}

TEST(Recommend, UnPipelinedModelIsSaidToBeFastest) {
  Contender all = kSingle;
  all.name = "all_cores";
  all.step_s = 0.9;
  const auto result = recommend(interleaved_trials({kNaive, all, kPipeline}, 20, 0.003), 200);
  EXPECT_EQ(result->recommended.trial.name, "all_cores");
  EXPECT_TRUE(any_contains(result->advice, "no split beats the un-pipelined model"));
  EXPECT_TRUE(any_contains(result->advice, "20 % slower"));
  ASSERT_TRUE(result->best_half_memory);
  EXPECT_EQ(result->best_half_memory->trial.plan, kPipeline.plan);
}

TEST(Recommend, NoSplitIsJudgedThatWasNotMeasured) {
  Contender all = kSingle;
  all.name = "all_cores";
  all.step_s = 0.9;
  const auto result = recommend(interleaved_trials({kSingle, all}, 20, 0.003), 200);
  ASSERT_TRUE(result);
  EXPECT_FALSE(any_contains(result->advice, "no split beats"));
  EXPECT_TRUE(any_contains(result->advice, "all_cores is the fastest plan that was measured; no pipeline was measured"));
}

TEST(Recommend, TiesGoToLessMemoryThenFewerCopies) {
  Contender lean = kPipeline;
  lean.step_s = 1.003;
  lean.peak_bytes = 40;
  EXPECT_EQ(recommend(interleaved_trials({kReplicas, lean}, 30, 0.002), 0)->recommended.trial.plan, lean.plan);
  Contender equal = kPipeline;
  equal.step_s = 0.997;
  equal.peak_bytes = 100;
  const auto result = recommend(interleaved_trials({equal, kReplicas}, 30, 0.002), 0);
  EXPECT_EQ(result->recommended.trial.plan, kReplicas.plan);
  EXPECT_TRUE(any_contains(result->recommended.reasons, "fewer copies"));
  // Clearly slower: memory does not count.
  lean.step_s = 1.05;
  EXPECT_EQ(recommend(interleaved_trials({kReplicas, lean}, 30, 0.002), 0)->recommended.trial.plan, kReplicas.plan);
}

TEST(Recommend, EqualPlansAreNotCalledFaster) {
  int claimed = 0;
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    Contender candidate = kPipeline;
    Contender baseline = kReplicas;
    candidate.step_s = baseline.step_s = 1;
    const auto result = recommend(interleaved_trials({baseline, candidate}, 20, 0.01, seed), 0);
    if (result->recommended.verdict == Verdict::fast) ++claimed;
    if (result->recommended.verdict == Verdict::same) {
      EXPECT_TRUE(any_contains(result->advice, "nothing is measurably faster"));
    }
  }
  EXPECT_LE(claimed, 200 * 8 / 100);
}

TEST(Recommend, NoiseLeavesItUndecidedAndSaysSo) {
  Contender rival = kPipeline;
  rival.step_s = 1.01;
  const auto result = recommend(interleaved_trials({kReplicas, rival}, 8, 0.2), 0);
  EXPECT_FALSE(result->decided);
  EXPECT_TRUE(any_contains(result->warnings, "undecided"));
  EXPECT_TRUE(any_contains(result->warnings, "only 8 interleaved rounds"));
  rival.step_s = kReplicas.step_s;
  int undecided = 0;
  for (std::uint64_t seed = 0; seed < 40; ++seed)
    undecided += recommend(interleaved_trials({kReplicas, rival}, 3, 0.02, seed), 0)->decided ? 0 : 1;
  EXPECT_GE(undecided, 20);
  EXPECT_TRUE(recommend(interleaved_trials({kReplicas, kSingle}, 3, 0.02), 0)->decided);
  EXPECT_FALSE(recommend(interleaved_trials({kReplicas, kSingle}, 1, 0.02), 0)->decided) << "one pair has no interval";
  EXPECT_TRUE(recommend(interleaved_trials({kReplicas}, 1, 0.02), 0)->decided) << "nobody to tell it from";
}

TEST(Recommend, ADifferenceOfTwiceIsDecidedInFourRounds) {
  const auto result = recommend(interleaved_trials({kReplicas, kSingle, kNaive}, 4, 0.05), 0);
  EXPECT_TRUE(result->decided);
  EXPECT_EQ(result->recommended.verdict, Verdict::fast);
  EXPECT_FALSE(result->recommended.step_ci95_s) << "four rounds have no interval";
  for (const BaselineResult& baseline : result->baselines) {
    EXPECT_FALSE(baseline.step_ci95_s);
    EXPECT_FALSE(baseline.speedup.ci95);
    if (baseline.name == "data_parallel") continue;
    EXPECT_NEAR(baseline.speedup.error_rate.value(), 2.0 / 70, 1e-9) << baseline.name;
  }
  EXPECT_TRUE(result->warnings.empty()) << reports::text_of(result->warnings.at(0));
  const auto few = recommend(interleaved_trials({kReplicas, kSingle, kNaive}, 3, 0.05), 0);
  EXPECT_EQ(few->recommended.verdict, Verdict::unknown);
  EXPECT_TRUE(any_contains(few->warnings, "only 3 interleaved rounds"));
}

TEST(Recommend, LeadsWithWhatAUserHasWithoutIt) {
  Contender all_cores = kSingle, channels_last = kSingle;
  all_cores.name = "all_cores";
  all_cores.plan.devices = {"cpu:0-1"};
  all_cores.step_s = 1.5;
  channels_last = all_cores;
  channels_last.name = "all_cores_channels_last";
  channels_last.plan.options.memory_format = MemoryFormat::channels_last;
  channels_last.step_s = 1.3;
  const auto names = [](const Recommendation& recommendation) {
    std::vector<std::string> found;
    for (const BaselineResult* baseline : leading_baselines(recommendation)) found.push_back(baseline->name);
    return found;
  };
  using Names = std::vector<std::string>;
  const auto pipelined = recommend(interleaved_trials({kSingle, all_cores, channels_last, kNaive, kPipeline}, 12, 0.003), 0);
  EXPECT_EQ(names(*pipelined), (Names{"all_cores_channels_last", "single_device"}));
  const auto replicated = recommend(interleaved_trials({kSingle, all_cores, kReplicas, kNaive}, 12, 0.003), 0);
  EXPECT_EQ(names(*replicated), (Names{"all_cores", "single_device"})) << "not the plan itself";
  channels_last.step_s = 0.9;
  const auto plain = recommend(interleaved_trials({kSingle, all_cores, channels_last, kReplicas}, 12, 0.003), 0);
  EXPECT_EQ(names(*plain), (Names{"all_cores", "single_device", "data_parallel"}));
}

TEST(Recommend, SaysWhatDisturbedTheSeries) {
  std::vector<Trial> trials = interleaved_trials({kReplicas, kPipeline}, 20, 0.003);
  for (Trial& trial : trials)
    std::get<Measured>(trial.outcome).noise = {.left_out = 4, .kept = 0, .worst = Disturbance{DisturbedBy::other_programs, 0.3}};
  EXPECT_TRUE(
      any_contains(recommend(trials, 0)->warnings, "other programs took up to 30 % of the cores' time in 4 rounds, which were repeated"));
  for (Trial& trial : trials)
    std::get<Measured>(trial.outcome).noise = {.left_out = 0, .kept = 9, .worst = Disturbance{DisturbedBy::slow_clock, 0.2}};
  EXPECT_TRUE(any_contains(recommend(trials, 0)->warnings, "the clock fell by up to 20 % in 9 rounds, which had to count"));
}

TEST(Recommend, SaysThatStepsJump) {
  std::vector<Trial> trials = interleaved_trials({kReplicas, kPipeline}, 20, 0.002);
  for (Sample& sample : std::get<Measured>(trials[0].outcome).step_s.values)
    if (sample.round % 3 == 0) sample.value *= 2;
  EXPECT_TRUE(any_contains(recommend(trials, 0)->warnings, "come in two lengths"));
}

TEST(Recommend, OneWhoseRivalsAreWithinFivePercentIsAnAnswer) {
  Contender rival = kPipeline;
  rival.step_s = 1.01;
  const auto result = recommend(interleaved_trials({kReplicas, rival}, 30, 0.03), 0);
  EXPECT_TRUE(result->decided);
  EXPECT_TRUE(any_contains(result->advice, "as fast as")) << "within 5 % with 95 % confidence";
  rival.step_s = 1.2;
  EXPECT_FALSE(any_contains(recommend(interleaved_trials({kReplicas, rival}, 30, 0.03), 0)->advice, "as fast as"));
}

TEST(Recommend, WrongPredictionsAreWarnedOf) {
  Contender surprising = kReplicas;
  surprising.predicted_s = 0.8;
  const auto result = recommend(interleaved_trials({surprising, kPipeline}, 20, 0.002), 0);
  EXPECT_TRUE(any_contains(result->warnings, "off by -2")) << "predicted too little";
  EXPECT_TRUE(any_contains(result->recommended.reasons, "(off by -2")) << "the same in every sentence";
  EXPECT_DOUBLE_EQ(result->recommended.predicted_step_s, 0.8);
  surprising.predicted_s = 0.95;
  EXPECT_FALSE(any_contains(recommend(interleaved_trials({surprising, kPipeline}, 20, 0.002), 0)->warnings, "off by"));
}

std::vector<PlannedBaseline> planned(const std::vector<Contender>& contenders) {
  std::vector<PlannedBaseline> baselines;
  for (const Contender& contender : contenders)
    baselines.push_back({contender.name, plan_key(contender.plan), describe(contender.plan), contender.step_s});
  return baselines;
}

// Trials of their own, then the final series; the outcomes in `final_series` stand for those of its plans.
std::optional<Recommendation> recommend_after(const std::vector<Trial>& own, const std::vector<Trial>& final_series,
                                              const std::vector<PlannedBaseline>& baselines) {
  std::vector<Trial> all = own;
  all.insert(all.end(), final_series.begin(), final_series.end());
  return recommend(final_series, 0, {}, unmeasured_plans(final_series, all, baselines));
}

TEST(Recommend, BaselinesThatFailedAreTold) {
  auto own = interleaved_trials({kSingle, kNaive, kReplicas, kPipeline}, 3, 0.002);
  own[0].outcome = Crashed{11, 0};
  own[1].outcome = Crashed{11, 0};
  const auto finals = interleaved_trials({kReplicas, kPipeline}, 20, 0.002);
  const auto result = recommend_after(own, finals, planned({kSingle, kNaive, kReplicas}));
  EXPECT_EQ(result->recommended.trial.plan, kReplicas.plan);
  EXPECT_EQ(result->baselines.size(), 1u);
  ASSERT_EQ(result->unmeasured.baselines.size(), 2u);
  EXPECT_EQ(result->unmeasured.baselines[0].name, "single_device");
  EXPECT_EQ(reports::text_of(result->unmeasured.baselines[0].why), "crashed by signal 11");
  EXPECT_EQ(result->unmeasured.baselines[0].predicted_step_s, 2.0);
  ASSERT_EQ(result->warnings.size(), 1u) << "one for both: they failed alike";
  EXPECT_EQ(reports::text_of(result->warnings[0]),
            "the recommendation is not compared with single_device, naive_model_parallel, which failed: crashed by signal 11; "
            "train with it (run) to see what fails");
  EXPECT_TRUE(any_contains(result->advice, "data parallel is the fastest plan that was measured"));
  EXPECT_FALSE(any_contains(result->advice, "fastest here"));
}

TEST(Recommend, TheBestBaselineIsSaidToBeTheBestMeasuredOne) {
  auto own = interleaved_trials({kSingle}, 3, 0.002);
  own[0].outcome = NonFinite{};
  Contender equal = kPipeline;
  equal.step_s = kReplicas.step_s;
  const auto finals = interleaved_trials({kReplicas, equal}, 20, 0.002);
  const auto result = recommend_after(own, finals, planned({kSingle, kReplicas}));
  EXPECT_TRUE(any_contains(result->advice, "nothing is measurably faster than the best baseline that was measured"));
  EXPECT_TRUE(any_contains(result->warnings, "the loss is not finite; lower --lr or check the data"));
  EXPECT_FALSE(any_contains(recommend_after({}, finals, planned({kReplicas}))->advice, "that was measured"));
}

TEST(Recommend, BaselinesWithoutATrialAreTold) {
  const auto finals = interleaved_trials({kReplicas, kPipeline}, 20, 0.002);
  const auto result = recommend_after({}, finals, planned({kSingle, kReplicas}));
  ASSERT_EQ(result->unmeasured.baselines.size(), 1u);
  EXPECT_EQ(reports::text_of(result->unmeasured.baselines[0].why), "not tried: no time in the budget");
  EXPECT_EQ(result->unmeasured.baselines[0].description, "one device");
  EXPECT_TRUE(any_contains(result->warnings, "not compared with single_device: not tried, no time in the budget; give a larger --budget"));
}

TEST(Recommend, FinalistsThatFailedOnlyInTheFinalAreTold) {
  const auto own = interleaved_trials({kSingle, kReplicas, kPipeline}, 3, 0);
  auto finals = interleaved_trials({kSingle, kReplicas, kPipeline}, 20, 0.002);
  finals[0].outcome = OutOfMemory{"cpu:0", 2, 1};
  finals[2].outcome = TimedOut{30};
  const auto result = recommend_after(own, finals, planned({kSingle, kReplicas}));
  EXPECT_EQ(result->recommended.trial.plan, kReplicas.plan);
  ASSERT_EQ(result->unmeasured.baselines.size(), 1u);
  EXPECT_NEAR(result->unmeasured.baselines[0].alone_s.value_or(0), 2.0, 0.1);
  EXPECT_TRUE(
      any_contains(result->warnings, "single_device failed in the final comparison though its own trial was measured: out of memory"));
  EXPECT_TRUE(any_contains(result->warnings, describe(kPipeline.plan) +
                                                 " failed in the final comparison though its own trial was measured: "
                                                 "timed out: a step took more than 30.0 s"));
  ASSERT_EQ(result->unmeasured.candidates.size(), 1u);
  EXPECT_TRUE(any_contains(result->advice, "is the fastest plan that was measured"));
}

TEST(Recommend, FailedCandidatesAreAWarningIfTheyWerePredictedFaster) {
  Contender faster = kPipeline, slower = kPipeline;
  faster.predicted_s = 0.75;
  slower.plan = testing::fake_plan(5, 8);
  slower.predicted_s = 1.5;
  auto own = interleaved_trials({faster, slower}, 3, 0.002);
  own[0].outcome = own[1].outcome = WrongResult{"first loss 1 instead of 2"};
  const auto finals = interleaved_trials({kReplicas, kSingle}, 20, 0.002);
  const auto result = recommend_after(own, finals, planned({kReplicas, kSingle}));
  EXPECT_EQ(result->unmeasured.candidates.size(), 2u);
  EXPECT_TRUE(result->unmeasured.baselines.empty());
  ASSERT_EQ(result->warnings.size(), 1u);
  EXPECT_EQ(reports::text_of(result->warnings[0]),
            "1 plan predicted to be 25.0 % faster than the recommended one failed: wrong result: first loss 1 instead of 2; "
            "check it (check) to see where it differs");
  own[0].outcome = Measured{.step_s = samples_of({2.0}), .peak_bytes = {1, 1}};
  EXPECT_TRUE(recommend_after(own, finals, planned({kReplicas, kSingle}))->warnings.empty()) << "a slow plan that failed changes nothing";
}

TEST(Recommend, APlanThatFailedAndWasMeasuredLaterIsNoFailure) {
  auto own = interleaved_trials({kReplicas, kPipeline}, 3, 0.002);
  own[1].outcome = Crashed{11, 0};
  const auto finals = interleaved_trials({kReplicas, kPipeline}, 20, 0.002);
  EXPECT_TRUE(recommend_after(own, finals, planned({kReplicas}))->unmeasured.candidates.empty());
  own[1].outcome = Interrupted{};
  EXPECT_TRUE(recommend_after(own, {finals[0]}, planned({kReplicas}))->unmeasured.candidates.empty())
      << "an interrupted trial says nothing";
}

TEST(Recommend, CausesAreToldOnceWithWhatTheirPlansHaveInCommon) {
  std::vector<UnmeasuredPlan> plans(7);
  const std::vector<Outcome> outcomes = {OutOfMemory{"cpu:1", 5 << 20, 4 << 20},
                                         Crashed{11, 0},
                                         OutOfMemory{"cpu:1", 6 << 20, 4 << 20},
                                         OutOfMemory{"cpu:0", 5 << 20, 4 << 20},
                                         TimedOut{40},
                                         TimedOut{30},
                                         Infeasible{"no such kernel"}};
  for (std::size_t i = 0; i < plans.size(); ++i) plans[i].why = TrialFailed{outcomes[i]};
  plans.push_back({.name = {}, .plan_key = {}, .plan = {}, .description = {}, .alone_s = {}, .why = NotTried{}});
  const std::vector<FailedAlike> groups = by_cause(plans);
  std::vector<std::string> causes;
  for (const FailedAlike& alike : groups) causes.push_back(outcome_text(alike.cause) + " x" + std::to_string(alike.plans.size()));
  EXPECT_EQ(causes, (std::vector<std::string>{"out of memory on cpu:1 x2", "crashed by signal 11 x1",
                                              "out of memory on cpu:0: 5.00 MiB asked with a cap of 4.00 MiB x1",
                                              "timed out: a step took more than 30.0 s x2", "infeasible: no such kernel x1"}));
}

TEST(Recommend, FailedPlansAreLeftOut) {
  auto trials = interleaved_trials({kReplicas, kPipeline, kSingle}, 20, 0.002);
  trials[0].outcome = OutOfMemory{"cpu:0", 2, 1};
  const auto result = recommend(trials, 0);
  EXPECT_EQ(result->recommended.trial.plan, kPipeline.plan);
  EXPECT_EQ(result->baselines.size(), 1u);
}

}  // namespace
}  // namespace mptune::tuner

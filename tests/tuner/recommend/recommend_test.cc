#include "tuner/recommend.h"

#include <gtest/gtest.h>

#include <random>

#include "planner/plan_file.h"
#include "reports/render/recommendation_text.h"
#include "tests/support/tuner_fakes.h"

namespace mptune::tuner {
namespace {

Plan data_parallel_plan() {
  PlanOptions options;
  options.devices = {"cpu:0", "cpu:1"};
  options.batch = 16;
  options.layers = 8;
  options.stages = 1;
  options.replicas = {2};
  options.microbatches = 2;
  options.schedule = "gpipe";
  return make_plan(options);
}

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
const Contender kReplicas{"data_parallel", data_parallel_plan(), 1.0, 100, 0};

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
  EXPECT_LE(result->recommended.step_ci95_s.low, result->recommended.step_s);
  EXPECT_GE(result->recommended.step_ci95_s.high, result->recommended.step_s);
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

TEST(Recommend, WrongPredictionsAreWarnedOf) {
  Contender surprising = kReplicas;
  surprising.predicted_s = 0.8;
  const auto result = recommend(interleaved_trials({surprising, kPipeline}, 20, 0.002), 0);
  EXPECT_TRUE(any_contains(result->warnings, "off by 2"));
  EXPECT_DOUBLE_EQ(result->recommended.predicted_step_s, 0.8);
  surprising.predicted_s = 0.95;
  EXPECT_FALSE(any_contains(recommend(interleaved_trials({surprising, kPipeline}, 20, 0.002), 0)->warnings, "off by"));
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

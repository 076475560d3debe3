#include "tuner/study/recommend/recommended_plan_file.h"

#include <gtest/gtest.h>

#include "planner/plan/file/plan_file.h"
#include "profiler/base/sha256.h"
#include "tests/support/tuner_fakes.h"
#include "tuner/study/recommend/identity.h"

namespace mptune::tuner {
namespace {

RecommendedPlan measured_plan(const Plan& plan, int id, double step_s, std::int64_t peak_bytes) {
  RecommendedPlan recommended;
  recommended.trial.id = id;
  recommended.trial.plan = plan;
  recommended.trial.plan_key = plan_key(plan);
  Measured measured;
  measured.step_s.values.resize(7);
  recommended.trial.outcome = measured;
  recommended.step_s = step_s;
  recommended.peak_bytes = {peak_bytes};
  return recommended;
}

PlanFile file_of(const Recommendation& recommendation) {
  Fingerprint fingerprint;
  fingerprint.libtorch = "2.0";
  const auto compared = [](const RecommendedPlan& best, const RecommendedPlan& other) {
    return std::to_string(best.trial.id) + " before " + std::to_string(other.trial.id);
  };
  return recommended_plan_file(recommendation, {}, fingerprint, "{}", "2026-11-21T12:00:00Z", compared);
}

TEST(RecommendedPlanFile, HoldsWhatWasMeasuredAndTheStudy) {
  Recommendation recommendation;
  recommendation.recommended = measured_plan(testing::fake_plan(4, 8), 3, 1.5, 100);
  recommendation.recommended.trial.prediction = Prediction{};
  recommendation.recommended.trial.prediction->step_s = 1.4;
  const PlanFile file = file_of(recommendation);
  EXPECT_EQ(file.plan, testing::fake_plan(4, 8));
  EXPECT_EQ(file.trial, 3);
  EXPECT_EQ(file.study, sha256("{}"));
  EXPECT_EQ(file.created, "2026-11-21T12:00:00Z");
  EXPECT_EQ(file.fingerprint.libtorch, "2.0");
  EXPECT_EQ(file.predicted->step_s, 1.4);
  EXPECT_EQ(file.measured->step_s, 1.5);
  EXPECT_EQ(file.measured->step_samples, 7);
  EXPECT_EQ(file.measured->peak_bytes, std::vector<std::int64_t>{100});
  EXPECT_EQ(file.measured->speedup_over, "") << "no baseline was measured";
  EXPECT_TRUE(file.alternatives.empty());
}

TEST(RecommendedPlanFile, SpeedupIsOverTheBestUnpipelinedRun) {
  Recommendation recommendation;
  recommendation.recommended = measured_plan(testing::fake_plan(4, 8), 3, 1.5, 100);
  const auto add = [&](const std::string& name, const Plan& plan, double step_s) {
    BaselineResult& baseline = recommendation.baselines.emplace_back();
    baseline.name = name;
    baseline.trial.plan = plan;
    baseline.trial.plan_key = plan_key(plan);
    baseline.step_s = step_s;
  };
  add("naive_model_parallel", testing::fake_plan(4, 1), 1.8);
  add("single_device", testing::fake_plan(0, 1), 2);
  EXPECT_EQ(file_of(recommendation).measured->speedup_over, "") << "not measured in the same rounds";
  recommendation.baselines[0].speedup.pairs = 10;
  EXPECT_EQ(file_of(recommendation).measured->speedup_over, "naive_model_parallel");
  recommendation.baselines[1].speedup.pairs = 10;
  EXPECT_EQ(file_of(recommendation).measured->speedup_over, "single_device");
}

TEST(RecommendedPlanFile, AlternativesAreOtherPlansAndEachOnce) {
  Recommendation recommendation;
  recommendation.recommended = measured_plan(testing::fake_plan(0, 1), 1, 1.0, 100);
  recommendation.best_pipeline = recommendation.recommended;
  EXPECT_TRUE(file_of(recommendation).alternatives.empty());
  recommendation.best_pipeline = recommendation.best_half_memory = measured_plan(testing::fake_plan(4, 8), 2, 1.1, 50);
  const PlanFile file = file_of(recommendation);
  ASSERT_EQ(file.alternatives.size(), 1u);
  EXPECT_EQ(file.alternatives[0].reason, "1 before 2");
  EXPECT_EQ(file.alternatives[0].plan, testing::fake_plan(4, 8));
}

TEST(StudyIdentity, ChangesWithWhatIsTrainedAndOnWhat) {
  TrainingSetup setup;
  setup.model = "toy";
  const Fingerprint fingerprint;
  const std::string identity = study_identity(setup, "", fingerprint);
  EXPECT_EQ(study_identity(setup, "", fingerprint), identity);
  TrainingSetup other = setup;
  other.memory_bytes["cpu:0"] = 1000;
  EXPECT_NE(study_identity(other, "", fingerprint), identity);
  other = setup;
  other.batch = 8;
  EXPECT_NE(study_identity(other, "", fingerprint), identity);
  other = setup;
  other.reduce = Reduce::all_reduce;
  EXPECT_NE(study_identity(other, "", fingerprint), identity);
  other = setup;
  other.sleep_profile = "elsewhere.sqlite";
  EXPECT_EQ(study_identity(other, "", fingerprint), identity) << "a file of the study, not of the user";
  EXPECT_NE(study_identity(setup, "1GB/s", fingerprint), identity);
  other = setup;
  other.pools = {"cpu:0-1/auto"};
  EXPECT_NE(study_identity(other, "", fingerprint), identity) << "the same devices, but whose division is searched";
  Fingerprint other_torch;
  other_torch.libtorch = "2.1";
  EXPECT_NE(study_identity(setup, "", other_torch), identity);
}

}  // namespace
}  // namespace mptune::tuner

#include "reports/values/comparison.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <sstream>

#include "planner/search/make_plan.h"
#include "reports/cli/commands/recordings.h"
#include "reports/render/compare_text.h"
#include "reports/render/compare_words.h"
#include "reports/values/plan_changes.h"
#include "tests/reports/compared_samples.h"
#include "tests/support/files.h"

namespace mptune::reports {
namespace {

Comparison compare_traces(const TraceReport& a, const TraceReport& b) {
  return reports::compare_traces(side({a}), side({b}));
}

TEST(CompareTraces, SaysWhatChangedMostAndThatItIsSlower) {
  const TraceReport a = steady({"cpu:0", "cpu:1"}, {{80, 10, 10, 0}, {70, 0, 30, 0}});
  const TraceReport b = steady({"cpu:0", "cpu:1"}, {{80, 10, 60, 0}, {90, 0, 15, 45}});
  const Comparison comparison = compare_traces(a, b);
  EXPECT_EQ(comparison.verdict, Verdict::slow);
  EXPECT_DOUBLE_EQ(*comparison.ratio, 1.5);
  std::vector<std::string> sentences;
  for (const LargestChange& change : comparison.largest) sentences.push_back(sentence(change));
  EXPECT_THAT(sentences, ::testing::ElementsAre(
                             "cpu:0: straggler idle +50.0 ms, +50.0 % of the step", "cpu:1: jitter idle +45.0 ms, +45.0 % of the step",
                             "cpu:1: compute +20.0 ms, +20.0 % of the step", "cpu:1: straggler idle -15.0 ms, -15.0 % of the step"));
  EXPECT_EQ(compare_traces(b, a).verdict, Verdict::fast);
  EXPECT_FALSE(comparison.plan_changes) << "the plans are not known";
  EXPECT_EQ(sentence(*comparison.cause), "straggler idle on cpu:0 +50.0 ms, 95 % [50.0, 50.0] ms, 100 % of the difference");
  EXPECT_TRUE(compare_traces(b, a).cause) << "what made it faster is named, too";
  EXPECT_FALSE(compare_traces(a, a).cause);
}

TEST(CompareTraces, PartsAndCausesAddUp) {
  const Comparison comparison = compare_traces(steady({"cpu:0"}, {{80, 10, 10, 3}}), steady({"cpu:0"}, {{70, 20, 5, 9}}));
  ASSERT_EQ(comparison.devices.size(), 1U);
  const DeviceChange& device = comparison.devices.front();
  double parts = 0, causes = 0;
  for (const PartChange& part : device.parts)
    if (part.part != "window") parts += part.difference_s();
  for (const PartChange& cause : device.idle) causes += cause.difference_s();
  EXPECT_NEAR(parts, part_of(device.parts, "window").difference_s(), 1e-12);
  EXPECT_NEAR(causes, part_of(device.parts, "idle").difference_s(), 1e-12);
  EXPECT_NEAR(device.share(part_of(device.parts, "copy")), 0.010 / 0.103, 1e-12);
}

TEST(CompareTraces, IntervalsNeedSixStepsAndNoiseIsNoChange) {
  std::vector<std::vector<StepTimes>> noisy, slower;
  for (int step = 0; step < 8; ++step) {
    noisy.push_back({{80.0 + 10 * (step % 2), 0, 10, 0}});
    slower.push_back({{82.0 + 10 * (step % 2), 0, 40, 0}});
  }
  const Comparison comparison = compare_traces(recorded({"cpu:0"}, noisy), recorded({"cpu:0"}, slower));
  const PartChange& compute = part_of(comparison.devices.front().parts, "compute");
  ASSERT_TRUE(compute.ci95_s);
  EXPECT_LT(compute.ci95_s->low, 0);
  EXPECT_GT(compute.ci95_s->high, compute.difference_s());
  ASSERT_EQ(comparison.largest.size(), 1U) << "2 ms more compute is noise";
  EXPECT_EQ(comparison.largest.front().part.part, "straggler");
  noisy.resize(5);
  EXPECT_FALSE(compare_traces(recorded({"cpu:0"}, noisy), recorded({"cpu:0"}, slower)).devices.front().parts.front().ci95_s);
}

TEST(CompareTraces, DevicesMatchByNameElseByOrderWhereTheyAreAsMany) {
  const StepTimes times{80, 10, 10, 0};
  const auto names = [&](const std::vector<std::string>& a, const std::vector<std::string>& b) {
    std::vector<std::string> result;
    const Comparison comparison =
        compare_traces(steady(a, std::vector<StepTimes>(a.size(), times)), steady(b, std::vector<StepTimes>(b.size(), times)));
    for (const DeviceChange& device : comparison.devices) result.push_back(device.a + "|" + device.b);
    return result;
  };
  using ::testing::ElementsAre;
  EXPECT_THAT(names({"x", "y"}, {"y", "x"}), ElementsAre("x|x", "y|y"));
  EXPECT_THAT(names({"x", "y", "z"}, {"p", "x", "q"}), ElementsAre("x|x", "y|p", "z|q"));
  EXPECT_THAT(names({"x", "y"}, {"y"}), ElementsAre("x|", "y|y"));
  EXPECT_THAT(names({"y"}, {"x", "y", "z"}), ElementsAre("y|y", "|x", "|z"));
}

TEST(CompareTraces, NoVerdictOfIncompleteOrShortTraces) {
  const TraceReport a = steady({"cpu:0"}, {{80, 10, 10, 0}});
  TraceReport incomplete = a;
  incomplete.objection = profiler::QualityObjection{profiler::QualityObjection::Loss::unmatched, 0.5};
  const std::string why = "50.0 % of all events have no counterpart: a launch, a send, a receive or the action before";
  EXPECT_EQ(compare_traces(a, incomplete).verdict, Verdict::unknown);
  EXPECT_EQ(compare_traces(a, incomplete).reason, "B: " + why);
  EXPECT_EQ(compare_traces(incomplete, incomplete).reason, "A: " + why);
  const Comparison few = compare_traces(a, steady({"cpu:0"}, {{800, 10, 10, 0}}, 4));
  EXPECT_EQ(few.verdict, Verdict::unknown);
  EXPECT_TRUE(few.ratio);
  EXPECT_FALSE(few.ratio_ci95) << "four samples have no interval";
  EXPECT_TRUE(compare_traces(a, steady({"cpu:0"}, {{800, 10, 10, 0}}, 6)).ratio_ci95);
  TraceReport empty = a;
  empty.steps_s = {};
  EXPECT_EQ(compare_traces(a, empty).reason, "B has no step time");
}

TEST(CompareTraces, ACopyIsTheSameHoweverNoisy) {
  const TraceReport one = steady({"cpu:0"}, {{80, 10, 10, 0}}, 1);
  EXPECT_EQ(compare_traces(one, one).verdict, Verdict::same);
  EXPECT_EQ(compare_traces(one, steady({"cpu:1"}, {{80, 10, 10, 0}}, 1)).verdict, Verdict::unknown) << "not of this device";
}

TEST(CompareTraces, NamesTheStragglerOfAPublicTrace) {
  const std::string slow = testing::shared_data("straggler/timeline-AR.json.gz"),
                    other = testing::shared_data("straggler/timeline-ST.json.gz");
  if (slow.empty() || other.empty()) {
    GTEST_SKIP() << "the shared data are absent; set MPTUNE_DATA_DIR";
  }
  const TraceReport a = report_of_recording(read_any_recording(other), "a"), b = report_of_recording(read_any_recording(slow), "b");
  const Comparison comparison = compare_traces(a, b);
  EXPECT_EQ(comparison.verdict, Verdict::slow);
  ASSERT_EQ(comparison.largest.size(), 5U);
  EXPECT_EQ(comparison.largest[0].device, "stage:0/0");
  EXPECT_EQ(comparison.largest[0].part.part, "compute") << "its own work is what the others wait for";
  EXPECT_EQ(comparison.largest[1].part.part, "straggler");
  EXPECT_FALSE(std::ranges::all_of(comparison.devices, &DeviceChange::in_both)) << "the jobs are of different size";
  for (const DeviceChange& device : comparison.devices) {
    double sum = 0;
    for (const PartChange& cause : device.idle) sum += cause.difference_s();
    EXPECT_NEAR(sum, part_of(device.parts, "idle").difference_s(), 1e-7) << device.name();
  }
}

Plan two_stages(int microbatches, const std::string& schedule, int cut = 3) {
  PlanOptions options;
  options.devices = {"sleep:0", "sleep:1"};
  options.batch = 8;
  options.layers = 6;
  options.cuts = {cut};
  options.microbatches = microbatches;
  options.schedule = schedule;
  return make_plan(options);
}

TEST(PlanChanges, CountLayersInRanges) {
  EXPECT_EQ(in_ranges({}), "");
  EXPECT_EQ(in_ranges({4}), "4");
  EXPECT_EQ(in_ranges({3, 4, 5, 6, 7, 8, 12, 14, 15}), "3-8, 12, 14-15");
  Plan a = two_stages(4, "gpipe");
  Plan b = a;
  b.stages[0].recompute = {Recompute::Mode::some, {0, 1}, {}};
  EXPECT_THAT(plan_changes(a, b), ::testing::ElementsAre("stage 0: recompute none -> layers 0-1"));
}

TEST(PlanChanges, OnlyCutsThatMovedAreTold) {
  PlanOptions options;
  options.devices = {"sleep:0", "sleep:1", "sleep:2", "sleep:3"};
  options.batch = 8;
  options.layers = 9;
  options.cuts = {2, 4, 6};
  const Plan a = make_plan(options);
  options.cuts = {2, 5, 8};
  EXPECT_THAT(plan_changes(a, make_plan(options)), ::testing::ElementsAre("cuts: 4 -> 5, 6 -> 8"));
}

TEST(PlanChanges, AreInWords) {
  const Plan a = two_stages(4, "gpipe");
  EXPECT_THAT(plan_changes(a, a), ::testing::IsEmpty());
  Plan helped = a;
  helped.options.idle_devices_help = true;
  EXPECT_THAT(plan_changes(a, helped), ::testing::ElementsAre("idle devices help: no -> yes"));
  Plan last = a;
  last.options.memory_format = MemoryFormat::channels_last;
  EXPECT_THAT(plan_changes(a, last), ::testing::ElementsAre("memory format: contiguous -> channels_last"));
  Plan threads = a;
  threads.devices = {"cpu:0-1", "cpu:2-3"};
  Plan one_thread = threads;
  one_thread.options.threads = {1, 1};
  EXPECT_THAT(plan_changes(threads, one_thread), ::testing::ElementsAre("threads: one per core -> 1 thread a device"));
  threads.options.threads = {2, 2};
  EXPECT_TRUE(plan_changes(threads,
                           [&] {
                             Plan same = threads;
                             same.options.threads.clear();
                             return same;
                           }())
                  .empty());
  Plan replaced = a;
  replaced.options.replace_slow_kernels = true;
  EXPECT_THAT(plan_changes(a, replaced), ::testing::ElementsAre("slow kernels replaced: no -> yes"));
  Plan b = two_stages(8, "1f1b", 5);
  b.stages[1].recompute.mode = Recompute::Mode::all;
  EXPECT_THAT(plan_changes(a, b), ::testing::ElementsAre("cuts: 3 -> 5", "stage 1: recompute none -> all",
                                                         "micro-batches: 4 of 2 -> 8 of 1", "schedule: gpipe -> 1f1b"));
  Plan fused = a;
  fused.actions[1].push_back({.stage = 1, .kind = ActionKind::backward_weight, .microbatch = 0, .further = 3});
  EXPECT_THAT(plan_changes(a, fused), ::testing::ElementsAre("fused weight gradients: none -> stage 1"));
  Plan other = a;
  std::swap(other.actions[0][0], other.actions[0][1]);
  EXPECT_THAT(plan_changes(a, other), ::testing::ElementsAre("schedule: both are called gpipe, their actions differ"));
  Plan whole;
  whole.devices = {"cpu:0"};
  whole.microbatch_sizes = {3, 2};
  whole.stages = {{.first_layer = 0, .last_layer = 6, .devices = {0}, .recompute = {}}};
  whole.schedule = "naive";
  EXPECT_THAT(plan_changes(a, whole), ::testing::ElementsAre("batch: 8 -> 5", "devices: sleep:0, sleep:1 -> cpu:0",
                                                             "stages: 2 stages of layers 0 to 2 | 3 to 5 -> 1 stage of layers 0 to 5",
                                                             "stages on: sleep:0 | sleep:1 -> cpu:0",
                                                             "micro-batches: 4 of 2 -> 2 of 2 to 3", "schedule: gpipe -> naive"));
}

PlanFile plan_file(const Plan& plan, double step_s, double half_width, int samples) {
  PlanFile file;
  file.plan = plan;
  MeasuredStep measured;
  measured.step_s = step_s;
  if (samples >= static_cast<int>(kLeastForInterval)) measured.step_ci95_s = Interval{step_s - half_width, step_s + half_width};
  measured.step_samples = samples;
  file.measured = measured;
  return file;
}

TEST(ComparePlanFiles, ByWhatWasMeasured) {
  const Plan plan = two_stages(4, "gpipe");
  const Comparison comparison = compare_plan_files(plan_file(plan, 0.1, 0.001, 20), plan_file(two_stages(4, "1f1b"), 0.2, 0.001, 30));
  EXPECT_EQ(comparison.verdict, Verdict::slow);
  EXPECT_DOUBLE_EQ(*comparison.ratio, 2);
  EXPECT_THAT(*comparison.plan_changes, ::testing::ElementsAre("schedule: gpipe -> 1f1b"));
  EXPECT_EQ(compare_plan_files(plan_file(plan, 0.1, 0.01, 20), plan_file(plan, 0.1, 0.01, 20)).verdict, Verdict::same) << "a copy";
  EXPECT_EQ(compare_plan_files(plan_file(plan, 0.1, 0.01, 20), plan_file(plan, 0.101, 0.01, 20)).verdict, Verdict::ambiguous);
  EXPECT_EQ(compare_plan_files(plan_file(plan, 0.1, 0.001, 20), plan_file(plan, 0.1, 0.001, 4)).verdict, Verdict::unknown);
}

TEST(ComparePlanFiles, FallsBackToPredictions) {
  PlanFile a = plan_file(two_stages(4, "gpipe"), 0.1, 0.001, 20);
  PlanFile b = a;
  b.measured.reset();
  EXPECT_EQ(compare_plan_files(a, b).reason, "B was never measured");
  EXPECT_FALSE(compare_plan_files(a, b).ratio);
  a.predicted = PredictedStep{.step_s = 0.08, .lower_bound_s = 0, .peak_bytes = {}};
  b.predicted = PredictedStep{.step_s = 0.04, .lower_bound_s = 0, .peak_bytes = {}};
  const Comparison comparison = compare_plan_files(a, b);
  EXPECT_EQ(comparison.verdict, Verdict::unknown);
  EXPECT_EQ(comparison.reason, "B was never measured: the times are predictions");
  EXPECT_DOUBLE_EQ(*comparison.ratio, 0.5) << "a prediction is compared with a prediction";
  EXPECT_FALSE(comparison.ratio_ci95);
  EXPECT_TRUE(comparison.a.predicted);
}

std::vector<std::string> texts_of(const std::vector<Unlike>& things) {
  std::vector<std::string> texts;
  for (const Unlike& thing : things) texts.push_back(text_of(thing));
  return texts;
}

TEST(ComparePlanFiles, OtherBatchesAndMachinesAreNamed) {
  PlanFile a = plan_file(two_stages(4, "gpipe"), 0.1, 0.001, 20);
  PlanFile b = plan_file(two_stages(4, "gpipe"), 0.2, 0.001, 20);
  b.plan.microbatch_sizes = {4, 4, 4, 4};
  a.fingerprint.libtorch = "2.8";
  b.fingerprint.libtorch = "2.9";
  const Comparison comparison = compare_plan_files(a, b);
  EXPECT_EQ(comparison.verdict, Verdict::unknown);
  EXPECT_EQ(comparison.reason, "steps of 8 and of 16 samples are different work");
  b = plan_file(two_stages(4, "gpipe"), 0.2, 0.001, 20);
  EXPECT_EQ(compare_plan_files(a, b).verdict, Verdict::slow);
  a.fingerprint.model = "sha256:one";
  b.fingerprint.model = "sha256:another";
  EXPECT_EQ(compare_plan_files(a, b).verdict, Verdict::unknown);
  EXPECT_EQ(compare_plan_files(a, b).reason, "steps of two models are different work");
  EXPECT_THAT(*comparison.plan_changes, ::testing::ElementsAre("batch: 8 -> 16", "micro-batches: 4 of 2 -> 4 of 4"));
  EXPECT_THAT(texts_of(comparison.unlike), ::testing::ElementsAre("batch: 8 -> 16", "LibTorch: 2.8 -> 2.9"));
}

StudyReport study_of(const Plan& plan, const std::vector<double>& steps_s) {
  StudyReport report;
  tuner::Measured measured;
  measured.step_s = samples_of(steps_s);
  report.recommendation.recommended.trial.plan = plan;
  report.recommendation.recommended.trial.outcome = measured;
  return report;
}

TEST(CompareStudies, ByTheSamplesOfTheirRecommendations) {
  StudyReport a = study_of(two_stages(4, "gpipe"), {1, 1.01, 1.02, 0.99, 0.98, 1});
  StudyReport b = study_of(two_stages(4, "1f1b"), {0.5, 0.51, 0.51, 0.5, 0.49, 0.5});
  EXPECT_EQ(compare_studies(a, b).verdict, Verdict::fast);
  EXPECT_THAT(*compare_studies(a, b).plan_changes, ::testing::ElementsAre("schedule: gpipe -> 1f1b"));
  EXPECT_EQ(compare_studies(a, a).verdict, Verdict::same);
  EXPECT_THAT(compare_studies(a, b).devices, ::testing::IsEmpty());
  a.trace = steady({"cpu:0"}, {{80, 10, 10, 0}});
  b.trace = steady({"cpu:0"}, {{80, 10, 60, 0}});
  EXPECT_EQ(compare_studies(a, b).largest.front().part.part, "straggler");
  StudyReport other = b;
  a.model = "resnet50";
  other.model = "resnet18";
  EXPECT_EQ(compare_studies(a, other).verdict, Verdict::unknown);
  EXPECT_THAT(texts_of(compare_studies(a, other).unlike), ::testing::Contains("model: resnet50 -> resnet18"));
  b.trace->objection = profiler::QualityObjection{profiler::QualityObjection::Loss::dropped, 0.5};
  EXPECT_THAT(compare_studies(a, b).devices, ::testing::IsEmpty());
  EXPECT_EQ(compare_studies(a, b).verdict, Verdict::fast) << "its samples were not taken from the trace";
}

Comparison wide_comparison() {
  std::vector<std::string> names;
  for (int i = 0; i < 12; ++i) names.push_back("a device of a rather long name, number " + std::to_string(i));
  TraceReport a = steady(names, std::vector<StepTimes>(12, {8000, 1000, 1000, 3}));
  names.back() = "elsewhere";
  names.emplace_back("one more");
  Comparison comparison = compare_traces(a, steady(names, std::vector<StepTimes>(13, {8123, 1234, 4321, 999})));
  comparison.a.names = {"before.sqlite"};
  comparison.b.names = {"after.sqlite"};
  comparison.plan_changes = plan_changes(two_stages(4, "gpipe"), two_stages(8, "1f1b", 5));
  return comparison;
}

TEST(RenderCompared, FitsItsWidthWithAndWithoutColour) {
  for (const int width : {80, 120}) {
    for (const bool unicode : {true, false}) {
      const std::string plain = render_compared(wide_comparison(), {.width = width, .unicode = unicode, .color = false});
      std::istringstream lines(plain);
      for (std::string line; std::getline(lines, line);) EXPECT_LE(display_width(line), width) << line;
      EXPECT_EQ(plain.find('\x1b'), std::string::npos);
      const std::string colored = render_compared(wide_comparison(), {.width = width, .unicode = unicode, .color = true});
      EXPECT_NE(colored, plain);
      EXPECT_EQ(colored.find("SLOW"), plain.find("SLOW") + 5) << "in the same words";
      EXPECT_TRUE(unicode || std::ranges::all_of(plain, [](unsigned char c) { return c < 128; }));
    }
  }
}

TEST(RenderCompared, RatiosHaveFourDigits) {
  Comparison comparison = wide_comparison();
  for (const auto& [ratio, text] :
       std::vector<std::pair<double, std::string>>{{177.52, "177.5"}, {21.0871, "21.09"}, {1.00042, "1.000"}, {0.04743, "0.0474"}}) {
    comparison.ratio = ratio;
    EXPECT_NE(render_compared(comparison, {.width = 80, .unicode = false, .color = false}).find(" takes " + text + " times"),
              std::string::npos)
        << text;
  }
}

TEST(RenderCompared, NamesEveryDeviceOrSaysHowManyAreLeft) {
  const std::string text = render_compared(wide_comparison(), {.width = 80, .unicode = false, .color = false});
  EXPECT_NE(text.find("3 more devices changed less"), std::string::npos) << text;
  EXPECT_NE(text.find("only in A: a device of a rather long name, number 11"), std::string::npos) << text;
  EXPECT_NE(text.find("only in B: elsewhere, one more"), std::string::npos) << text;
  EXPECT_TRUE(text.starts_with("SLOW: B takes 1.467 times as long as A, 95 % [1.467, 1.467]\n")) << text;
}

}  // namespace
}  // namespace mptune::reports

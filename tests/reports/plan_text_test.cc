#include "reports/render/plan_text.h"
#include "profiler/base/index.h"
#include "reports/render/search_text.h"
#include "tests/reports/golden.h"

#include <gmock/gmock.h>

#include <array>
#include <sstream>

namespace mptune::reports {
namespace {

using ::testing::HasSubstr;

PlanReport sample_plan() {
  PlanReport report;
  report.title = "resnet50: 32 samples";
  report.description = "pipeline of 3 stages, 1f1b, 4 micro-batches of 8";
  report.step_s = 0.412;
  report.lower_bound_s = 0.402;
  report.schedule_bound_s = 0.39;
  const std::vector<std::vector<double>> layers = {{0.02, 0.05, 0.11}, {0.07, 0.06, 0.04, 0.05, 0.03}, {0.0004, 0.2, 0.01}};
  int layer = 0;
  for (int s = 0; s < 3; ++s) {
    const auto& times = layers[as_index(s)];
    PlannedStage stage;
    stage.devices = {"cuda:" + std::to_string(s)};
    stage.first_layer = layer;
    stage.last_layer = layer + static_cast<int>(times.size());
    if (s == 0) stage.recomputed = {1, 2};
    stage.modules = "layer" + std::to_string(layer) + " .. layer" + std::to_string(stage.last_layer - 1);
    stage.peak_bytes = 1'000'000'000 + s * 300'000'000;
    for (const double time : times) {
      report.layers.push_back({"layer" + std::to_string(layer++), s, time});
      stage.step_s += time;
    }
    report.stages.push_back(stage);
  }
  report.limit =
      "stage 1 on cuda:1 limits the step: it computes 60.7 % of it, 28.0 % of that in layer 3 (layer3); with layer 3 (layer3) on stage 0 "
      "the "
      "step would be 4.1 % longer; with layer 7 (layer7) on stage 2 the step would be 1.3 % longer";
  report.trace.timeline_s = 0.412;
  for (int s = 0; s < 3; ++s) {
    report.trace.devices.push_back({.device = "cuda:" + std::to_string(s), .idle = {}});
    for (int m = 0; m < 4; ++m) {
      report.trace.timeline.push_back({.device = s,
                                       .kind = m % 2 == 0 ? EventKind::forward : EventKind::backward,
                                       .stage = s,
                                       .microbatch = m / 2,
                                       .start_s = 0.05 * s + 0.07 * m,
                                       .end_s = 0.05 * s + 0.07 * m + 0.06});
    }
  }
  report.alternatives = {{0.413, 1'400'000'000, "cuts: 3 -> 4"}, {0.43, 1'200'000'000, "schedule: 1f1b -> gpipe"}};
  report.front = {{0.412, 1'600'000'000, "the plan above"},
                  {0.44, 1'100'000'000, "micro-batches: 4 of 8 -> 8 of 4"},
                  {0.6, 600'000'000, "pipeline of 2 stages, 1f1b, 16 micro-batches of 2, recomputing, cuts 5"}};
  report.rejected = {{RejectedAs::too_slow, 123'456}, {RejectedAs::too_large, 1}};
  using Kind = PipelineChoice::Kind;
  using Why = RejectedClass::Why;
  report.classes = {{{Kind::microbatches, 32, ""}, Why::slower_by_bound, {}, 1.041, 36},
                    {{Kind::schedule, 0, "gpipe"}, Why::seen_and_proved, {}, 1.032, 72}};
  report.not_executable = {
      {0.405, 1'700'000'000, "pipeline of 3 stages, zb1p, 4 micro-batches of 8: the runtime has no split backward (zero bubble)"}};
  report.next = {"plan    resnet50.plan.json", "mptune run resnet50 --plan /w/resnet50.plan.json"};
  report.notes = {"123 k plans simulated in 2.10 s",
                  "1 to 2 of at most 8 stages per device searched: more are slower by their lower bounds"};
  return report;
}

std::string rendered(int width, bool unicode, bool color = false) {
  return render_plan(sample_plan(), {.width = width, .unicode = unicode, .color = color});
}

std::string in_full(int width, bool unicode) {
  return render_plan(sample_plan(), {.width = width, .unicode = unicode}, Listing::all);
}

TEST(PlanText, At80And120ColumnsUnicodeAndAscii) {
  for (const int width : {80, 120}) {
    for (const bool unicode : {true, false}) {
      const std::string text = rendered(width, unicode);
      testing::expect_golden("plan_" + std::to_string(width) + (unicode ? "_unicode" : "_ascii"), text);
      EXPECT_EQ(text.find('\x1b'), std::string::npos);
      testing::expect_golden("plan_all_" + std::to_string(width) + (unicode ? "_unicode" : "_ascii"), in_full(width, unicode));
      testing::expect_width(in_full(width, unicode), width);
    }
  }
}

TEST(PlanText, ColourIsByStageAndMeansNothingAlone) {
  const std::string colored = rendered(80, true, true);
  EXPECT_THAT(colored, HasSubstr("\x1b[36m█"));
  EXPECT_THAT(colored, HasSubstr("\x1b[35m"));
  std::string stripped = testing::without_colour(colored);
  // Titles are bold to their columns' ends.
  while (stripped.find(" \n") != std::string::npos) stripped.erase(stripped.find(" \n"), 1);
  EXPECT_EQ(stripped, rendered(80, true));
}

/// Numbers of the stages, layers, times.
std::array<std::string, 3> bar_rows(const std::vector<PlannedLayer>& layers, int width) {
  std::istringstream lines(render_partition(layers, {.width = width, .unicode = false}));
  std::array<std::string, 3> rows;
  for (std::string& row : rows) std::getline(lines, row);
  return rows;
}

TEST(PlanText, TheBarIsAsWideAsTheTimes) {
  const auto [numbers, blocks, times] = bar_rows({{"a", 0, 3}, {"b", 0, 1}, {"c", 1, 4}}, 60);
  EXPECT_EQ(blocks, "       " + std::string(20, '#') + std::string(6, '=') + "|" + std::string(25, '#'));
  EXPECT_EQ(numbers, "stage  0" + std::string(25, ' ') + "|1");
  EXPECT_EQ(times, "s      4.00" + std::string(22, ' ') + "|4.00");
}

TEST(PlanText, StagesWithoutTimeStillShow) {
  const std::string bar = render_partition({{"a", 0, 1}, {"b", 1, 0}, {"c", 2, 1}}, {.width = 60, .unicode = false});
  EXPECT_EQ(std::ranges::count(bar.substr(0, bar.find('\n', bar.find('\n') + 1)), '|'), 4) << bar;
  EXPECT_EQ(render_partition({}, {.width = 60}), "");
}

TEST(PlanText, SaysWhichStagesPerDeviceWereSearched) {
  using End = StagesPerDevice::End;
  EXPECT_EQ(text_of(StagesPerDevice{}), "");
  EXPECT_EQ(text_of(StagesPerDevice{1, 1, End::all}), "1 stage per device searched: all that fit the layers");
  EXPECT_EQ(text_of(StagesPerDevice{3, 3, End::all}), "1 to 3 stages per device searched: all that fit the layers");
  EXPECT_EQ(text_of(StagesPerDevice{2, 8, End::slower}),
            "1 to 2 of at most 8 stages per device searched: more are slower by their lower bounds");
  EXPECT_EQ(text_of(StagesPerDevice{5, 8, End::nothing_faster}),
            "1 to 5 of at most 8 stages per device searched: 4 and 5 had nothing faster");
  EXPECT_EQ(text_of(StagesPerDevice{3, 8, End::not_reached}),
            "1 to 3 of at most 8 stages per device searched: more were not reached within the limit of the search");
}

TEST(PlanText, EachRejectedClassSaysWhy) {
  using Kind = PipelineChoice::Kind;
  using Why = RejectedClass::Why;
  const auto text = [](Why why, double time_ratio, std::optional<MissingCapability> missing = {}) {
    return text_of(RejectedClass{{Kind::schedule, 0, "zb1p"}, why, missing, time_ratio, 1});
  };
  EXPECT_EQ(text(Why::not_executable, 0, MissingCapability::split_backward), "the runtime has no split backward (zero bubble)");
  EXPECT_EQ(text(Why::not_executable, 0.9, MissingCapability::replicas), "the runtime has no replicas, 10.0 % faster at its best");
  EXPECT_THAT(text(Why::rows_decide, 1), HasSubstr("not covered by the proof: a list schedule may use split backward"));
  EXPECT_THAT(text(Why::rows_decide, 1), HasSubstr("only generating it tells, as fast at its best"));
  EXPECT_EQ(text(Why::too_large, 0), "needs more memory than a device has");
  EXPECT_EQ(text(Why::slower_by_bound, 1.0001), "slower: its lower bound lies above the best plan");
  EXPECT_EQ(text(Why::slower_by_bound, 1.041), "at least 4.1 % slower by its lower bound");
  EXPECT_EQ(text(Why::seen, 1.2), "20.0 % slower at its best");
  EXPECT_EQ(text(Why::seen_and_proved, 1), "as fast at its best; none is faster");
  EXPECT_EQ(text(Why::none_faster, 0), "none is faster");
  EXPECT_EQ(text(Why::only_as_chain, 0), "none is faster as a chain; not proved for branches");
  EXPECT_EQ(text(Why::not_reached, 0), "not reached within the limit of the search");
  EXPECT_EQ(text_of(PipelineChoice{Kind::schedule, 0, "zb1p"}), "schedule zb1p");
  EXPECT_EQ(text_of(PipelineChoice{Kind::microbatches, 32, ""}), "m = 32");
  EXPECT_EQ(text_of(PipelineChoice{Kind::stages, 3, ""}), "3 stages, one device each");
  EXPECT_EQ(text_of(PipelineChoice{Kind::stages_per_device, 2, ""}), "2 stages on each device");
  EXPECT_EQ(text_of(PipelineChoice{Kind::replicas, 0, ""}), "stages with replicas");
}

TEST(PlanText, AProofIsSaidAsOne) {
  PlanReport report = sample_plan();
  EXPECT_THAT(render_plan(report, {.width = 120}), HasSubstr("lower bound of all plans 402 ms (gap 2.5 %)"));
  report.complete = true;
  EXPECT_THAT(render_plan(report, {.width = 400}), HasSubstr("optimal under the cost model among runnable plans of the known schedules\n"));
  report.rejected.push_back({RejectedAs::rows_decide, 3});
  EXPECT_THAT(render_plan(report, {.width = 400}),
              HasSubstr("optimal under the cost model among runnable plans of the known schedules (3 not covered)\n"));
}

TEST(PlanText, ProofsAndBoundsDoNotCoverFusedWeightGradients) {
  PlanReport report = sample_plan();
  report.may_fuse = true;
  EXPECT_THAT(render_plan(report, {.width = 400}), HasSubstr("lower bound of all plans without fused weight gradients 402 ms"));
  report.complete = true;
  EXPECT_THAT(render_plan(report, {.width = 400}),
              HasSubstr("optimal under the cost model among runnable plans of the known schedules without fused weight gradients"));
}

TEST(PlanText, NothingToSayBelowTheStagesIsNoGap) {
  PlanReport report = sample_plan();
  report.limit = "";
  report.stages[0].recomputed = {};
  const std::string text = render_plan(report, {.width = 80});
  EXPECT_THAT(text, HasSubstr("layer8 .. layer10\n\nno schedule of these stages takes less than 390 ms\n\nOne step, predicted"));
}

TEST(PlanText, RecomputedLayersAreListed) {
  PlanReport report = sample_plan();
  EXPECT_THAT(render_plan(report, {.width = 80}), HasSubstr("stage 0 recomputes layers 1-2\n"));
  report.stages[0].recomputed = {0, 1, 2};
  EXPECT_THAT(render_plan(report, {.width = 80}), HasSubstr("stage 0 recomputes all its layers\n"));
  report.stages[0].recomputed = {};
  EXPECT_THAT(render_plan(report, {.width = 80}), ::testing::Not(HasSubstr("recomputes")));
}

TEST(PlanText, OffloadingStagesAreListed) {
  PlanReport report = sample_plan();
  EXPECT_THAT(render_plan(report, {.width = 80}), ::testing::Not(HasSubstr("offload")));
  report.stages[1].offload = true;
  report.may_offload = true;
  report.complete = false;
  report.lower_bound_s = 0.3;
  const std::string text = render_plan(report, {.width = 200});
  EXPECT_THAT(text, HasSubstr("stage 1 offloads its saved activations: they lie in host memory between forward and backward\n"));
  EXPECT_THAT(text, HasSubstr("offloading 300 ms (gap"));
  report.stages[0].offload = true;
  EXPECT_THAT(render_plan(report, {.width = 200}), HasSubstr("stages 0-1 offload their saved activations: "));
}

TEST(PlanText, SixteenStagesAreLabelledAt80Columns) {
  std::vector<PlannedLayer> layers;
  for (int layer = 0; layer < 300; ++layer)
    layers.push_back({"layer" + std::to_string(layer), layer * 16 / 300, 0.04 + 0.001 * (layer % 7)});
  const auto [numbers, blocks, times] = bar_rows(layers, 80);
  EXPECT_LE(blocks.size(), 80u);
  std::istringstream words(numbers.substr(7));
  int stage = 0;
  for (std::string word; std::getline(words, word, '|'); ++stage) EXPECT_EQ(std::stoi(word), stage);
  EXPECT_EQ(stage, 16);
  EXPECT_THAT(times, ::testing::StartsWith("ms     "));
  std::istringstream all(times.substr(7));
  for (std::string word; std::getline(all, word, '|');) EXPECT_GT(std::stod("0" + word), 700) << times;
}

}  // namespace
}  // namespace mptune::reports

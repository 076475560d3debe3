#include "reports/values/report.h"

#include <gmock/gmock.h>

#include "planner/schedule/schedule.h"
#include "planner/search/make_plan.h"
#include "reports/cli/program/session.h"
#include "reports/render/report_text.h"

namespace mptune::reports {
namespace {

Plan pipeline(int stages, int microbatches, const std::string& schedule) {
  PlanOptions options;
  for (int i = 0; i < stages; ++i) options.devices.push_back("sleep:" + std::to_string(i));
  options.batch = microbatches;
  options.layers = stages;
  options.microbatches = microbatches;
  options.schedule = schedule;
  return make_plan(options);
}

TEST(TheoreticalBubble, IsTheClosedFormOfTheSchedules) {
  for (int stages = 1; stages <= 4; ++stages) {
    for (const int m : {1, 2, 4, 8}) {
      const double expected = (stages - 1.0) / (m + stages - 1.0);
      EXPECT_NEAR(planner::theoretical_bubble(pipeline(stages, m, "gpipe")), expected, 1e-3) << stages << " stages, " << m;
      EXPECT_NEAR(planner::theoretical_bubble(pipeline(stages, m, "1f1b")), expected, 1e-3) << stages << " stages, " << m;
    }
    EXPECT_NEAR(planner::theoretical_bubble(pipeline(stages, 1, "naive")), (stages - 1.0) / stages, 1e-3);
  }
}

TraceReport two_devices(double compute, double copy, double idle) {
  TraceReport report;
  for (const char* name : {"cpu:0", "cpu:1"}) {
    report.devices.push_back({.device = name,
                              .window_s = compute + copy + idle,
                              .compute_s = compute,
                              .copy_s = copy,
                              .overlap_s = 0,
                              .idle_s = idle,
                              .idle = {},
                              .peak_bytes = 0});
  }
  return report;
}

TEST(LimitShare, PartsAddUpToTheDistance) {
  const LimitShare share = limit_share(0.4, 0.5, 2, 1.25, two_devices(0.3, 0.02, 0.08));
  EXPECT_DOUBLE_EQ(share.limit_s, 0.25);
  double sum = 0;
  for (const auto& part : share.rest) sum += part.seconds;
  EXPECT_NEAR(sum, 0.4 - 0.25, 1e-12);
  EXPECT_EQ(share.rest.front().what, "idle");
  EXPECT_NEAR(share.rest.front().seconds, 0.08, 1e-12);
}

TEST(LimitShare, ARecordedStepOfAnotherLengthIsScaled) {
  const LimitShare share = limit_share(0.2, 0.3, 2, 1, two_devices(0.3, 0.02, 0.08));
  EXPECT_NEAR(share.rest.front().seconds, 0.04, 1e-12);
  EXPECT_TRUE(limit_share(0.2, 0.3, 2, 1, std::nullopt).rest.empty());
}

TEST(LimitShare, OneDeviceIsNoFairYardstickAbove110Percent) {
  using enum LimitShare::Yardstick;
  EXPECT_EQ(limit_share(0.2, 0.44, 2, 1, std::nullopt).yardstick, fair);
  EXPECT_EQ(limit_share(0.2, 0.442, 2, 1, std::nullopt).yardstick, slow_alone);
}

TEST(LimitShare, SentencesSayThatTheYardstickIsUnfair) {
  StudyReport report;
  report.limit = limit_share(0.2, 0.5, 2, 1, two_devices(0.3, 0.02, 0.08));
  EXPECT_THAT(limit_sentences(report).at(0),
              ::testing::AllOf(::testing::HasSubstr("125.0 %"), ::testing::HasSubstr("caches, memory or threads"),
                               ::testing::HasSubstr("no fair yardstick"), ::testing::Not(::testing::HasSubstr("the rest"))));
  report.limit->yardstick = LimitShare::Yardstick::larger_devices;
  EXPECT_THAT(limit_sentences(report).at(0), ::testing::HasSubstr("the others have more cores"));
  report.limit = limit_share(0.2, 0.42, 2, 1, std::nullopt);
  EXPECT_THAT(limit_sentences(report).at(0), ::testing::Not(::testing::HasSubstr("yardstick")));
}

Trace small_trace() {
  Trace trace;
  trace.devices = {{"cpu:0", "", 1, 0}, {"cpu:1", "", 1, 0}};
  trace.tags = {{0, 0, 0, 0, 0}, {0, 0, 0, 1, 0}, {0, 1, 0, 2, 0}};
  trace.names = {"x"};
  using std::chrono::microseconds;
  const auto event = [&](int device, EventKind kind, int tag, int start, int length) {
    Event e;
    e.start = microseconds(start);
    e.duration = microseconds(length);
    e.device = static_cast<std::int16_t>(device);
    e.tag = tag;
    e.kind = kind;
    trace.events.push_back(e);
  };
  event(0, EventKind::forward, 0, 0, 100);
  event(0, EventKind::forward, 1, 101, 100);
  event(1, EventKind::forward, 2, 210, 100);
  event(1, EventKind::sync, 2, 100, 110);
  event(1, EventKind::recompute, 2, 310, 50);
  event(1, EventKind::backward, 2, 360, 140);
  event(0, EventKind::backward, 1, 600, 200);
  trace.steps = {{0, microseconds(0), microseconds(1000)}};
  return trace;
}

TEST(Speedup, ThePlanThatIsRecommendedIsNotComparedWithItself) {
  tuner::BaselineResult baseline;
  tuner::RecommendedPlan recommended;
  baseline.speedup = {.estimate = 1.5, .ci95 = Interval{1.4, 1.6}, .pairs = 12, .verdict = Verdict::fast, .reason = ""};
  baseline.trial.plan_key = "one";
  recommended.trial.plan_key = "another";
  EXPECT_EQ(format_speedup_over(baseline, recommended), "1.50x [1.40, 1.60] FAST");
  recommended.trial.plan_key = "one";
  EXPECT_EQ(format_speedup_over(baseline, recommended), "same plan");
}

TEST(TraceReport, LayersOfAnActionAreOneBox) {
  const TraceReport report = build_trace_report(small_trace(), {5, 6}, "t");
  ASSERT_EQ(report.timeline.size(), 4U);
  EXPECT_DOUBLE_EQ(report.timeline[0].end_s, 201e-6);
  EXPECT_EQ(report.timeline[3].kind, EventKind::backward);
  EXPECT_DOUBLE_EQ(report.timeline[3].start_s, 310e-6) << "recomputation belongs to backward; waiting is no box";
  EXPECT_DOUBLE_EQ(report.timeline_s, 1e-3);
  EXPECT_EQ(report.devices[1].peak_bytes, 6);
  EXPECT_DOUBLE_EQ(report.recompute_s, 25e-6) << "mean over the devices";
  for (const DeviceRow& row : report.devices) EXPECT_NEAR(row.compute_s + row.copy_s + row.overlap_s + row.idle_s, row.window_s, 1e-12);
}

TEST(TraceReport, PeaksAreThoseOfTheTraceElseTheLargestSamples) {
  Trace trace = small_trace();
  trace.memory = {{std::chrono::microseconds(1), 0, 5}, {std::chrono::microseconds(2), 0, 4}, {std::chrono::microseconds(3), 1, 7}};
  trace.devices[1].peak_bytes = 9;
  const TraceReport report = build_trace_report(trace, {}, "t");
  EXPECT_EQ(report.devices[0].peak_bytes, 5);
  EXPECT_EQ(report.devices[1].peak_bytes, 9) << "memory rises between two samples";
  EXPECT_EQ(report.memory[1].peak_bytes, 9);
}

// The third step is longer than the others: the median is not the mean.
TEST(TraceReport, AdviceIsWorthAShareOfTheStepThatIsShown) {
  Trace trace = small_trace();
  const std::vector<Event> one = trace.events;
  for (const int step : {1, 2})
    for (Event event : one) {
      event.start += std::chrono::microseconds(1000 * step);
      trace.events.push_back(event);
    }
  const auto at = [](int time) { return Nanoseconds(std::chrono::microseconds(time)); };
  trace.steps = {{0, at(0), at(1000)}, {1, at(1000), at(2000)}, {2, at(2000), at(5000)}};
  const TraceReport report = build_trace_report(trace, {}, "t");
  EXPECT_DOUBLE_EQ(report.step_s, 1e-3);
  ASSERT_FALSE(report.advice.empty());
  for (const planner::Advice& advice : report.advice) {
    EXPECT_NEAR(advice.saves_percent, 100 * advice.saves_s / 1e-3, 1e-9);
    EXPECT_LE(advice.saves_percent, 100) << "in the mean step more can be saved than the step takes that is shown";
  }
}

TEST(TraceReport, KernelsOfEveryLaneAreDrawnAndCollectivesBesideThemAreNot) {
  Trace trace = small_trace();
  const TraceReport whole = build_trace_report(trace, {}, "t");
  trace.events[1].lane = 3;
  trace.events[1].start = std::chrono::microseconds(20);
  trace.events[1].duration = std::chrono::microseconds(20);
  Event collective = trace.events[0];
  collective.kind = EventKind::collective;
  collective.lane = 5;
  trace.events.insert(trace.events.begin() + 1, collective);
  const TraceReport report = build_trace_report(trace, {}, "t");
  ASSERT_EQ(report.timeline.size(), whole.timeline.size());
  EXPECT_DOUBLE_EQ(report.timeline[0].end_s, 100e-6);
  trace.events[0].lane = 4;
  EXPECT_EQ(build_trace_report(trace, {}, "t").timeline.size(), whole.timeline.size());
}

tuner::Trial trial_of(Plan plan, double step_s, double predicted_s) {
  tuner::Trial trial;
  trial.plan = std::move(plan);
  tuner::Measured measured;
  measured.step_s = samples_of({step_s, step_s, step_s});
  trial.outcome = measured;
  trial.prediction = Prediction{};
  trial.prediction->step_s = predicted_s;
  return trial;
}

TEST(Curve, BestMeasuredAndBestPredictedOfEachSize) {
  const Plan of_one = pipeline(2, 4, "1f1b");
  Plan of_two = of_one;
  of_two.microbatch_sizes = {2, 2};
  const std::vector<tuner::Trial> trials = {trial_of(of_one, 0.5, 0.45), trial_of(of_one, 0.4, 0.44),
                                            trial_of(pipeline(1, 4, "gpipe"), 0.1, 0.1)};
  const std::vector<Candidate> ranked = {{of_two, {}}, {of_one, {}}};
  std::vector<Candidate> priced = ranked;
  priced[0].prediction.step_s = 0.3;
  priced[1].prediction.step_s = 0.46;
  const std::vector<CurvePoint> curve = split_size_curve(trials, priced);
  ASSERT_EQ(curve.size(), 2U) << "a plan of one stage is no point";
  EXPECT_EQ(curve[0].split_size, 1);
  EXPECT_DOUBLE_EQ(*curve[0].measured_s, 0.4);
  EXPECT_DOUBLE_EQ(curve[0].predicted_s, 0.44);
  EXPECT_FALSE(curve[1].measured_s);
  EXPECT_DOUBLE_EQ(curve[1].predicted_s, 0.3);
}

TEST(Style, FollowsOptionsAndEnvironment) {
  TerminalEnvironment terminal;
  terminal.output_is_terminal = true;
  terminal.term = "xterm";
  terminal.lang = "en_US.UTF-8";
  terminal.terminal_columns = 133;
  EXPECT_TRUE(style_of({}, terminal).color);
  EXPECT_TRUE(style_of({}, terminal).unicode);
  EXPECT_EQ(style_of({}, terminal).width, 133);
  TerminalEnvironment changed = terminal;
  changed.no_color = "1";
  changed.clicolor_force = "1";
  EXPECT_FALSE(style_of({}, changed).color) << "NO_COLOR beats CLICOLOR_FORCE";
  EXPECT_TRUE(style_of({.color = "always"}, changed).color);
  changed = terminal;
  changed.term = "dumb";
  EXPECT_FALSE(style_of({}, changed).color);
  changed = terminal;
  changed.lc_all = "C";
  EXPECT_FALSE(style_of({}, changed).unicode) << "LC_ALL beats LANG";
  EXPECT_FALSE(style_of({.color = "never"}, terminal).color);
  EXPECT_FALSE(style_of({}, {}).color);
  EXPECT_EQ(style_of({}, {}).width, 80);
  changed.columns = "40";
  EXPECT_EQ(style_of({}, changed).width, 60);
  changed.columns = "70";
  EXPECT_EQ(style_of({}, changed).width, 70);
  changed.columns = "120";
  EXPECT_EQ(style_of({}, changed).width, 120);
}

}  // namespace
}  // namespace mptune::reports

#include <gmock/gmock.h>

#include <map>
#include <numeric>

#include "planner/advise/advise.h"
#include "reports/html/axis.h"
#include "reports/html/charts.h"
#include "tests/reports/golden.h"
#include "tests/reports/html_page.h"
#include "tests/reports/samples.h"

namespace mptune::reports {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::markup_fault;
using ::testing::Not;
using testing::numbers_in;
using testing::sample_curve;
using testing::sample_trace;

std::vector<IntervalRow> sample_rows() {
  return {{.name = "recommended",
           .detail = "a pipeline",
           .value = "301 ms",
           .note = "",
           .seconds = 0.301,
           .ci95 = Interval{0.299, 0.303},
           .chosen = true},
          {.name = "single_device", .detail = "", .value = "520 ms", .note = "1.73x", .seconds = 0.52, .ci95 = {}},
          {.name = "data_parallel", .detail = "", .value = "", .note = "crashed", .seconds = 0, .ci95 = {}}};
}

std::vector<std::string> sample_charts() {
  const TraceReport trace = sample_trace();
  return {interval_chart(sample_rows()),
          curve_chart(sample_curve(), 0.52, 4),
          scatter_chart({{"trial 1", 0.3, 0.31, true}, {"trial 2", 0.5, 0.4, false}}),
          progress_chart({0.5, 0.6, 0.4, 0.45}),
          timeline_chart({&trace}),
          breakdown_chart(trace.devices),
          memory_chart(trace),
          partition_chart({{"conv1", 0, 1}, {"conv2", 0, 2}, {"fc", 1, 3}}, {"cpu:0", "cpu:1"})};
}

TEST(HtmlCharts, LookAsTheyDid) {
  std::string all;
  for (const std::string& chart : sample_charts()) {
    EXPECT_EQ(markup_fault(chart), "") << chart;
    EXPECT_NE(chart, "");
    all += chart + "\n";
  }
  testing::expect_golden("html_charts", all);
}

TEST(HtmlCharts, WithoutValuesNothingIsDrawn) {
  EXPECT_EQ(interval_chart({}), "");
  EXPECT_EQ(curve_chart({}, 0, 0), "");
  EXPECT_EQ(scatter_chart({}), "");
  EXPECT_EQ(progress_chart({1, 2}), "");
  EXPECT_EQ(timeline_chart({}), "");
  EXPECT_EQ(breakdown_chart({}), "");
  EXPECT_EQ(memory_chart({}), "");
  EXPECT_EQ(partition_chart(std::vector<PlannedLayer>{}, {}), "");
}

TEST(HtmlCharts, PlacesAreSharesOfTheAxis) {
  const std::string chart = interval_chart(sample_rows());
  const Axis axis = time_axis(0.52);
  EXPECT_DOUBLE_EQ(axis.most, 0.6);
  const std::vector<double> dots = numbers_in(chart, "cx=\"([0-9.]+)%\"");
  ASSERT_EQ(dots.size(), 2U) << "a plan without a step has no dot";
  EXPECT_NEAR(dots[0], 0.301 / 0.6 * 100, 0.01);
  EXPECT_NEAR(dots[1], 0.52 / 0.6 * 100, 0.01);
  EXPECT_THAT(chart, HasSubstr("crashed"));
}

TEST(HtmlCharts, ABarIsAsLongAsItsStep) {
  const TraceReport trace = sample_trace();
  for (const DeviceRow& row : trace.devices) {
    const std::vector<double> widths = numbers_in(breakdown_chart({row}), "width=\"([0-9.]+)%\" y=");
    EXPECT_NEAR(std::accumulate(widths.begin(), widths.end(), 0.0), 100, 0.5) << row.device;
  }
}

TEST(HtmlCharts, EveryCauseOfIdleHasALookAndWords) {
  TraceReport trace = sample_trace();
  DeviceRow& row = trace.devices[0];
  row.idle_s = 0;
  for (const profiler::NamedCause& cause : profiler::kIdleCauses) {
    row.idle.*cause.time = Nanoseconds{10'000'000};
    row.idle_s += 0.01;
  }
  const std::string chart = breakdown_chart({row});
  const std::string patterns = chart_patterns();
  for (const profiler::NamedCause& cause : profiler::kIdleCauses) {
    EXPECT_THAT(chart, HasSubstr("class=\"i-" + std::string(cause.name) + "\""));
    EXPECT_THAT(patterns, HasSubstr("id=\"p-" + std::string(cause.name) + "\""));
  }
  EXPECT_THAT(chart, HasSubstr("idle: pipeline bubble"));
}

TEST(HtmlCharts, ManyBoxesAreDrawnWithoutWords) {
  TraceReport trace = sample_trace();
  const std::vector<TimelineBox> few = trace.timeline;
  for (int i = 0; i < 200; ++i) trace.timeline.insert(trace.timeline.end(), few.begin(), few.end());
  EXPECT_THAT(timeline_chart({&trace}), Not(HasSubstr("<title>")));
}

TEST(TimeAxis, HasRoundTicksUpToAllValues) {
  EXPECT_THAT(time_axis(0.52).tick_labels, ElementsAre("0", "200", "400", "600 ms"));
  EXPECT_THAT(time_axis(0.000301).tick_labels, ElementsAre("0", "100", "200", "300", "400 us"));
  EXPECT_THAT(time_axis(0).tick_labels, ElementsAre("0"));
  for (double value = 1e-6; value < 1e3; value *= 1.37) {
    const Axis axis = time_axis(value);
    EXPECT_GE(axis.most, value * (1 - 1e-9));
    EXPECT_LE(axis.ticks.size(), 6U);
    EXPECT_LE(axis.percent(value), 100 + 1e-6);
    EXPECT_DOUBLE_EQ(time_axis(value, 5, true).most, value);
  }
}

// Spans of idle time and the breakdown come from the same intervals: each device's spans add up to its idle time, cause by cause where a
// cause is read off the interval, and never lie over its work.
TEST(IdleSpans, AddUpToTheBreakdown) {
  for (const char* schedule : {"gpipe", "1f1b", "zb1p"}) {
    PlanOptions options;
    options.devices = {"sleep:0", "sleep:1", "sleep:2"};
    options.batch = 6;
    options.layers = 3;
    options.microbatches = 6;
    options.schedule = schedule;
    const Simulation simulation = planner::simulate_schedule(make_plan(options));
    const TraceReport report = build_trace_report(simulation.trace, {}, "");
    std::map<int, double> idle;
    for (const IdleSpan& span : report.idle_spans) {
      idle[span.device] += span.end_s - span.start_s;
      for (const TimelineBox& box : report.timeline)
        EXPECT_TRUE(box.device != span.device || box.end_s <= span.start_s + 1e-9 || box.start_s >= span.end_s - 1e-9) << schedule;
    }
    ASSERT_FALSE(report.idle_spans.empty());
    for (std::size_t d = 0; d < report.devices.size(); ++d)
      EXPECT_NEAR(idle[static_cast<int>(d)], report.devices[d].idle_s, 1e-6) << schedule << " " << d;
  }
}

}  // namespace
}  // namespace mptune::reports

#include <gtest/gtest.h>

#include "reports/render/report_text.h"
#include "reports/render/table.h"
#include "tests/reports/golden.h"
#include "tests/reports/samples.h"

namespace mptune::reports {
namespace {

using testing::expect_width;
using testing::sample_study;

/// Names, numbers and verdicts as long as they get.
StudyReport long_study() {
  StudyReport report = sample_study();
  tuner::Recommendation& all = report.recommendation;
  all.baselines[0].name = "all_cores_channels_last";
  for (tuner::BaselineResult& baseline : all.baselines) {
    baseline.step_s = 1.0234;
    baseline.step_ci95_s = Interval{1.0041, 1.0468};
    baseline.speedup.verdict = Verdict::ambiguous;
    baseline.peak_bytes = {123'456'789'012};
    baseline.trial.plan_key = "another";
  }
  for (tuner::KindResult& row : all.kinds.rows) {
    if (row.over_best)
      row.over_best = Speedup{.estimate = 0.08, .ci95 = Interval{0.07, 0.09}, .pairs = 12, .verdict = Verdict::ambiguous, .reason = ""};
    row.best = false;
    if (row.trial) row.peak_bytes.assign(2, 123'456'789'012);
    row.step_s = 1.0234;
    row.step_ci95_s = Interval{1.0041, 1.0468};
  }
  report.modules = {{"backbone.encoder.layers.0.self_attention.projection_of_queries", "b"}, {"classifier"}};
  all.recommended.trial.plan.devices = {"1@cpu:0,2,4,6,8,10,12,14", "1@cpu:1,3,5,7,9,11,13,15"};
  return report;
}

TEST(Width, LongNamesAndVerdictsFitEveryTerminal) {
  for (const int width : {60, 70, 80, 120, 200})
    for (const Listing listing : {Listing::few, Listing::all}) {
      expect_width(render_study_report(long_study(), {.width = width, .unicode = false, .color = false}, listing), width);
      expect_width(render_study_report(sample_study(), {.width = width, .unicode = true, .color = false}, listing), width);
    }
}

/// Names of devices are texts of others.
TEST(Width, DevicesOfAnyNameFitEveryTerminal) {
  for (const std::size_t letters : {1U, 30U, 79U, 80U, 500U}) {
    TraceReport report = testing::sample_trace();
    const auto renamed = [&](const std::string& device) { return device + std::string(letters, 'x') + device; };
    for (DeviceRow& row : report.devices) row.device = renamed(row.device);
    for (MemoryRow& row : report.memory) row.device = renamed(row.device);
    for (LinkRow& row : report.links) row.source = row.destination = renamed(row.source);
    for (const int width : {60, 80, 120})
      for (const bool unicode : {false, true})
        expect_width(render_trace_report(report, {.width = width, .unicode = unicode, .color = false}), width);
  }
}

TEST(Width, ShortenedNamesKeepBeginAndEnd) {
  EXPECT_EQ(shortened("cpu:0,2,4,6,8,10", 16), "cpu:0,2,4,6,8,10");
  EXPECT_EQ(shortened("cpu:0,2,4,6,8,10", 12), "cpu:0..,8,10");
  EXPECT_EQ(shortened("gpu \u00b5\u00b5\u00b5\u00b5", 6), "gp..\u00b5\u00b5");
  for (int columns = 2; columns < 20; ++columns) EXPECT_LE(display_width(shortened("cpu:0,2,4,6,8,10,12", columns)), columns);
}

TEST(Width, TablesBreakTextsBeforeTheyBecomeLines) {
  const std::vector<Column> columns = {{"device"}, {"step", true}, {"what"}};
  const std::vector<std::vector<Cell>> rows = {{"cpu:0,2,4,6,8,10", "301 ms", "some words that are long"}};
  const auto table = [&](int width) { return render_table(columns, rows, {.width = width, .unicode = false, .color = false}); };
  EXPECT_EQ(table(32),
            "device         step  what\n"
            "-----------  ------  -----------\n"
            "cpu:0,2,4,6  301 ms  some words\n"
            ",8,10                that are\n"
            "                     long\n");
  EXPECT_EQ(table(20),
            "cpu:0,2,4,6,8,10,\n"
            "  step 301 ms, what\n"
            "  some words that\n"
            "  are long\n");
}

}  // namespace
}  // namespace mptune::reports

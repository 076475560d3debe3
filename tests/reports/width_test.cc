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

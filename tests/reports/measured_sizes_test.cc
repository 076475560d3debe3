// What was measured and what is extrapolated, in text, JSON and the page.
#include "reports/render/measured_sizes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "reports/html/html.h"
#include "reports/render/json.h"
#include "reports/render/report_text.h"
#include "tests/reports/samples.h"

namespace mptune::reports {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

const char* const kStart = "costs of larger micro-batches than were measured are extrapolated: ";

std::vector<profiler::ClassSizes> some_sizes() {
  return {{.name = "cpu/1", .variant = {}, .samples = {1, 2, 4}, .extrapolated = true},
          {.name = "cpu/1", .variant = {.memory_format = MemoryFormat::channels_last}, .samples = {1}, .extrapolated = true},
          {.name = "cpu/2", .variant = {.threads = 1}, .samples = {16}, .extrapolated = false}};
}

TEST(MeasuredSizes, NameTheClassesWhoseCostsAreExtrapolated) {
  EXPECT_EQ(extrapolated_text(some_sizes()), kStart + std::string("cpu/1 from 1, 2 and 4 samples, cpu/1 in channels_last from 1 sample"));
  EXPECT_EQ(extrapolated_text({some_sizes().back()}), "");
  EXPECT_EQ(extrapolated_text({}), "");
  std::vector<profiler::ClassSizes> threads = {some_sizes().back()};
  threads.front().extrapolated = true;
  EXPECT_EQ(extrapolated_text(threads), kStart + std::string("cpu/2 with 1 thread from 16 samples"));
}

TEST(MeasuredSizes, AreInTextJsonAndPage) {
  StudyReport report = mptune::testing::sample_study();
  const TextStyle style{.width = 120};
  EXPECT_THAT(render_study_report(report, style), Not(HasSubstr("extrapolated")));
  EXPECT_THAT(render_study_html(report), Not(HasSubstr("extrapolated")));
  report.measured_sizes = some_sizes();
  EXPECT_THAT(render_study_report(report, style), HasSubstr("costs of larger micro-batches than were measured"));
  EXPECT_THAT(render_study_html(report), HasSubstr("Costs of larger micro-batches than were measured are extrapolated: cpu/1 from"));
  const planner::Json sizes = study_json(report, {}).at("measured_sizes");
  ASSERT_EQ(sizes.size(), 3U);
  EXPECT_EQ(sizes[1].dump(), R"({"device_class":"cpu/1","memory_format":"channels_last","threads":0,"samples":[1],"extrapolated":true})");
  EXPECT_EQ(sizes[2]["samples"], planner::Json::array({16}));
}

}  // namespace
}  // namespace mptune::reports

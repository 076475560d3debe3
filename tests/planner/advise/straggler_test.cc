// The published analysis of real pipeline-parallel training (straggler data): its ideal step and the cause that it names.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <optional>
#include <string>

#include "planner/advise/advise.h"
#include "profiler/trace/analyze/breakdown.h"
#include "profiler/trace/analyze/step_work.h"
#include "profiler/trace/analyze/typical_times.h"
#include "profiler/trace/formats/pipeline_timeline.h"
#include "tests/support/files.h"

namespace mptune::planner {
namespace {

std::optional<Trace> timeline(const std::string& name) {
  const std::string path = testing::shared_data("straggler/timeline-" + name + ".json.gz");
  if (path.empty()) return std::nullopt;
  return profiler::read_pipeline_timeline(path);
}

double ideal_seconds(const Trace& trace) {
  return static_cast<double>(profiler::ideal_step(profiler::step_works(trace)).count()) * 1e-9;
}

TEST(Straggler, ALongLastStageIsNamedFirst) {
  const std::optional<Trace> trace = timeline("ST");
  if (!trace) {
    GTEST_SKIP() << "the straggler data is not there";
  }
  EXPECT_NEAR(ideal_seconds(*trace), 1.843295824, 0.01 * 1.843);
  const std::vector<Advice> advice = advise(*trace);
  ASSERT_FALSE(advice.empty());
  EXPECT_EQ(advice[0].cause, IdleCause::imbalance);
  EXPECT_EQ(advice[0].stage, 3);
}

TEST(Straggler, ASlowWorkerIsNamedFirst) {
  const std::optional<Trace> trace = timeline("AR");
  if (!trace) {
    GTEST_SKIP() << "the straggler data is not there";
  }
  EXPECT_NEAR(ideal_seconds(*trace), 23.484700209, 0.01 * 23.48);
  const std::vector<Advice> advice = advise(*trace);
  ASSERT_FALSE(advice.empty());
  EXPECT_EQ(advice[0].cause, IdleCause::straggler);
  EXPECT_EQ(advice[0].device, "stage:0/0");
}

}  // namespace
}  // namespace mptune::planner

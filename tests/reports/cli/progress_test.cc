#include "reports/cli/program/progress.h"

#include <gmock/gmock.h>

#include "tests/reports/html_page.h"

namespace mptune::reports {
namespace {

using testing::numbers_in;

/// Percentages of the lines that `work` prints.
template <class Work>
std::vector<double> percentages(const Work& work, double budget_s = 0) {
  Session session;
  session.options.verbose = true;  // a line for each new task
  ::testing::internal::CaptureStderr();
  {
    ProgressLine progress(session, budget_s);
    work(progress);
  }
  return numbers_in(::testing::internal::GetCapturedStderr(), ", ([0-9]+) %");
}

TEST(Progress, NeverGoesBack) {
  const std::vector<double> shown = percentages([](ProgressLine& progress) {
    int task = 0;
    for (const double fraction : {0.0, 0.5, 0.2, 1.0, -1.0, 0.0, 0.9, 2.0}) progress.update(std::to_string(task++), fraction);
  });
  EXPECT_THAT(shown, ::testing::ElementsAre(0, 50, 50, 100, 100, 100, 100, 100));
}

TEST(Progress, PartsMakeAWhole) {
  const std::vector<double> shown = percentages([](ProgressLine& progress) {
    progress.begin_part(0, 0.8);
    progress.update("measuring", 0);
    progress.update("measuring on", 0.5);
    progress.update("measured", 1);
    progress.begin_part(0.8, 1);
    progress.update("recording", 0);
    progress.update("recorded", 1);
  });
  EXPECT_THAT(shown, ::testing::ElementsAre(0, 40, 80, 80, 100));
}

TEST(Progress, OfABudgetIsItsTime) {
  const std::vector<double> shown = percentages([](ProgressLine& progress) { progress.update("measuring", 0.9); }, 1000);
  EXPECT_THAT(shown, ::testing::ElementsAre(0));
}

}  // namespace
}  // namespace mptune::reports

#include "reports/render/markdown.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <sstream>

#include "reports/render/kinds.h"
#include "tests/reports/golden.h"
#include "tests/reports/samples.h"

namespace mptune::reports {
namespace {

using testing::expect_golden;
using ::testing::HasSubstr;
using ::testing::Not;
using testing::sample_study;
using testing::sample_trace;

// Rows of a table have as many cells as its titles, and fences come in pairs.
void expect_sound_markdown(const std::string& text) {
  std::istringstream lines(text);
  std::size_t cells = 0;
  bool code = false;
  for (std::string line; std::getline(lines, line);) {
    if (line == "```") code = !code;
    if (code) continue;
    std::size_t bars = 0;
    for (std::size_t i = 0; i < line.size(); ++i) bars += line[i] == '|' && (i == 0 || line[i - 1] != '\\') ? 1 : 0;
    if (!line.starts_with('|')) {
      EXPECT_EQ(bars, 0U) << line;
      cells = 0;
      continue;
    }
    EXPECT_TRUE(cells == 0 || cells == bars) << line;
    cells = bars;
  }
  EXPECT_FALSE(code) << "a code block has no end";
  EXPECT_EQ(text.find('\x1b'), std::string::npos);
  EXPECT_TRUE(text.ends_with('\n') && !text.ends_with("\n\n"));
}

TEST(Markdown, StudyIsOneDocument) {
  const std::string text = render_study_markdown(sample_study());
  expect_golden("study_markdown", text);
  expect_sound_markdown(text);
  EXPECT_THAT(text, HasSubstr("\n## Which kind of parallelism\n"));
  EXPECT_THAT(text, HasSubstr("| hybrid | - | - | - | - | - | needs at least 3 devices; 2 available |"));
}

TEST(Markdown, TraceIsOneDocument) {
  const std::string text = render_trace_markdown(sample_trace());
  expect_golden("trace_markdown", text);
  expect_sound_markdown(text);
}

TEST(Markdown, NothingOfAModelsNameIsMarkup) {
  StudyReport report = sample_study();
  report.model = "a|b*c_d`e<f#";
  report.recommendation.recommended.description = "x | y";
  report.modules = {{"stem|1"}, {"head"}};
  const std::string text = render_study_markdown(report);
  expect_sound_markdown(text);
  EXPECT_THAT(text, HasSubstr("a\\|b\\*c\\_d\\`e\\<f\\#"));
}

TEST(Markdown, NamesNoFolderOfItsMaker) {
  const std::string text = render_study_markdown(testing::study_of_a_home("/home/anna_b"), Listing::all);
  expect_sound_markdown(text);
  EXPECT_THAT(text, Not(HasSubstr("anna")));
  EXPECT_THAT(text, Not(HasSubstr("/home")));
  EXPECT_THAT(text, HasSubstr("\nIn the folder that holds resnet50.study and net.pt2, data.pt, train with the plan:\n\n```\n"
                              "mptune run net.pt2 --data data.pt --plan resnet50.study/resnet50.plan.json\n```\n"));
  EXPECT_THAT(text, HasSubstr("\nmptune tune --resume resnet50.study --budget 5min\n"));
  EXPECT_THAT(text, HasSubstr("can't read net.pt2: no such file"));
  EXPECT_THAT(text, HasSubstr("the disk is full: t.sqlite"));
  EXPECT_THAT(text, HasSubstr("\nplan    resnet50.study/resnet50.plan.json\ntrace   resnet50.study/traces/recommended.sqlite\n"
                              "report  resnet50.study/report.html\nstudy   resnet50.study\n"));
  EXPECT_THAT(text, HasSubstr("one-device step / devices"));
}

TEST(Kinds, NoRowsAreNoTable) {
  EXPECT_EQ(render_kinds({}, {}), "");
  StudyReport report = sample_study();
  report.recommendation.kinds = {};
  EXPECT_THAT(render_study_markdown(report), Not(HasSubstr("Which kind")));
}

TEST(Kinds, OneSampleHasNoIntervalAndEqualPeaksAreOne) {
  tuner::KindComparison kinds = testing::sample_kinds(sample_study().recommendation.recommended.trial.plan);
  kinds.rows[3].step_ci95_s.reset();
  kinds.rows[3].peak_bytes = {400'000'000, 400'000'000};
  const KindCells cells = kind_cells(kinds)[3];
  EXPECT_EQ(cells.interval, "-");
  EXPECT_EQ(cells.detail, "pipeline of 2 stages, 1f1b, 4 micro-batches of 4; cuts 7");
  EXPECT_EQ(cells.verdict, "best");
  EXPECT_EQ(kind_cells(kinds)[0].verdict, "SLOW +73 %");
}

}  // namespace
}  // namespace mptune::reports

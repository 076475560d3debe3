#include "reports/html/html.h"

#include <gmock/gmock.h>

#include "reports/html/answer.h"
#include "reports/html/glossary.h"
#include "reports/html/markup.h"
#include "reports/render/report_text.h"
#include "reports/render/units.h"
#include "tests/reports/html_page.h"
#include "tests/reports/samples.h"

namespace mptune::reports {
namespace {

using ::testing::HasSubstr;
using testing::markup_fault;
using ::testing::Not;
using testing::sample_study;
using testing::sample_trace;

PlanFile sample_plan_file() {
  PlanOptions options;
  options.devices = {"cpu:0", "cpu:1"};
  options.batch = 8;
  options.layers = 6;
  options.microbatches = 4;
  PlanFile file;
  file.plan = make_plan(options);
  file.modules = {{"conv1", "layer1"}, {"fc"}};
  file.created = "2026-11-21T12:00:00Z";
  file.predicted = PredictedStep{.step_s = 0.3, .lower_bound_s = 0.29, .peak_bytes = {1 << 20, 2 << 20}};
  file.alternatives = {{"2.1 GiB less memory, 1.4 % slower", file.plan}};
  return file;
}

TraceReport stalled_trace() {
  TraceReport report = sample_trace();
  report.stalls = {{.device = "cpu:0", .step = 9, .time_s = 240e-6, .usual_s = 184e-6, .price_s = 56e-6, .price_percent = 6.7},
                   {.device = "cpu:1", .step = 11, .late = true, .time_s = 3e-3, .usual_s = 23e-6, .hidden = true}};
  return report;
}

std::vector<std::string> sample_pages() {
  return {render_study_html(sample_study()), render_trace_html(sample_trace()), render_trace_html(stalled_trace()),
          render_plan_html(sample_plan_file(), "net.plan.json")};
}

// A page may refer to its own parts, as href="#id" or url(#id), and to nothing else.
void expect_self_contained(const std::string& page) {
  for (const char* address : {"http:", "https:", "src=", "@import", "url(\"", "url('", "<link", "<iframe", "<img"})
    EXPECT_EQ(page.find(address), std::string::npos) << address;
  for (const char* reference : {"href=\"", "url("}) {
    for (std::size_t at = page.find(reference); at != std::string::npos; at = page.find(reference, at + 1))
      EXPECT_EQ(page[at + std::string(reference).size()], '#') << page.substr(at, 40);
  }
}

TEST(HtmlPage, IsOneWellFormedFileThatNamesNoOther) {
  for (const std::string& page : sample_pages()) {
    EXPECT_EQ(markup_fault(page), "");
    EXPECT_TRUE(page.starts_with(kHtmlMagic));
    EXPECT_THAT(page, HasSubstr("<h1 id=\"answer\">"));
    expect_self_contained(page);
  }
  EXPECT_NE(markup_fault("<p>a > b</p>"), "");
  EXPECT_NE(markup_fault("<p><b></p></b>"), "");
}

TEST(HtmlPage, NoLineEndIsSpelledOut) {
  for (const std::string& page : sample_pages()) EXPECT_EQ(page.find("\\n"), std::string::npos) << page.substr(page.find("\\n") - 60, 80);
}

TEST(HtmlPage, StallsAreATable) {
  const std::string page = render_trace_html(stalled_trace());
  EXPECT_THAT(page, HasSubstr("<h3>Stalls</h3>"));
  EXPECT_THAT(page, HasSubstr("forward of micro-batch 0, stage 0 took 240 us, usually 184 us</td>"));
  EXPECT_THAT(page, HasSubstr("hidden</td>"));
  EXPECT_THAT(page, HasSubstr("A stall is longer, or later, than what is usual"));
}

TEST(HtmlPage, SaysWhatIsProvisionalAndHowToGoOn) {
  StudyReport study = sample_study();
  std::string page = render_study_html(study);
  EXPECT_THAT(page, HasSubstr("<h1 id=\"answer\">Provisional: pipeline of 2 stages"));
  EXPECT_THAT(page, HasSubstr("<code>mptune tune --resume resnet50.study --budget 5min</code>"));
  study.recommendation.warnings.clear();
  page = render_study_html(study);
  EXPECT_THAT(page, HasSubstr("<h1 id=\"answer\">Pipeline of 2 stages"));
  EXPECT_THAT(page, Not(HasSubstr("--resume")));
}

TEST(HtmlPage, NamesNoFolderOfItsMaker) {
  const std::string page = render_study_html(testing::study_of_a_home("/home/anna"));
  EXPECT_THAT(page, Not(HasSubstr("anna")));
  EXPECT_THAT(page, HasSubstr("In the folder that holds resnet50.study and net.pt2, data.pt, train with the plan:"));
  EXPECT_THAT(page, HasSubstr("<code>mptune run net.pt2 --data data.pt --plan resnet50.study/resnet50.plan.json</code>"));
  EXPECT_THAT(page, HasSubstr("<td>resnet50.study/traces/recommended.sqlite</td>"));
  EXPECT_THAT(page, HasSubstr("can&#39;t read net.pt2: no such file"));
  EXPECT_THAT(page, HasSubstr("mptune.Pipeline(model, &quot;resnet50.study/resnet50.plan.json&quot;)"));
}

TEST(HtmlPage, IntervalsSortAsNumbers) {
  StudyReport study = sample_study();
  study.trials = {study.recommendation.recommended.trial};
  std::vector<double> steps;
  for (int i = 0; i < 12; ++i) steps.push_back(0.3 + 0.001 * i);
  std::get<tuner::Measured>(study.trials[0].outcome).step_s = samples_of(steps);
  EXPECT_THAT(render_study_html(study), ::testing::ContainsRegex("data-v=\"0[.]30[0-9]*\">.30[0-9], 30[0-9]. ms</td>"));
}

// What is wider than the page scrolls on a screen and is broken on paper.
TEST(HtmlPage, NothingWideIsCut) {
  for (const std::string& page : sample_pages()) {
    for (std::size_t at = page.find("<table"); at != std::string::npos; at = page.find("<table", at + 1))
      EXPECT_EQ(page.rfind("<div class=\"scroll\"", at), page.rfind("<div", at)) << page.substr(at, 60);
    const std::string print = page.substr(page.find("@media print"));
    for (const char* rule : {".scroll, #trials .scroll { overflow: visible;", ".wide { min-width: 0; width: 100% !important; }",
                             ".n, .facts td:first-child { white-space: normal; }"})
      EXPECT_THAT(print, HasSubstr(rule));
    EXPECT_THAT(page, HasSubstr(".scroll { overflow-x: auto; }"));
  }
}

TEST(HtmlPage, TheSameReportGivesTheSameBytes) {
  EXPECT_EQ(sample_pages(), sample_pages());
}

TEST(HtmlPage, FewMeasurementsHaveNoInterval) {
  StudyReport study = sample_study();
  const std::string interval = "95 % " + format_interval_seconds(*study.recommendation.recommended.step_ci95_s);
  EXPECT_THAT(render_study_html(study), HasSubstr(interval));
  study.recommendation.recommended.step_ci95_s.reset();
  EXPECT_THAT(render_study_html(study), Not(HasSubstr(interval)));
}

TEST(HtmlPage, SaysTheLinesOfPlainPyTorch) {
  StudyReport study = sample_study();
  EXPECT_THAT(render_study_html(study), Not(HasSubstr("Plain PyTorch")));
  Plan& plan = study.recommendation.recommended.trial.plan;
  plan = testing::one_device_plan(plan);
  plan.options.memory_format = MemoryFormat::channels_last;
  EXPECT_THAT(render_study_html(study), HasSubstr("torch.set_num_threads(1)\nmodel = model.to(memory_format=torch.channels_last)"));
}

TEST(HtmlPage, EveryContentsLinkHasItsSection) {
  for (const std::string& page : sample_pages()) {
    for (std::size_t at = page.find("href=\"#"); at != std::string::npos; at = page.find("href=\"#", at + 1)) {
      const std::string id = page.substr(at + 7, page.find('"', at + 7) - at - 7);
      EXPECT_THAT(page, HasSubstr("<section id=\"" + id + "\">"));
    }
  }
}

TEST(HtmlPage, NamesOfOthersAreText) {
  const std::string hostile = "<script>alert(1)</script></svg></style>\"'&\x1b[31m<img src=x onerror=alert(1)>";
  StudyReport study = sample_study();
  study.model = study.fingerprint.input = study.run_command = study.plan_file = study.stop_reason = hostile;
  study.partition = {{hostile, 0, 1}, {hostile, 1, 2}};
  study.modules = {{hostile}, {hostile, hostile}};
  study.trace->title = study.trace->devices[0].device = study.trace->memory[0].device = hostile;
  study.trace->critical_path[0].what = study.trace->links[0].source = hostile;
  study.recommendation.recommended.description = study.recommendation.baselines[0].name = hostile;
  study.recommendation.recommended.trial.plan.devices[0] = hostile;
  study.trials = {study.recommendation.recommended.trial};
  study.trials[0].name = study.trials[0].plan.schedule = hostile;
  study.trials.push_back(study.trials[0]);
  study.trials[1].outcome = tuner::Infeasible{hostile};
  PlanFile plan = sample_plan_file();
  plan.modules = {{hostile}, {hostile}};
  plan.fingerprint.input = plan.study = plan.alternatives[0].reason = hostile;
  TraceReport trace = *study.trace;
  for (const std::string& page : {render_study_html(study), render_plan_html(plan, hostile), render_trace_html(trace)}) {
    EXPECT_EQ(markup_fault(page), "");
    EXPECT_EQ(page.find("<script"), page.rfind("<script")) << "only the page's own";
    EXPECT_THAT(page, Not(HasSubstr("<script>alert")));
    EXPECT_THAT(page, Not(HasSubstr("<img")));
    EXPECT_EQ(page.find('\x1b'), std::string::npos);
    EXPECT_THAT(page, HasSubstr("&lt;script&gt;alert(1)&lt;/script&gt;"));
  }
}

TEST(HtmlPage, AThousandTrialsTakeLessThanAMegabyte) {
  StudyReport study = sample_study();
  for (int i = 0; i < 1000; ++i) {
    tuner::Trial trial = study.recommendation.recommended.trial;
    trial.id = i;
    trial.prediction = Prediction{.step_s = 0.3 + 0.001 * i, .peak_bytes = {}, .busy_s = {}};
    if (i % 10 == 0) trial.outcome = tuner::Crashed{.signal = 11, .exit_code = 0, .doing = "the forward of layer 'layer3.2.conv1'"};
    study.trials.push_back(trial);
  }
  const std::string page = render_study_html(study);
  EXPECT_LT(page.size(), 1'000'000U);
  EXPECT_THAT(page, HasSubstr("1000 trials, 100 failed"));
  EXPECT_THAT(page, HasSubstr("crashed by signal 11"));
}

TEST(HtmlPage, AStudyWithoutTracesOrBaselinesStillAnswers) {
  StudyReport study = sample_study();
  study.trace = std::nullopt;
  study.recommendation.baselines.clear();
  study.recommendation.kinds = {};
  study.curve.clear();
  const std::string page = render_study_html(study);
  EXPECT_EQ(markup_fault(page), "");
  EXPECT_THAT(page, HasSubstr("<h1 id=\"answer\">Provisional: pipeline of 2 stages, 1f1b, 4 micro-batches of 4.</h1>"));
  EXPECT_THAT(page, Not(HasSubstr("id=\"memory\"")));
}

TEST(HtmlPage, NamesTheSameBestChangeAsTheText) {
  TraceReport report = testing::sample_trace();
  planner::Advice trouble;
  trouble.cause = planner::IdleCause::imbalance;
  trouble.saves_s = 0.1;
  trouble.saves_percent = 25;
  trouble.remedy = planner::EvenStage{1};
  report.advice.insert(report.advice.begin(), trouble);
  EXPECT_THAT(render_trace_answer(report, {.width = 400}), HasSubstr("best change: --microbatches 8 instead of 4 (simulated)"));
  const std::string page = render_trace_html(report);
  const std::size_t answer = page.find("<h1 id=\"answer\">");
  EXPECT_THAT(page.substr(answer, page.find("</h1>", answer) - answer), HasSubstr("--microbatches 8 instead of 4 (simulated)"));
}

TEST(AnswerSentence, SaysWhatTheVerdictAllows) {
  StudyReport study = sample_study();
  study.recommendation.warnings.clear();
  study.recommendation.baselines.resize(1);
  Speedup& speedup = study.recommendation.baselines[0].speedup;
  speedup = {.estimate = 1.5, .ci95 = Interval{1.4, 1.6}, .pairs = 12, .verdict = Verdict::fast, .reason = ""};
  const std::string plan = "Pipeline of 2 stages, 1f1b, 4 micro-batches of 4: ";
  EXPECT_EQ(answer_sentence(study), plan + "1.50 times as fast as one device (95 % interval 1.40 to 1.60).");
  speedup.verdict = Verdict::same;
  EXPECT_EQ(answer_sentence(study), plan + "as fast as one device within 2 % (95 % interval 1.40 to 1.60).");
  speedup.verdict = Verdict::ambiguous;
  EXPECT_EQ(answer_sentence(study), plan + "no proven difference to one device (95 % interval 1.40 to 1.60).");
  speedup.verdict = Verdict::unknown;
  EXPECT_EQ(answer_sentence(study), plan + "measured too seldom to be compared with one device.");
  speedup.verdict = Verdict::fast;
  speedup.ci95.reset();
  speedup.range = Interval{1.41, 1.62};
  speedup.pairs = 4;
  speedup.error_rate = 0.0286;
  EXPECT_EQ(answer_sentence(study), plan + "1.50 times as fast as one device (1.41 to 1.62 in 4 pairs, error rate 2.9 %).");
  study.recommendation.recommended.trial.plan_key = "single_device";
  study.recommendation.advice = {tuner::NothingBeatsBaselines{true}};
  EXPECT_EQ(answer_sentence(study), "Nothing is measurably faster than the best baseline.");
}

TEST(Glossary, HasTheWordsThatAPageUses) {
  EXPECT_EQ(glossary_of("<p>nothing here needs an explanation</p>"), "");
  EXPECT_EQ(glossary_of("<p class=\"jitter\">nothing</p>"), "") << "attributes are not read";
  const std::string words = glossary_of("<p>Jitter, and a pipeline bubble</p>");
  EXPECT_THAT(words, HasSubstr("<dt>jitter</dt><dd>idle time because a step differs from a typical one</dd>"));
  EXPECT_THAT(words, HasSubstr("<dt>pipeline bubble</dt>"));
  EXPECT_THAT(words, Not(HasSubstr("<dt>straggler</dt>")));
}

TEST(Markup, TextIsEscapedAndNumbersStayWithTheirSign) {
  EXPECT_EQ(escape_html("a<b>&\"'\n"), "a&lt;b&gt;&amp;&quot;&#39;\\n");
  EXPECT_EQ(prose("95 % of 5 ms"), "95&nbsp;% of 5 ms");
  EXPECT_EQ(sentence_of("it is so"), "It is so.");
  EXPECT_EQ(sentence_of("It is so."), "It is so.");
  EXPECT_EQ(sentence_of(""), "");
  EXPECT_THAT(code_block("a < b\nc"), HasSubstr("<code>a &lt; b\nc</code>"));
  EXPECT_EQ(html_table({">n", "what"}, {}), "");
  EXPECT_THAT(html_table({">n", "what"}, {{HtmlCell("5 ms", "0.005"), "<x>"}}),
              HasSubstr("<tr><td class=\"n\" data-v=\"0.005\">5 ms</td><td>&lt;x&gt;</td></tr>"));
}

}  // namespace
}  // namespace mptune::reports

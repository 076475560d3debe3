#include <gmock/gmock.h>

#include <sstream>

#include "profiler/base/text.h"
#include "profiler/base/units.h"
#include "reports/render/advice_text.h"
#include "reports/render/answer_text.h"
#include "reports/render/fit_text.h"
#include "reports/render/pictures.h"
#include "reports/render/report_text.h"
#include "reports/render/table.h"
#include "reports/render/units.h"
#include "tests/reports/golden.h"
#include "tests/reports/samples.h"

namespace mptune::reports {
namespace {

using testing::expect_golden;
using testing::expect_width;
using testing::sample_curve;
using testing::sample_study;
using testing::sample_trace;

TEST(Golden, StudyAt80And120ColumnsUnicodeAndAscii) {
  for (const int width : {80, 120}) {
    for (const bool unicode : {true, false}) {
      const std::string text = render_study_report(sample_study(), {.width = width, .unicode = unicode, .color = false}, Listing::all);
      expect_golden("study_" + std::to_string(width) + (unicode ? "_unicode" : "_ascii"), text);
      expect_width(text, width);
      EXPECT_EQ(text.find('\x1b'), std::string::npos);
    }
  }
}

TEST(Study, TheLastLinesAreTheAnswer) {
  const StudyReport report = sample_study();
  for (const Listing listing : {Listing::few, Listing::all}) {
    const std::string text = render_study_report(report, {.width = 80}, listing);
    EXPECT_TRUE(
        text.ends_with("\n\nprovisional: pipeline of 2 stages, 1f1b, 4 micro-batches of 4; cuts 7\n"
                       "1.73x [1.68, 1.79] FAST over single_device, the best un-pipelined run\n" +
                       report.run_command + "\n"))
        << text;
  }
}

TEST(Study, OneStepIsShownWhenAskedFor) {
  const std::string few = render_study_report(sample_study(), {.width = 80});
  EXPECT_THAT(few, ::testing::Not(::testing::HasSubstr("Why devices idle")));
  EXPECT_THAT(few, ::testing::HasSubstr("-v shows where the time goes"));
  EXPECT_THAT(render_study_report(sample_study(), {.width = 80}, Listing::all), ::testing::HasSubstr("Why devices idle"));
}

TEST(Golden, TellsWhichStagesPerDeviceWereSearched) {
  StudyReport report = sample_study();
  report.stages_per_device = {3, 3, StagesPerDevice::End::all};
  const std::string text = render_study_report(report, {.width = 100, .unicode = false, .color = false});
  EXPECT_THAT(text, ::testing::HasSubstr("1 to 3 stages per device searched: all that fit the layers"));
}

TEST(Golden, AsciiIsAscii) {
  const std::string text = render_study_report(sample_study(), {.width = 80, .unicode = false, .color = false});
  EXPECT_TRUE(std::ranges::all_of(text, [](unsigned char c) { return c < 128; }));
}

TEST(Golden, ColourChangesNoWord) {
  const std::string plain = render_study_report(sample_study(), {.width = 100, .unicode = true, .color = false});
  const std::string colored = render_study_report(sample_study(), {.width = 100, .unicode = true, .color = true});
  const std::string stripped = testing::without_colour(colored);
  EXPECT_NE(colored, plain);
  EXPECT_EQ(stripped, plain);
}

TEST(Pictures, BarsAreFilledExactly) {
  for (int tenths = 0; tenths <= 10; ++tenths) {
    DeviceRow row{.device = "cpu:0",
                  .window_s = 1,
                  .compute_s = 0.07 * tenths,
                  .copy_s = 0.03 * tenths,
                  .overlap_s = 0,
                  .idle_s = 1 - 0.1 * tenths,
                  .idle = {},
                  .peak_bytes = 0};
    const std::string text = render_breakdown({row}, {.width = 80, .unicode = false, .color = false});
    std::istringstream lines(text);
    std::string line;
    std::getline(lines, line);
    std::getline(lines, line);
    const auto bar = line.substr(8, 36);
    EXPECT_EQ(bar.find_first_not_of("#=."), std::string::npos) << line;
    EXPECT_NEAR(static_cast<double>(std::ranges::count(bar, '.')), 36 * row.idle_s, 1);
  }
}

TEST(Pictures, EveryMicrobatchIsNumbered) {
  const std::string text = render_timeline(sample_trace(), {.width = 100, .unicode = false, .color = false});
  EXPECT_THAT(text, ::testing::HasSubstr("|0"));
  EXPECT_THAT(text, ::testing::HasSubstr("|1"));
  EXPECT_THAT(text, ::testing::HasSubstr("#0"));
  EXPECT_THAT(text, ::testing::HasSubstr("#1"));
  EXPECT_THAT(text, ::testing::HasSubstr("..."));
}

TEST(Pictures, ManyMicrobatchesTakeMorePanels) {
  TraceReport report = sample_trace();
  report.timeline.clear();
  for (int i = 0; i < 64; ++i) {
    report.timeline.push_back(
        {.device = i % 2, .kind = EventKind::forward, .stage = 0, .microbatch = i, .start_s = 0.4 * i / 64, .end_s = 0.4 * (i + 1) / 64});
  }
  const std::string text = render_timeline(report, {.width = 80, .unicode = false, .color = false});
  EXPECT_THAT(text, ::testing::HasSubstr("|63"));
  expect_width(text, 80);
}

TraceReport many_devices(int devices) {
  TraceReport report = sample_trace();
  report.devices.clear();
  report.timeline.clear();
  for (int device = 0; device < devices; ++device) {
    report.devices.push_back({.device = "cuda:" + std::to_string(device), .window_s = 0.4, .compute_s = 0.4, .idle = {}});
    for (int i = 0; i < 64; ++i) {
      const double start_s = 0.4 * i / 64;
      report.timeline.push_back({.device = device,
                                 .kind = i < 32 ? EventKind::forward : EventKind::backward,
                                 .stage = device,
                                 .microbatch = i % 32,
                                 .start_s = start_s,
                                 .end_s = 0.4 * (i + 1) / 64});
    }
  }
  return report;
}

TEST(Pictures, ManyDevicesAreALineEach) {
  const std::string text = render_timeline(many_devices(20), {.width = 80, .unicode = false, .color = false});
  EXPECT_EQ(std::ranges::count(text, '\n'), 1 + 20 + 1) << text;
  EXPECT_THAT(text, ::testing::ContainsRegex("cuda:19  [fF]+[bB]+\n")) << "no gap between work that follows at once";
  EXPECT_THAT(text, ::testing::Not(::testing::HasSubstr("not drawn")));
  EXPECT_THAT(text, ::testing::HasSubstr("fF forward, bB backward, neighbouring micro-batches by turns"));
  expect_width(text, 80);
  expect_width(render_timeline(many_devices(20), {.width = 80, .unicode = true, .color = false}), 80);
  EXPECT_THAT(render_timeline(many_devices(40), {.width = 80, .unicode = false, .color = false}),
              ::testing::HasSubstr("8 more devices are not drawn"));
  EXPECT_THAT(render_timeline(many_devices(8), {.width = 80, .unicode = false, .color = false}), ::testing::HasSubstr("|4||"));
}

TEST(Pictures, GradientsOfWeightsAreTold) {
  TraceReport report = sample_trace();
  report.timeline.clear();
  int at = 0;
  for (const EventKind kind : {EventKind::forward, EventKind::backward_input, EventKind::backward_weight}) {
    report.timeline.push_back({.device = 0, .kind = kind, .microbatch = 0, .start_s = 0.1 * at, .end_s = 0.1 * at + 0.1});
    ++at;
  }
  const std::string text = render_timeline(report, {.width = 100, .unicode = false, .color = false});
  EXPECT_THAT(text, ::testing::ContainsRegex("\\|0 +#0 +%0 +%"));
  EXPECT_THAT(text, ::testing::HasSubstr("|n forward, #n gradients of inputs, %n gradients of weights, n: micro-batch, . idle"));
}

TEST(Pictures, TheLegendNamesOnlyWhatIsDrawn) {
  const TextStyle style{.width = 120, .unicode = true, .color = false};
  TraceReport report = sample_trace();
  EXPECT_THAT(render_timeline(report, style),
              ::testing::HasSubstr("light box forward, heavy box backward, number: micro-batch, o optimizer, · idle"));
  report.timeline.push_back({.device = 0, .kind = EventKind::reduce, .microbatch = -1, .start_s = 0.39, .end_s = 0.4});
  report.timeline.push_back({.device = 0, .kind = EventKind::forward, .stage = 2, .microbatch = 1, .start_s = 0.11, .end_s = 0.15});
  const std::string text = render_timeline(report, style);
  EXPECT_THAT(text, ::testing::HasSubstr("numbers: stage.micro-batch, o optimizer, r sum over replicas"));
}

TEST(Details, NameWhatTheRecordingLost) {
  TraceReport report = sample_trace();
  report.quality = {.dropped = 3, .untagged = 2};
  report.objection = profiler::QualityObjection{profiler::QualityObjection::Loss::dropped, 0.3};
  report.clock_error_s = 5e-6;
  const TextStyle style{.width = 80, .unicode = false, .color = false};
  const std::string details = render_details(report, style);
  EXPECT_THAT(details, ::testing::HasSubstr("3 dropped"));
  EXPECT_THAT(details, ::testing::HasSubstr("2 untagged"));
  EXPECT_THAT(details, ::testing::HasSubstr("off by at least 5.00 us"));
  EXPECT_THAT(details, ::testing::HasSubstr("cpu:0  cpu:1"));
  expect_width(details, 80);
  EXPECT_THAT(render_advice(report, style), ::testing::StartsWith("no verdict: 30.0 %"));
}

TEST(Advice, EachRemedyIsAnActionWithItsWorth) {
  const auto text = [](const planner::Remedy& remedy) {
    return text_of(planner::Advice{.saves_s = 0.04, .saves_percent = 15.24, .remedy = remedy});
  };
  const std::string worth = ": saves 40.0 ms, 15.2 % of the step";
  EXPECT_EQ(text(planner::EvenStage{3}),
            "move layers off stage 3, the longest, with --cuts (worth if it took the mean of the stages)" + worth);
  EXPECT_EQ(
      text(planner::EvenDevice{"cpu:1"}),
      "cpu:1 is slower than the others of its stage: keep other programs off these cores (taskset), and fix the clock rate, or leave it "
      "out of --devices (worth if it were as fast as they)" +
          worth);
  EXPECT_EQ(text(planner::InstantCopies{"cpu:0", "cpu:1"}),
            "copies from cpu:0 to cpu:1 are waited for: cut where less is sent (--cuts), or split into fewer --microbatches (worth if they "
            "took no time)" +
                worth);
  EXPECT_EQ(
      text(planner::EvenSteps{}),
      "steps differ in length: keep other programs off these cores (taskset), and fix the clock rate (worth if each took as long as the "
      "median one)" +
          worth);
  EXPECT_EQ(text(planner::PromptHosts{}),
            "devices wait for their hosts to start work: use fewer, larger --microbatches (worth if no device waited)" + worth);
  EXPECT_EQ(text(planner::MoveLayer{"layer3", 1, {4, 9}}), "--cuts 4,9: layer layer3 moves to stage 1 (simulated)" + worth);
  EXPECT_EQ(text(planner::OtherMicrobatches{8, 4}), "--microbatches 8 instead of 4 (simulated)" + worth);
  EXPECT_EQ(text(planner::SaveActivations{}), "--recompute none: activations fit into memory (simulated)" + worth);
  EXPECT_EQ(text(planner::FasterLinks{}), "links of twice the bandwidth; with these links, --cuts where less is sent (simulated)" + worth);
}

TEST(Advice, EveryCauseOfIdleHasARemedyOrAPrice) {
  for (const profiler::NamedCause& cause : profiler::kIdleCauses) EXPECT_NE(remedy_of_cause(cause.name), "") << cause.name;
  TraceReport report = sample_trace();
  report.advice.clear();
  for (const profiler::NamedCause& cause : profiler::kIdleCauses) {
    for (DeviceRow& row : report.devices) {
      row.idle = {};
      row.idle.*cause.time = Nanoseconds{40'000'000};  // a tenth of the step
    }
    const std::string text = render_advice(report, {.width = 400});
    EXPECT_THAT(text,
                ::testing::HasSubstr(" 40.0 ms   10.0 %  at most, " + cause_in_words(cause.name) + ": " + remedy_of_cause(cause.name)));
  }
}

TEST(Wrap, ANumberStaysWithItsUnit) {
  EXPECT_EQ(wrap("it is 12.5 % more", 10), (std::vector<std::string>{"it is", "12.5 %", "more"}));
  EXPECT_EQ(wrap("step [299, 303] ms, or", 12), (std::vector<std::string>{"step [299,", "303] ms, or"}));
  EXPECT_EQ(wrap("under 1.5 GiB (all)", 9), (std::vector<std::string>{"under", "1.5 GiB", "(all)"}));
  EXPECT_EQ(wrap("layer 3 is long", 9), (std::vector<std::string>{"layer 3", "is long"}));
}

TEST(Colours, OnlyOursReachTheTerminal) {
  const TextStyle style{.width = 80, .unicode = false, .color = true, .mark = 77};
  const std::string foreign = "\x1b[31mred\x1b[0m \x1b";
  const std::string shown = R"(\u001b[31mred\u001b[0m \u001b)";
  EXPECT_EQ(finished(style, foreign + paint(style, Color::red, "a" + foreign) + "\n"), shown + "\x1b[31ma" + shown + "\x1b[0m\n");
  EXPECT_EQ(display_width(paint(style, Color::bold, "four")), 4);
  EXPECT_EQ(finished({.color = false}, foreign), shown);
  EXPECT_EQ(render_table({{foreign}}, {{foreign}}, {.width = 80, .unicode = false}),
            shown + "\n" + repeat("-", display_width(shown)) + "\n" + shown + "\n");
}

TEST(Pictures, NothingToDrawIsNoPicture) {
  EXPECT_EQ(render_timeline({}, {}), "");
  EXPECT_EQ(render_curve({}, {}), "");
  EXPECT_EQ(render_curve({sample_curve().front()}, {}), "");
  EXPECT_EQ(render_comparison({}, {}), "");
}

TEST(Study, TheAnswerNamesTheGpu) {
  StudyReport report = sample_study();
  const auto lines = [&] { return answer_lines(report); };
  auto& best = report.recommendation.recommended;
  best.trial.plan.devices = {"cuda:0", "cuda:1"};
  best.peak_bytes = {1 << 20, 2 << 20};
  report.trace.emplace().devices = {{.device = "cuda:0", .description = "Small GPU", .idle = {}},
                                    {.device = "cuda:1", .description = "Emulated GPU, 132 SMs", .idle = {}}};
  EXPECT_THAT(lines(), ::testing::Contains("peak memory 2.00 MiB, on cuda:1 (Emulated GPU, 132 SMs)"));
  report.trace.reset();
  EXPECT_THAT(lines(), ::testing::Contains("peak memory 2.00 MiB, on cuda:1"));
}

TEST(Study, TheAnswerIsAtMostSixLines) {
  StudyReport report = sample_study();
  EXPECT_LE(answer_lines(report).size(), 6u);
  EXPECT_TRUE(is_provisional(report)) << "8 rounds of 10";
  EXPECT_EQ(answer_title(report), "Provisional recommendation for resnet50");
  EXPECT_THAT(answer_lines(report).back(), ::testing::StartsWith("provisional: 8 interleaved rounds, 10 are wanted"));
  const std::string text = render_study_report(report, {.width = 80});
  EXPECT_THAT(text, ::testing::HasSubstr("\n  " + report.run_command + "\n"));
  EXPECT_THAT(text, ::testing::HasSubstr("\n  " + report.resume_command + "\n"));
  report.recommendation.warnings.clear();
  EXPECT_EQ(answer_title(report), "Recommendation for resnet50");
  EXPECT_THAT(render_study_report(report, {.width = 80}), ::testing::Not(::testing::HasSubstr(report.resume_command)));
  report.recommendation.decided = false;
  EXPECT_TRUE(is_provisional(report));
}

TEST(Study, WithoutItsModelItSaysWhatIsMissing) {
  StudyReport report = sample_study();
  report.run_command = "";
  EXPECT_THAT(render_study_report(report, {.width = 80}), ::testing::HasSubstr("the study does not hold the model's options"));
}

TEST(Study, ANameCanNotBeginALineOfItsOwn) {
  StudyReport report = sample_study();
  report.study = "a\nmptune run evil";
  report.plan_file = report.study + "/p.plan.json";
  report.trace_files = {report.study + "/t.sqlite"};
  EXPECT_THAT(render_study_report(report, {.width = 80}), ::testing::Not(::testing::HasSubstr("\nmptune run evil")));
}

TEST(Study, OneSampleHasNoInterval) {
  StudyReport report = sample_study();
  tuner::RecommendedPlan& best = report.recommendation.recommended;
  tuner::Measured measured;
  measured.step_s = samples_of({0.301});
  best.trial.outcome = measured;
  best.step_ci95_s = interval95(measured.step_s);
  const std::string text = render_study_report(report, {.width = 80, .unicode = false, .color = false});
  EXPECT_THAT(text, ::testing::HasSubstr("step 301 ms, 1 measurement; predicted"));
  EXPECT_THAT(text, ::testing::Not(::testing::HasSubstr("[301, 301]")));
  EXPECT_THAT(text, ::testing::HasSubstr("Provisional recommendation"));
}

TEST(Pictures, ErrorBarsOfEqualValuesAreOnePoint) {
  const std::string text = render_comparison({{"a", 1, Interval{1, 1}, "", {}, true}, {"b", 2, Interval{1.5, 2}, "x", {}, false}},
                                             {.width = 80, .unicode = false, .color = false});
  EXPECT_THAT(text, ::testing::HasSubstr("#o"));
  EXPECT_THAT(text, ::testing::ContainsRegex("\\[-+o"));
}

TEST(Text, WrapKeepsEveryWord) {
  const std::string text = "a few words that are wrapped, and averyveryverylongonethatcanbebrokennowhere at all";
  for (int columns = 5; columns < 60; columns += 7) EXPECT_EQ(join(wrap(text, columns), " "), text);
  EXPECT_EQ(wrap("", 10).size(), 1U);
}

TEST(Text, WidthsCountCodePoints) {
  EXPECT_EQ(display_width("├──●┤"), 5);
  EXPECT_EQ(display_width("\x1b[31mred\x1b[0m"), 3);
  EXPECT_EQ(clip_text("├──●┤", 3), "├──");
  EXPECT_EQ(pad_left("é", 3), "  é");
}

TEST(Text, TableColumnsAlign) {
  const std::string text =
      render_table({{"name"}, {"n", true}}, {{"a", "1"}, {"long name", "1000"}}, {.width = 80, .unicode = false, .color = false});
  EXPECT_EQ(text, "name          n\n---------  ----\na             1\nlong name  1000\n");
}

TEST(Text, TablesAreNeverWiderThanTheTerminal) {
  const std::string text = render_table({{"name"}, {"modules"}}, {{std::string(60, 'a'), "encoder-embedding .. 6.enc-1st-layernorm"}},
                                        {.width = 80, .unicode = false, .color = false});
  expect_width(text, 80);
  EXPECT_THAT(text, ::testing::HasSubstr("encoder-embedding"));
}

TEST(Units, ARatioThatIsNotOneDoesNotReadAsOne) {
  EXPECT_EQ(format_ratio(1.984), "1.98");
  EXPECT_EQ(format_ratio(1), "1.00");
  EXPECT_EQ(format_ratio(1.0031), "1.003");
  EXPECT_EQ(format_ratio(0.9984), "0.998");
  EXPECT_EQ(format_ratio(0.9999), "0.9999");
  EXPECT_EQ(format_ratio(11), "11.00");
  EXPECT_EQ(format_ratio(1.0000001), "1.0000");
}

TEST(Units, Measurements) {
  EXPECT_EQ(format_interval_seconds({0.0995, 0.4}), "[99.5, 400] ms");
  EXPECT_EQ(format_measured(0.412, Interval{0.41, 0.414}, 44), "412 ms, 95 % [410, 414] ms, 44 measurements");
  EXPECT_EQ(format_measured(0.412, std::nullopt, 1, "step"), "412 ms, 1 step");
  EXPECT_EQ(format_measured(0.412, std::nullopt, 5, "step"), "412 ms, 5 steps") << "five make no 95 % interval";
  EXPECT_EQ(format_measured(0.412, Interval{0.41, 0.414}, 6), "412 ms, 95 % [410, 414] ms, 6 measurements");
}

MemoryRow memory_row(std::int64_t peak, std::int64_t cap) {
  return {.device = "cpu:0",
          .samples = {{0.0, peak / 2}, {0.2, peak}, {0.3, peak / 4}},
          .peak_bytes = peak,
          .cap_bytes = cap,
          .contents = std::nullopt};
}

std::string memory_text(const std::vector<MemoryRow>& rows, const TextStyle& style) {
  TraceReport report;
  report.memory = rows;
  report.timeline_s = 0.4;
  return render_memory(report, style);
}

TEST(Memory, CapsAreDrawnAndSaid) {
  const TextStyle style{.width = 80, .unicode = false, .color = false};
  const std::string under = memory_text({memory_row(96 << 20, 128 << 20)}, style);
  EXPECT_NE(under.find(" cap 128 MiB\n"), std::string::npos) << under;
  EXPECT_NE(under.find("peak 96.0 MiB, 75.0 % of 128 MiB"), std::string::npos) << under;
  EXPECT_EQ(under.find('X'), std::string::npos);
  const std::string over = memory_text({memory_row(129 << 20, 128 << 20)}, style);
  EXPECT_NE(over.find("OVER its cap of 128 MiB by 1.00 MiB"), std::string::npos) << over;
  EXPECT_NE(over.find('X'), std::string::npos) << over;
  EXPECT_NE(memory_text({memory_row((128 << 20) + 1, 128 << 20)}, style).find("OVER its cap of 128 MiB by 1 B"), std::string::npos);
  EXPECT_EQ(memory_text({memory_row(128 << 20, 128 << 20)}, style).find("OVER"), std::string::npos);
  const std::string far = memory_text({memory_row(1 << 20, 128 << 20)}, style);
  EXPECT_EQ(far.find(" cap "), std::string::npos) << far;
  EXPECT_NE(far.find("0.8 % of 128 MiB"), std::string::npos) << far;
  EXPECT_EQ(memory_text({memory_row(1 << 20, 0)}, style).find("of"), std::string::npos);
  EXPECT_EQ(memory_text({}, style), "");
}

TEST(Memory, KeepsToTheWidthWhateverTheDevices) {
  for (const int width : {80, 120}) {
    for (const bool unicode : {false, true}) {
      for (const std::size_t devices : {1U, 3U, 20U}) {
        const std::vector<MemoryRow> rows(devices, memory_row(300 << 20, 256 << 20));
        expect_width(memory_text(rows, {.width = width, .unicode = unicode, .color = false}), width);
      }
    }
  }
}

TEST(Fit, SizesAreNeverLessThanAsked) {
  EXPECT_EQ(size_option(1000), "1000B");
  EXPECT_EQ(size_option(10 << 10), "10KiB");
  EXPECT_EQ(size_option((10 << 10) + 1), "11KiB");
  EXPECT_EQ(size_option(300 << 20), "300MiB");
  EXPECT_EQ(size_option((300 << 20) + 1), "301MiB");
}

}  // namespace
}  // namespace mptune::reports

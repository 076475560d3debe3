#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "planner/plan/plan_words.h"
#include "planner/search/make_plan.h"
#include "reports/values/report.h"

namespace mptune::testing {

inline reports::TraceReport sample_trace() {
  reports::TraceReport report;
  report.title = "Sample";
  report.step_s = 0.4;
  report.bubble = 0.25;
  report.timeline_s = 0.4;
  report.devices = {{.device = "cpu:0",
                     .window_s = 0.4,
                     .compute_s = 0.25,
                     .copy_s = 0.03,
                     .overlap_s = 0.02,
                     .idle_s = 0.1,
                     .idle = {.host = Nanoseconds{2'000'000},
                              .copy_wait = Nanoseconds{18'000'000},
                              .structural = Nanoseconds{60'000'000},
                              .imbalance = Nanoseconds{20'000'000}},
                     .peak_bytes = 430'000'000},
                    {.device = "cpu:1",
                     .window_s = 0.4,
                     .compute_s = 0.3,
                     .copy_s = 0,
                     .overlap_s = 0,
                     .idle_s = 0.1,
                     .idle = {.structural = Nanoseconds{99'900'000}, .unexplained = Nanoseconds{100'000}},
                     .peak_bytes = 2'000'000'000}};
  report.has_stages = true;
  report.bubble_theory = 0.2;
  planner::Advice more;
  more.cause = planner::IdleCause::structural;
  more.saves_s = 0.04;
  more.saves_percent = 10;
  more.remedy = planner::OtherMicrobatches{8, 4};
  planner::Advice move = more;
  move.cause = planner::IdleCause::imbalance;
  move.stage = 0;
  move.saves_s = 0.012;
  move.saves_percent = 3;
  move.remedy = planner::MoveLayer{"layer3.2", 1, {6}};
  report.advice = {more, move};
  report.critical_path = {{"stage 1", 0.24, 0.6}, {"copies cpu:0 to cpu:1", 0.1, 0.25}, {"gaps", 0.06, 0.15}};
  report.links = {{.source = "cpu:0", .destination = "cpu:1", .copies = 8, .bytes = 12'000'000, .time_s = 0.01, .exposed_s = 0.004}};
  planner::PeakContents contents;
  contents.parameters_bytes = contents.gradients_bytes = 90'000'000;
  contents.activations_bytes = {{0, 100'000'000}, {1, 100'000'000}};
  contents.workspace_bytes = 40'000'000;
  report.memory = {{.device = "cpu:0",
                    .samples = {{0.05, 280'000'000}, {0.1, 380'000'000}, {0.26, 280'000'000}, {0.38, 180'000'000}},
                    .peak_bytes = 430'000'000,
                    .cap_bytes = 350'000'000,
                    .contents = contents},
                   {.device = "cpu:1", .samples = {}, .peak_bytes = 2'000'000'000, .cap_bytes = 2'100'000'000, .contents = std::nullopt}};
  const auto add = [&](int device, EventKind kind, int microbatch, double start, double end) {
    report.timeline.push_back({.device = device, .kind = kind, .stage = device, .microbatch = microbatch, .start_s = start, .end_s = end});
  };
  add(0, EventKind::forward, 0, 0, 0.05);
  add(0, EventKind::forward, 1, 0.05, 0.1);
  add(0, EventKind::backward, 0, 0.16, 0.26);
  add(0, EventKind::backward, 1, 0.29, 0.38);
  add(0, EventKind::optimizer, -1, 0.38, 0.4);
  add(1, EventKind::forward, 0, 0.06, 0.1);
  add(1, EventKind::backward, 0, 0.1, 0.15);
  add(1, EventKind::forward, 1, 0.15, 0.2);
  add(1, EventKind::backward, 1, 0.2, 0.28);
  return report;
}

inline std::vector<reports::CurvePoint> sample_curve() {
  return {{.split_size = 1, .predicted_s = 0.5, .measured_s = std::nullopt, .measured_ci95_s = {}},
          {.split_size = 2, .predicted_s = 0.42, .measured_s = 0.45, .measured_ci95_s = Interval{0.43, 0.47}},
          {.split_size = 4, .predicted_s = 0.36, .measured_s = 0.37, .measured_ci95_s = Interval{0.365, 0.372}},
          {.split_size = 8, .predicted_s = 0.38, .measured_s = 0.385, .measured_ci95_s = Interval{0.38, 0.39}},
          {.split_size = 16, .predicted_s = 0.52, .measured_s = std::nullopt, .measured_ci95_s = {}}};
}

inline tuner::Trial measured_trial(const std::string& name, const Plan& plan, double step_s) {
  tuner::Measured measured;
  measured.step_s = samples_of(std::vector<double>(12, step_s));
  measured.peak_bytes = {400'000'000, 380'000'000};
  tuner::Trial trial;
  trial.name = name;
  trial.plan = plan;
  trial.plan_key = name;
  trial.outcome = measured;
  return trial;
}

inline Plan one_device_plan(Plan plan) {
  plan.devices = {"cpu:0"};
  plan.microbatch_sizes = {16};
  plan.stages = {{.first_layer = 0, .last_layer = 18, .devices = {0}, .recompute = {}}};
  return plan;
}

/// A table of kinds with a row of each sort: best, slower, not in the final comparison, never tried, impossible.
inline tuner::KindComparison sample_kinds(const Plan& pipeline) {
  tuner::KindComparison kinds;
  const auto add = [&](planner::Parallelism kind, const Plan& plan, double step_s, double over_one, Verdict verdict) {
    tuner::KindResult row;
    row.kind = kind;
    row.trial = measured_trial(to_string(kind), plan, step_s);
    row.step_s = step_s;
    row.step_ci95_s = Interval{0.98 * step_s, 1.03 * step_s};
    row.peak_bytes.assign(plan.devices.size(), 400'000'000);
    row.description = describe(plan);
    row.predicted_step_s = step_s;
    row.over_one_device =
        Speedup{.estimate = over_one, .ci95 = Interval{over_one, over_one}, .pairs = 12, .verdict = Verdict::fast, .reason = ""};
    row.over_best = Speedup{.estimate = 0.301 / step_s, .ci95 = Interval{0.3, 0.9}, .pairs = 12, .verdict = verdict, .reason = ""};
    kinds.rows.push_back(row);
  };
  Plan one = one_device_plan(pipeline);
  add(planner::Parallelism::one_device, one, 0.52, 1, Verdict::slow);
  one.devices = {"cpu:0-1"};
  add(planner::Parallelism::all_cores, one, 0.36, 1.44, Verdict::slow);
  kinds.rows.back().why_not = tuner::NotInFinal{};
  kinds.rows.back().over_one_device = kinds.rows.back().over_best = std::nullopt;
  tuner::KindResult& never = kinds.rows.emplace_back();
  never.kind = planner::Parallelism::data_parallel;
  never.why_not = tuner::NotTried{};
  never.description = "data parallel over 2 devices";
  never.predicted_step_s = 0.32;
  add(planner::Parallelism::pipeline, pipeline, 0.301, 1.73, Verdict::same);
  kinds.rows.back().best = true;
  kinds.rows.back().peak_bytes = {400'000'000, 380'000'000};
  tuner::KindResult& impossible = kinds.rows.emplace_back();
  impossible.kind = planner::Parallelism::hybrid;
  impossible.why_not = tuner::NoPlan{.why = tuner::NoPlan::Why::needs_devices, .needed = 3, .available = 2};
  kinds.advice = {tuner::FastestKind{.kind = planner::Parallelism::pipeline,
                                     .over_one_device = 1.73,
                                     .next = planner::Parallelism::one_device,
                                     .next_time_ratio = 1.73},
                  tuner::Outlook{{{1, planner::Parallelism::one_device, 1.73}, {4, planner::Parallelism::hybrid, 0.56}}}};
  return kinds;
}

inline reports::StudyReport sample_study() {
  PlanOptions options;
  options.devices = {"cpu:0", "cpu:1"};
  options.batch = 16;
  options.layers = 18;
  options.cuts = {7};
  options.microbatches = 4;
  options.schedule = "1f1b";
  const Plan plan = make_plan(options);
  reports::StudyReport report;
  report.model = "resnet50";
  report.study = "resnet50.study";
  report.plan_file = "resnet50.study/resnet50.plan.json";
  report.trace_files = {"resnet50.study/traces/recommended.sqlite"};
  report.training.model = "resnet50";
  report.run_command = "mptune run resnet50 --input 3x64x64 --plan /w/resnet50.study/resnet50.plan.json";
  report.resume_command = "mptune tune --resume /w/resnet50.study --budget 5min";
  report.curve = sample_curve();
  report.co_running_slowdown = 1.07;
  report.lower_bound_s = 0.29;
  report.gap = 0.04;
  report.elapsed_s = 142;
  report.stop_reason = "no untried plan is predicted to win by 1 %";
  report.trace = sample_trace();
  report.limit = reports::limit_share(0.301, 0.52, 2, 1.07, report.trace);
  auto& best = report.recommendation.recommended;
  best.trial = measured_trial("candidate", plan, 0.301);
  best.description = "pipeline of 2 stages, 1f1b, 4 micro-batches of 4";
  best.step_s = 0.301;
  best.step_ci95_s = Interval{0.299, 0.303};
  best.predicted_step_s = 0.295;
  best.peak_bytes = {400'000'000, 380'000'000};
  best.verdict = Verdict::fast;
  best.reasons = {tuner::FastestOf{9}, tuner::LongestStage{1}};
  report.recommendation.best_pipeline = best;
  report.recommendation.kinds = sample_kinds(plan);
  report.recommendation.advice = {tuner::BestInHalfMemory{{.plan = plan, .time_ratio = 1.06, .memory_ratio = 0.45}}};
  report.recommendation.warnings = {tuner::FewRounds{8, 10}};
  for (const auto& [name, step_s] :
       std::vector<std::pair<std::string, double>>{{"single_device", 0.52}, {"naive_model_parallel", 0.55}, {"data_parallel", 0.32}}) {
    report.recommendation.baselines.push_back(
        {.name = name,
         .trial = measured_trial(name, name == "single_device" ? one_device_plan(plan) : plan, step_s),
         .step_s = step_s,
         .step_ci95_s = Interval{step_s * 0.97, step_s * 1.04},
         .peak_bytes = {400'000'000, 380'000'000},
         .speedup = {.estimate = step_s / 0.301,
                     .ci95 = Interval{step_s / 0.31, step_s / 0.29},
                     .pairs = 12,
                     .verdict = Verdict::fast,
                     .reason = ""}});
  }
  return report;
}

/// A study in a folder of a user, of whose files texts of every kind speak.
inline reports::StudyReport study_of_a_home(const std::string& home) {
  reports::StudyReport report = sample_study();
  const std::string folder = home + "/models";
  report.study = folder + "/resnet50.study";
  report.plan_file = report.study + "/resnet50.plan.json";
  report.report_file = report.study + "/report.html";
  report.trace_files = {report.study + "/traces/recommended.sqlite"};
  report.run_command = "mptune run " + folder + "/net.pt2 --plan " + report.plan_file;
  report.resume_command = "mptune tune --resume " + report.study;
  report.training.model = folder + "/net.pt2";
  report.training.data = folder + "/data.pt";
  const tuner::Infeasible failed{"can't read " + folder + "/net.pt2: no such file"};
  tuner::Recommendation& all = report.recommendation;
  report.trials = {all.recommended.trial};
  report.trials[0].outcome = failed;
  all.warnings.push_back(tuner::NoTraceOf{"candidate", "the disk is full: " + folder + "/t.sqlite"});
  const tuner::UnmeasuredPlan unmeasured{.name = "candidate",
                                         .plan_key = "key",
                                         .plan = all.recommended.trial.plan,
                                         .description = "a plan",
                                         .predicted_step_s = 0.3,
                                         .alone_s = {},
                                         .why = tuner::TrialFailed{failed}};
  all.unmeasured.baselines = {unmeasured};
  all.unmeasured.candidates = {unmeasured};
  return report;
}

}  // namespace mptune::testing

#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "mptune/planner/search/search.h"
#include "mptune/reports/report.h"

namespace mptune::testing {

inline TraceReport sample_trace() {
  TraceReport report;
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
  Advice more;
  more.cause = IdleCause::structural;
  more.saves_s = 0.04;
  more.saves_percent = 10;
  more.remedy = OtherMicrobatches{8, 4};
  Advice move = more;
  move.cause = IdleCause::imbalance;
  move.stage = 0;
  move.saves_s = 0.012;
  move.saves_percent = 3;
  move.remedy = MoveLayer{"9 (layer3.2, layer3.3, layer3.4)", 1};
  report.advice = {more, move};
  report.critical_path = {{"stage 1", 0.24, 0.6}, {"copies cpu:0 to cpu:1", 0.1, 0.25}, {"gaps", 0.06, 0.15}};
  report.links = {{.source = "cpu:0", .destination = "cpu:1", .copies = 8, .bytes = 12'000'000, .time_s = 0.01, .exposed_s = 0.004}};
  PeakContents contents;
  contents.parameters_bytes = contents.gradients_bytes = 90'000'000;
  contents.activations_bytes = {{0, 100'000'000}, {1, 100'000'000}};
  contents.workspace_bytes = 40'000'000;
  report.memory = {{.device = "cpu:0",
                    .samples = {{0.05, 280'000'000}, {0.1, 380'000'000}, {0.26, 280'000'000}, {0.38, 180'000'000}},
                    .peak_bytes = 430'000'000,
                    .cap_bytes = 350'000'000,
                    .contents = contents},
                   {.device = "cpu:1", .samples = {}, .peak_bytes = 2'000'000'000, .cap_bytes = 2'100'000'000, .contents = std::nullopt}};
  const auto add = [&](int device, What what, int microbatch, double start, double end) {
    report.timeline.push_back({.device = device, .what = what, .stage = device, .microbatch = microbatch, .start_s = start, .end_s = end});
  };
  add(0, What::forward, 0, 0, 0.05);
  add(0, What::forward, 1, 0.05, 0.1);
  add(0, What::backward, 0, 0.16, 0.26);
  add(0, What::backward, 1, 0.29, 0.38);
  add(0, What::optimizer, -1, 0.38, 0.4);
  add(1, What::forward, 0, 0.06, 0.1);
  add(1, What::backward, 0, 0.1, 0.15);
  add(1, What::forward, 1, 0.15, 0.2);
  add(1, What::backward, 1, 0.2, 0.28);
  return report;
}

inline std::vector<CurvePoint> sample_curve() {
  return {{.split_size = 1, .predicted_s = 0.5, .measured_s = std::nullopt, .measured_ci95_s = {}},
          {.split_size = 2, .predicted_s = 0.42, .measured_s = 0.45, .measured_ci95_s = {0.43, 0.47}},
          {.split_size = 4, .predicted_s = 0.36, .measured_s = 0.37, .measured_ci95_s = {0.365, 0.372}},
          {.split_size = 8, .predicted_s = 0.38, .measured_s = 0.385, .measured_ci95_s = {0.38, 0.39}},
          {.split_size = 16, .predicted_s = 0.52, .measured_s = std::nullopt, .measured_ci95_s = {}}};
}

inline Trial measured_trial(const std::string& name, const Plan& plan, double step_s) {
  Measured measured;
  measured.step_s = samples_of(std::vector<double>(12, step_s));
  measured.peak_bytes = {400'000'000, 380'000'000};
  Trial trial;
  trial.name = name;
  trial.plan = plan;
  trial.plan_key = name;
  trial.outcome = measured;
  return trial;
}

/// A table of kinds with a row of each sort: best, slower, not in the final comparison, never tried, impossible.
inline KindComparison sample_kinds(const Plan& pipeline) {
  KindComparison kinds;
  const auto add = [&](Parallelism kind, const Plan& plan, double step_s, double over_one, Verdict verdict) {
    KindResult row;
    row.kind = kind;
    row.trial = measured_trial(to_string(kind), plan, step_s);
    row.step_s = step_s;
    row.step_ci95_s = {0.98 * step_s, 1.03 * step_s};
    row.peak_bytes.assign(plan.devices.size(), 400'000'000);
    row.description = describe(plan);
    row.predicted_step_s = step_s;
    row.over_one_device = Speedup{.estimate = over_one, .ci95 = {over_one, over_one}, .pairs = 12, .verdict = Verdict::fast, .reason = ""};
    row.over_best = Speedup{.estimate = 0.301 / step_s, .ci95 = {0.3, 0.9}, .pairs = 12, .verdict = verdict, .reason = ""};
    kinds.rows.push_back(row);
  };
  Plan one = pipeline;
  one.devices = {"cpu:0"};
  one.microbatch_sizes = {16};
  one.stages = {{.first_layer = 0, .last_layer = 18, .devices = {0}, .recompute = {}}};
  add(Parallelism::one_device, one, 0.52, 1, Verdict::slow);
  one.devices = {"cpu:0-1"};
  add(Parallelism::all_cores, one, 0.36, 1.44, Verdict::slow);
  kinds.rows.back().why_not = NotInFinal{};
  kinds.rows.back().over_one_device = kinds.rows.back().over_best = std::nullopt;
  KindResult& never = kinds.rows.emplace_back();
  never.kind = Parallelism::data_parallel;
  never.why_not = NotTried{};
  never.description = "data parallel over 2 devices";
  never.predicted_step_s = 0.32;
  add(Parallelism::pipeline, pipeline, 0.301, 1.73, Verdict::same);
  kinds.rows.back().best = true;
  kinds.rows.back().peak_bytes = {400'000'000, 380'000'000};
  KindResult& impossible = kinds.rows.emplace_back();
  impossible.kind = Parallelism::hybrid;
  impossible.why_not = NoPlan{.why = NoPlan::Why::needs_devices, .needed = 3, .available = 2};
  kinds.advice = {FastestKind{.kind = Parallelism::pipeline, .over_one_device = 1.73, .next = Parallelism::one_device, .next_time_ratio = 1.73},
                  Outlook{{{1, Parallelism::one_device, 1.73}, {4, Parallelism::hybrid, 0.56}}}};
  return kinds;
}

inline StudyReport sample_study() {
  Plan plan;
  plan.devices = {"cpu:0", "cpu:1"};
  plan.microbatch_sizes = {4, 4, 4, 4};
  plan.stages = {{.first_layer = 0, .last_layer = 7, .devices = {0}, .recompute = {}},
                 {.first_layer = 7, .last_layer = 18, .devices = {1}, .recompute = {}}};
  plan.schedule = "1f1b";
  StudyReport report;
  report.model = "resnet50";
  report.study = "resnet50.study";
  report.plan_file = "resnet50.study/resnet50.plan.json";
  report.trace_files = {"resnet50.study/traces/recommended.sqlite"};
  report.run_command = "mptune run resnet50 --plan resnet50.study/resnet50.plan.json";
  report.curve = sample_curve();
  report.co_running_slowdown = 1.07;
  report.lower_bound_s = 0.29;
  report.gap = 0.04;
  report.elapsed_s = 142;
  report.stop_reason = "no untried plan is predicted to win by 1 %";
  report.trace = sample_trace();
  report.limit = limit_share(0.301, 0.52, 2, 1.07, report.trace);
  auto& best = report.recommendation.recommended;
  best.trial = measured_trial("candidate", plan, 0.301);
  best.description = "pipeline of 2 stages, 1f1b, 4 micro-batches of 4";
  best.step_s = 0.301;
  best.step_ci95_s = {0.299, 0.303};
  best.predicted_step_s = 0.295;
  best.peak_bytes = {400'000'000, 380'000'000};
  best.verdict = Verdict::fast;
  best.reasons = {FastestOf{9}, LongestStage{1}};
  report.recommendation.best_pipeline = best;
  report.recommendation.kinds = sample_kinds(plan);
  report.recommendation.advice = {BestInHalfMemory{{.plan = plan, .time_ratio = 1.06, .memory_ratio = 0.45}}};
  report.recommendation.warnings = {FewRounds{8, 10}};
  for (const auto& [name, step_s] :
       std::vector<std::pair<std::string, double>>{{"single_device", 0.52}, {"naive_model_parallel", 0.55}, {"data_parallel", 0.32}}) {
    report.recommendation.baselines.push_back(
        {.name = name,
         .trial = measured_trial(name, plan, step_s),
         .step_s = step_s,
         .step_ci95_s = {step_s * 0.97, step_s * 1.04},
         .peak_bytes = {400'000'000, 380'000'000},
         .speedup = {
             .estimate = step_s / 0.301, .ci95 = {step_s / 0.31, step_s / 0.29}, .pairs = 12, .verdict = Verdict::fast, .reason = ""}});
  }
  return report;
}

}  // namespace mptune::testing

// Aceso's published GPT models, head to head: the best plans by its objective and how long they take to prove, its measured steps
// predicted, micro-batch sizes left out of its tables. Takes no arguments; prints to stdout.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <ctime>
#include <map>
#include <vector>

#include "planner/schedule/schedule.h"
#include "planner/simulate/simulate.h"
#include "profiler/base/index.h"
#include "tests/support/aceso_tables.h"

namespace mptune::testing {
namespace {

constexpr double kMiB = 1 << 20;

double cpu_seconds() {
  return static_cast<double>(std::clock()) / CLOCKS_PER_SEC;
}

void show(const planner::AcesoPlan& plan) {
  std::printf("  %d micro-batches of %d, %.4f s\n", plan.microbatches, plan.samples, static_cast<double>(plan.step_ns) / 1e9);
  for (const planner::AcesoStage& stage : plan.stages) {
    std::printf("    operators [%3d, %3d), %d of them, %d recomputed in %.3f ms, turn %.3f ms, held %.0f + reserved %.0f MB\n", stage.first,
                stage.last, stage.last - stage.first, static_cast<int>(stage.recomputed.size()),
                static_cast<double>(stage.recompute_ns) / 1e6, static_cast<double>(stage.turn_ns) / 1e6,
                static_cast<double>(stage.held_bytes) / kMiB, static_cast<double>(stage.reserved_bytes) / kMiB);
  }
}

// The fastest of five runs: least disturbed by other programs.
void head_to_head(const std::string& model, int devices) {
  const planner::AcesoProblem problem = testing::published_problem(model, devices);
  planner::AcesoResult result;
  double least = 1e9;
  for (int round = 0; round < 5; ++round) {
    const double started = cpu_seconds();
    result = planner::plan_aceso(problem);
    least = std::min(least, cpu_seconds() - started);
  }
  std::printf("%s on %d devices, 28,000 MB, 1024 samples: no pipeline under %.4f s, gap %.2f %%, proved in %.3f s of one core\n",
              model.c_str(), devices, static_cast<double>(result.lower_bound_ns) / 1e9, result.gap() * 100, least);
  for (const planner::AcesoPlan& plan : result.best) show(plan);
}

struct Published {
  std::string model;
  int samples;
  std::vector<int> bounds;
  std::vector<int> recomputed;
  double measured_s;
  double measured_mb;
  double aceso_s;
};

// search/single_gpu_configs/gpt_350M_mbs8_recomp.json and Aceso's printed plan of GPT-1.3B; ref_perf_model_*_large_gpt.csv.
std::vector<Published> published() {
  std::vector<int> layers;
  for (int i = 1; i < 314; ++i) layers.push_back(i);
  return {{"gpt_350M", 8, {0, 315}, layers, 190.58, 14820, 200.71},
          {"gpt_1_3B", 1, {0, 79, 163, 247, 315}, {5, 6, 18, 19, 31, 32}, 100.28, 22082, 101.18}};
}

double percent_over(double predicted, double measured) {
  return (predicted / measured - 1) * 100;
}

// By the tables' own rule (rate_aceso), at the fullest stage, without and with what is reserved.
void show_memory(const Published& run) {
  const std::vector<int> cuts(run.bounds.begin() + 1, run.bounds.end() - 1);
  const planner::AcesoPlan plan =
      planner::rate_aceso(testing::published_problem(run.model, static_cast<int>(cuts.size()) + 1), run.samples, cuts, run.recomputed);
  const planner::AcesoStage& fullest =
      *std::max_element(plan.stages.begin(), plan.stages.end(),
                        [](const planner::AcesoStage& a, const planner::AcesoStage& b) { return a.peak_bytes() < b.peak_bytes(); });
  const double held_mb = static_cast<double>(fullest.held_bytes) / kMiB;
  const double peak_mb = static_cast<double>(fullest.peak_bytes()) / kMiB;
  std::printf("  memory: measured %.0f MB, held %.0f MB (%+.1f %%), with the reserve %.0f MB (%+.1f %%)\n", run.measured_mb, held_mb,
              percent_over(held_mb, run.measured_mb), peak_mb, percent_over(peak_mb, run.measured_mb));
}

void predict_measured() {
  double sum = 0;
  for (const Published& run : published()) {
    Plan plan;
    plan.microbatch_sizes.assign(as_index(1024 / run.samples), run.samples);
    for (std::size_t s = 0; s + 1 < run.bounds.size(); ++s) {
      plan.devices.push_back("device:" + std::to_string(s));
      plan.stages.push_back({run.bounds[s], run.bounds[s + 1], {static_cast<int>(s)}, {}});
    }
    plan.stages.front().recompute = {Recompute::Mode::some, run.recomputed, {}};
    planner::make_schedule(plan, "1f1b");
    const CostModel cost(testing::published_profile(run.model, static_cast<int>(plan.devices.size())));
    const Prediction prediction = predict(plan, cost);
    std::printf("%s as run: measured %.2f s; ours %.2f s (%+.2f %%); Aceso's %.2f s (%+.2f %%)\n", run.model.c_str(), run.measured_s,
                prediction.step_s, percent_over(prediction.step_s, run.measured_s), run.aceso_s, percent_over(run.aceso_s, run.measured_s));
    show_memory(run);
    sum += std::abs(percent_over(prediction.step_s, run.measured_s)) / 2;
  }
  std::printf("mean error of the step time: %.2f %%\n", sum);
}

void leave_sizes_out(const std::string& model) {
  std::map<int, std::vector<profiler::OperatorRow>> tables;
  for (const auto& [samples, path] : profiler::operator_table_files(shared_data("aceso") + "/" + model)) {
    profiler::TextInput input = profiler::open_text(path);
    tables[samples] = profiler::read_operator_table(input);
  }
  const auto cost_of = [](const std::map<int, std::vector<profiler::OperatorRow>>& known) {
    Profile profile = profiler::profile_of_operators(known, "tables");
    profile.devices.push_back({"device:0", 0, 0});
    return CostModel(profile);
  };
  const CostModel whole = cost_of(tables);
  for (const auto& [samples, rows] : tables) {
    double table_s = 0;
    for (const profiler::PlacedOperator& placed : profiler::operators_in_order(rows, 24))
      table_s += rows[placed.row].forward_s + rows[placed.row].backward_s;
    std::map<int, std::vector<profiler::OperatorRow>> others = tables;
    others.erase(samples);
    const double guess_s = testing::turn_seconds(cost_of(others), samples);
    std::printf("%s without the table of %d samples: %.2f ms, %+.2f %% of the profile's with it, %+.2f %% of the table itself%s\n",
                model.c_str(), samples, guess_s * 1e3, percent_over(guess_s, testing::turn_seconds(whole, samples)),
                percent_over(guess_s, table_s),
                samples == tables.begin()->first || samples == tables.rbegin()->first ? " (extrapolated)" : "");
  }
}

}  // namespace
}  // namespace mptune::testing

int main() {
  if (mptune::testing::shared_data("aceso").empty()) {
    std::puts("needs the operator tables of Aceso in ../shared/data or MPTUNE_DATA_DIR");
    return 0;
  }
  mptune::testing::head_to_head("gpt_1_3B", 4);
  mptune::testing::head_to_head("gpt_1_3B", 8);
  mptune::testing::head_to_head("gpt_350M", 4);
  mptune::testing::predict_measured();
  mptune::testing::leave_sizes_out("gpt_350M");
  mptune::testing::leave_sizes_out("gpt_1_3B");
  return 0;
}

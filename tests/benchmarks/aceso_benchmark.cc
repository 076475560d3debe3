#include <benchmark/benchmark.h>

#include <cstdio>
#include <ctime>

#include "mptune/tests/support/aceso_tables.h"

namespace mptune {
namespace {

double cpu_seconds() {
  return static_cast<double>(std::clock()) / CLOCKS_PER_SEC;
}

void show(const AcesoPlan& plan) {
  std::printf("  %.4f s: %d micro-batches of %d\n", static_cast<double>(plan.step_ns) / 1e9, plan.microbatches, plan.samples);
  for (const AcesoStage& stage : plan.stages) {
    std::printf("    operators %3d to %3d (%2d), %zu recomputed (%.3f ms), turn %.3f ms, held %.0f + reserved %.0f MB\n", stage.first,
                stage.last, stage.last - stage.first, stage.recomputed.size(), static_cast<double>(stage.recompute_ns) / 1e6,
                static_cast<double>(stage.turn_ns) / 1e6, static_cast<double>(stage.held_bytes) / (1 << 20),
                static_cast<double>(stage.reserved_bytes) / (1 << 20));
  }
}

void run(const std::string& model, int devices) {
  AcesoProblem problem = test::published_problem(model, devices);
  if (problem.tables.empty()) {
    std::printf("%s: no data\n", model.c_str());
    return;
  }
  const double started = cpu_seconds();
  const AcesoResult result = plan_aceso(problem);
  const double took = cpu_seconds() - started;
  std::printf("%s on %d devices: lower bound %.4f s, gap %.4f %%, %s, %d sweeps, %lld recomputations, %.3f s of one core\n", model.c_str(),
              devices, static_cast<double>(result.lower_bound_ns) / 1e9, result.gap() * 100, result.complete ? "proved" : "stopped",
              result.sweeps, static_cast<long long>(result.recomputations), took);
  for (const AcesoPlan& plan : result.best) show(plan);
}

}  // namespace
}  // namespace mptune

int main() {
  mptune::run("gpt_1_3B", 4);
  return 0;
}

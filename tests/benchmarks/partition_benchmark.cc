#include <algorithm>
#include <cstdio>
#include <ctime>
#include <string>

#include "planner/partition/partition.h"
#include "tests/benchmarks/public_chains.h"

namespace mptune::testing {
namespace {

double cpu_ms() {
  return 1e3 * static_cast<double>(std::clock()) / CLOCKS_PER_SEC;
}

std::string cuts_text(const Plan& plan) {
  std::string text;
  for (std::size_t s = 1; s < plan.stages.size(); ++s) text += (s > 1 ? "," : "") + std::to_string(plan.stages[s].first_layer);
  return text;
}

// Fastest of several runs; one run if it takes long.
void print_row(const PublicChain& chain, int stages, int microbatches, double bytes_per_second) {
  constexpr int kRounds = 3;
  const CostModel cost(on_devices(chain.profile, stages, bytes_per_second));
  const planner::PartitionProblem problem = chain_problem(chain, stages, microbatches);
  planner::PartitionResult result;
  double best_ms = 1e9;
  for (int round = 0; round < kRounds && (round == 0 || best_ms < 1000); ++round) {
    const double start = cpu_ms();
    result = planner::partition(problem, cost);
    best_ms = std::min(best_ms, cpu_ms() - start);
  }
  if (result.best.empty()) {
    std::printf("%-26s %4d %2d has fewer layers that may be cut off\n", chain.name.c_str(), cost.layers(), stages);
    return;
  }
  std::printf("%-26s %4d %2d %3d %5.0f %12.3f %8.3f %% %9.2f %9lld %6lld  %s\n", chain.name.c_str(), cost.layers(), stages, microbatches,
              bytes_per_second / 1e9, static_cast<double>(result.best.front().step_ns) * 1e-6, 100 * result.gap(), best_ms,
              static_cast<long long>(result.nodes), static_cast<long long>(result.simulated), cuts_text(result.best.front().plan).c_str());
  std::fflush(stdout);
}

}  // namespace
}  // namespace mptune::testing

// The best partition of every public chain under 1F1B, with its proof. The aim: gap 0 in 10 ms for up to 4 stages and in 100 ms for up to 8
// for chains of up to 100 layers; 2 % in 1 s for longer ones. `benchmark_partition 16` for 16 stages.
int main(int argc, char** argv) {
  std::vector<int> stage_counts = {2, 4, 8};
  if (argc > 1) stage_counts = {std::stoi(argv[1])};
  std::printf("%-26s %4s %2s %3s %5s %12s %10s %9s %9s %6s  cuts\n", "chain", "n", "K", "M", "GB/s", "optimum ms", "gap", "CPU ms", "nodes",
              "timed");
  for (const mptune::testing::PublicChain& chain : mptune::testing::public_chains()) {
    for (const int stages : stage_counts) {
      if (stages > static_cast<int>(chain.profile.layers.size())) continue;
      for (const int microbatches : {8, 32})
        for (const double bytes_per_second : {12e9, 300e9}) mptune::testing::print_row(chain, stages, microbatches, bytes_per_second);
    }
  }
  return 0;
}

#include <cstdio>
#include <ctime>
#include <string>

#include "planner/published/max_load.h"
#include "profiler/trace/formats/placement_json.h"
#include "tests/support/files.h"

namespace mptune::testing {
namespace {

double cpu_seconds() {
  return static_cast<double>(std::clock()) / CLOCKS_PER_SEC;
}

void print_row(const std::string& name) {
  constexpr int kRounds = 5;
  const std::string path = shared_data("placement/" + name + "_training.json");
  if (path.empty()) {
    std::printf("%-12s no published graph here\n", name.c_str());
    return;
  }
  const profiler::PlacementGraph graph = profiler::read_placement_json(path);
  planner::LoadPartition partition;
  double best_s = 1e9;
  for (int round = 0; round < kRounds; ++round) {
    const double start = cpu_seconds();
    partition = planner::least_max_load(graph);
    best_s = std::min(best_s, cpu_seconds() - start);
  }
  std::printf("%-12s %9.4f %9.4f %7.2f %% %8lld %11lld %9.4f\n", name.c_str(), static_cast<double>(partition.load_ns) * 1e-6,
              static_cast<double>(partition.lower_bound_ns) * 1e-6, 100 * partition.gap(), static_cast<long long>(partition.ideals),
              static_cast<long long>(partition.pairs), best_s);
}

}  // namespace
}  // namespace mptune::testing

// Published (contiguous dynamic programming): 41.75 ms in 7 ms, 107.0 in 24 s, 78.63 in 0.51 s, Inception-v3 unfinished.
int main() {
  std::printf("%-12s %9s %9s %9s %8s %11s %9s\n", "graph", "load ms", "bound ms", "gap", "ideals", "pairs", "CPU s");
  for (const char* name : {"bert24", "gnmt", "resnet50", "inceptionv3"}) mptune::testing::print_row(name);
  return 0;
}

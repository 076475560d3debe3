#include <benchmark/benchmark.h>

#include <ctime>
#include <random>

#include "planner/plan/plan_words.h"
#include "planner/search/search.h"
#include "tests/planner/profiles.h"

namespace mptune::testing {
namespace {

double cpu_ms() {
  return 1e3 * static_cast<double>(std::clock()) / CLOCKS_PER_SEC;
}

// Unequal layers, copies and sums over replicas that cost something, as real profiles have them.
CostModel unequal_profile(int layers, int devices) {
  std::mt19937 random(1);
  testing::ProfileShape shape = testing::random_shape(random, layers, devices);
  shape.sizes = {1, 2, 4, 8, 16, 32};
  shape.reduce_s_per_byte = 1e-4;
  return CostModel(testing::with_names(testing::make_profile(shape, testing::random_factors(random, layers)), testing::cpu_names(devices)));
}

// Whole backwards only, split ones as well, idle devices that help as well.
enum Runtime : std::int64_t { whole, split, helping };

// CPU time until the first plan, until the best plan, and of the whole search with proof, alternatives and plans that are not runnable.
void search_time(benchmark::State& state) {
  const int devices = static_cast<int>(state.range(1));
  const CostModel cost = unequal_profile(static_cast<int>(state.range(0)), devices);
  const std::int64_t runtime = state.range(3);
  SearchSpace space;
  for (int d = 0; d < devices; ++d) space.devices.push_back("cpu:" + std::to_string(d));
  space.batch = 32;
  space.capabilities.split_backward = runtime != whole;
  space.idle_devices_help = runtime == helping;
  space.keep = static_cast<int>(state.range(2));
  double first_ms = 0;
  double last_ms = 0;
  SearchResult result;
  for (auto _ : state) {
    const double started = cpu_ms();
    first_ms = 0;
    space.improved = [&](const Candidate&) {
      last_ms = cpu_ms() - started;
      if (first_ms == 0) first_ms = last_ms;
    };
    result = search_plans(space, cost);
  }
  state.counters["first_ms"] = first_ms;
  state.counters["best_known_ms"] = last_ms;
  state.counters["simulated"] = static_cast<double>(result.simulated);
  state.counters["proved"] = result.complete ? 1 : 0;
  state.SetLabel(describe(result.ranked.front().plan));
}
BENCHMARK(search_time)
    ->ArgNames({"layers", "devices", "keep", "runtime"})
    ->ArgsProduct({{18}, {2}, {1, 32}, {whole, split, helping}})
    ->ArgsProduct({{20}, {4}, {1, 32}, {whole, split, helping}})
    ->ArgsProduct({{62}, {8}, {1, 32}, {whole, split, helping}})
    ->Unit(benchmark::kMillisecond);

// What a search of limited time finds: the gap between its best plan and its bound, in percent. `microbatches` 0: the search chooses.
// `schedules` 0: all; 1: 1f1b.
void gap_in_time(benchmark::State& state) {
  const int devices = static_cast<int>(state.range(1));
  const CostModel cost = unequal_profile(static_cast<int>(state.range(0)), devices);
  SearchSpace space;
  for (int d = 0; d < devices; ++d) space.devices.push_back("cpu:" + std::to_string(d));
  space.batch = std::max<int>(512, static_cast<int>(state.range(2)));
  if (state.range(2) > 0) space.microbatch_counts = {static_cast<int>(state.range(2))};
  if (state.range(3) > 0) space.schedules = {"1f1b"};
  space.capabilities.split_backward = true;
  const double seconds = static_cast<double>(state.range(4)) / 1000;
  SearchResult result;
  double ms = 0;
  for (auto _ : state) {
    const double started = cpu_ms();
    space.stop = [&](double part) { return cpu_ms() - started > 1e3 * seconds * part; };
    result = search_plans(space, cost);
    ms = cpu_ms() - started;
  }
  state.counters["search_ms"] = ms;
  state.counters["gap_percent"] = 100 * (1 - result.lower_bound_s / result.ranked.front().prediction.step_s);
  state.SetLabel(describe(result.ranked.front().plan));
}
BENCHMARK(gap_in_time)
    ->ArgNames({"layers", "devices", "microbatches", "schedules", "ms"})
    ->Args({100, 8, 0, 1, 100})
    ->Args({100, 8, 0, 1, 20'000})
    ->Args({100, 8, 0, 0, 1'000})
    ->Args({100, 8, 0, 0, 20'000})
    ->Args({100, 32, 0, 0, 5'000})
    ->Args({100, 64, 0, 0, 5'000})
    ->Args({400, 16, 0, 0, 1'000})
    ->Args({400, 16, 0, 0, 5'000})
    ->Args({1'000, 4, 0, 0, 5'000})
    ->Args({1'000, 64, 512, 0, 30'000})
    ->Iterations(1)
    ->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace mptune::testing

#include <benchmark/benchmark.h>

#include <random>

#include "planner/schedule/schedule_info.h"
#include "planner/simulate/operations.h"
#include "planner/simulate/simulate.h"
#include "profiler/base/index.h"
#include "tests/planner/profiles.h"

namespace mptune::testing {
namespace {

// Unequal layers, copies and devices that slow each other, as real profiles have them.
CostModel busy_profile(int layers, int devices) {
  std::mt19937 random(1);
  testing::ProfileShape shape = testing::random_shape(random, layers, devices);
  shape.sizes = {1, 2, 4, 8, 16, 32};
  shape.busy = 1.2;
  return CostModel(testing::make_profile(shape, testing::random_factors(random, layers)));
}

void predict_actions(benchmark::State& state) {
  const int stages = static_cast<int>(state.range(0));
  const int m = static_cast<int>(state.range(1));
  const CostModel cost = busy_profile(18, stages);
  const std::vector<int> replicas(as_index(stages), 1);
  const Plan plan = testing::scheduled(testing::stages_of(18, replicas, split_evenly(64, m)), "1f1b");
  for (auto _ : state) benchmark::DoNotOptimize(predict(plan, cost));
  state.counters["actions_per_second"] =
      benchmark::Counter(2.0 * stages * m, benchmark::Counter::kIsIterationInvariantRate, benchmark::Counter::kIs1000);
}
BENCHMARK(predict_actions)->Args({2, 4})->Args({2, 8})->Args({2, 32})->Args({4, 8})->Args({4, 32})->Unit(benchmark::kMicrosecond);

// Split backwards on stages in a V: two on each of four devices.
void predict_split(benchmark::State& state) {
  const int m = static_cast<int>(state.range(0));
  const CostModel cost = busy_profile(18, 4);
  Plan plan = testing::stages_of(18, std::vector<int>(8, 1), split_evenly(64, m), 4);
  const std::vector<int> devices = planner::stage_devices("zbv", 4, 2);
  for (std::size_t s = 0; s < devices.size(); ++s) plan.stages[s].devices = {devices[s]};
  planner::make_schedule(plan, "zbv");
  std::size_t actions = 0;
  for (const std::vector<Action>& row : plan.actions) actions += row.size();
  for (auto _ : state) benchmark::DoNotOptimize(predict(plan, cost));
  state.counters["actions_per_second"] =
      benchmark::Counter(static_cast<double>(actions), benchmark::Counter::kIsIterationInvariantRate, benchmark::Counter::kIs1000);
}
BENCHMARK(predict_split)->Arg(8)->Arg(32)->Unit(benchmark::kMicrosecond);

// Simulation without memory and lower bound: lists actions, assigns costs and times.
void time_actions(benchmark::State& state) {
  const int stages = static_cast<int>(state.range(0));
  const int m = static_cast<int>(state.range(1));
  const CostModel cost = busy_profile(18, stages);
  const std::vector<int> replicas(as_index(stages), 1);
  const Plan plan = testing::scheduled(testing::stages_of(18, replicas, split_evenly(64, m)), "1f1b");
  for (auto _ : state) benchmark::DoNotOptimize(planner::time_operations(planner::list_operations(plan, cost)));
  state.counters["actions_per_second"] =
      benchmark::Counter(2.0 * stages * m, benchmark::Counter::kIsIterationInvariantRate, benchmark::Counter::kIs1000);
}
BENCHMARK(time_actions)->Args({4, 8})->Args({4, 32})->Unit(benchmark::kMicrosecond);

void simulate_events(benchmark::State& state) {
  const CostModel cost = busy_profile(18, 2);
  const Plan plan = testing::scheduled(testing::stages_of(18, {1, 1}, split_evenly(64, static_cast<int>(state.range(0)))), "1f1b");
  std::size_t events = 0;
  for (auto _ : state) events += simulate(plan, cost).trace.events.size();
  state.counters["events_per_second"] =
      benchmark::Counter(static_cast<double>(events), benchmark::Counter::kIsRate, benchmark::Counter::kIs1000);
}
BENCHMARK(simulate_events)->Arg(8)->Arg(32)->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace mptune::testing

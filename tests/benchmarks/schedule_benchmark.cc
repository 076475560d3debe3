// Simulated schedules: time of the generators, bubble of the zero-bubble schedules on four published cost tuples, and gain of the list
// schedule on unequal stages and links.
#include <time.h>

#include <algorithm>
#include <cstdio>
#include <functional>
#include <limits>
#include <random>

#include "planner/schedule/schedule.h"
#include "planner/schedule/schedule_info.h"
#include "planner/schedule/timing.h"
#include "profiler/base/index.h"
#include "tests/planner/schedule/mapped.h"

namespace mptune::testing {
namespace {

double cpu_ms() {
  timespec now{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) * 1e3 + static_cast<double>(now.tv_nsec) * 1e-6;
}

double best_ms(const std::function<void()>& work) {
  double best = std::numeric_limits<double>::infinity();
  for (int i = 0; i < 5; ++i) {
    const double start = cpu_ms();
    work();
    best = std::min(best, cpu_ms() - start);
  }
  return best;
}

// Forward, input gradient, weight gradient of a stage and a copy, in microseconds; the share of the bytes that stays between the gradients
// (transformers of 1.5, 6.2, 14.6 and 28.3 billion parameters, arXiv 2401.10241).
struct Tuple {
  std::int64_t forward, input, weight, copy, held_of_1000;
};
constexpr Tuple kTuples[] = {
    {18522, 18086, 9337, 601, 366}, {29718, 29444, 19927, 527, 432}, {11347, 11248, 8132, 377, 432}, {10419, 10207, 7715, 408, 432}};

planner::ScheduleCosts costs_of(const Tuple& tuple, int devices, int virtual_stages) {
  planner::StageCosts stage;
  stage.forward_ns = tuple.forward / virtual_stages;
  stage.backward_input_ns = tuple.input / virtual_stages;
  stage.backward_weight_ns = tuple.weight / virtual_stages;
  stage.backward_ns = stage.backward_input_ns + stage.backward_weight_ns;
  stage.send_output_ns = stage.send_gradient_ns = tuple.copy;
  stage.saved_activation_bytes = 1000;
  stage.held_bytes = tuple.held_of_1000;
  return {std::vector<planner::StageCosts>(as_index(devices * virtual_stages), stage), {}};
}

void print_times() {
  std::printf("CPU ms of a schedule for p = 32 devices, m = 96 micro-batches (best of 5)\n");
  for (const std::string& name : planner::schedule_names()) {
    const int m = name == "naive" ? 1 : 96;
    const int v = testing::stages_per_device(name, name == "interleaved" || name == "looped-bfs" ? 2 : 1);
    Plan plan = testing::mapped(name, 32, v, m);
    const planner::ScheduleCosts costs = costs_of(kTuples[0], 32, v);
    std::printf("  %-12s %6.2f\n", name.c_str(), best_ms([&] { planner::make_schedule(plan, name, &costs); }));
  }
}

void print_bubbles() {
  std::printf("\nbubble in %% of a device's span (of the step), memory in micro-batches of 1F1B's p\n");
  std::printf("  %-5s %3s %3s", "tuple", "p", "m");
  const std::vector<std::string> names = {"1f1b", "zb1p", "zb2p", "zbv", "v-half", "v-min", "dualpipe-v", "interleaved"};
  for (const std::string& name : names) std::printf(" %19s", name.c_str());
  std::printf("\n");
  for (const Tuple& tuple : kTuples) {
    for (const int p : {4, 8, 16, 32}) {
      for (const int m : {p, 2 * p, 3 * p}) {
        std::printf("  %-5td %3d %3d", &tuple - kTuples, p, m);
        for (const std::string& name : names) {
          const int v = testing::stages_per_device(name, name == "interleaved" ? 2 : 1);
          Plan plan = testing::mapped(name, p, v, m);
          const planner::ScheduleCosts costs = costs_of(tuple, p, v);
          planner::make_schedule(plan, name, &costs);
          const planner::ScheduleTiming timing = planner::time_schedule(plan, costs);
          const auto work = static_cast<double>(m * v * (costs.stages[0].forward_ns + costs.stages[0].backward_ns));
          const auto percent = [&](std::int64_t whole) { return 100 * (1 - work / static_cast<double>(whole)); };
          const double memory = static_cast<double>(std::ranges::max(planner::most_saved_bytes(plan, costs))) / (1000.0 * p * v);
          std::printf("  %5.2f (%5.2f) %4.2f", percent(timing.span_ns), percent(timing.end_ns), memory);
        }
        std::printf("\n");
      }
    }
  }
}

struct Unequal {
  int devices, virtual_stages, m, kept;  // kept: micro-batches that fit, 0: any
  bool in_a_v;
};

planner::ScheduleCosts unequal_costs(std::mt19937& random, const Unequal& shape) {
  const auto draw = [&](double low, double high) {
    return static_cast<std::int64_t>(1000 * std::uniform_real_distribution<>(low, high)(random));
  };
  planner::ScheduleCosts costs;
  for (int s = 0; s < shape.devices * shape.virtual_stages; ++s) {
    planner::StageCosts stage{draw(5, 15), 0, draw(5, 15), draw(3, 12), 1000, 1000, draw(0, 8), 0};
    stage.backward_ns = stage.backward_input_ns + stage.backward_weight_ns;
    stage.send_gradient_ns = stage.send_output_ns;
    costs.stages.push_back(stage);
  }
  if (shape.kept > 0) costs.free_bytes.assign(as_index(shape.devices), 1000 * shape.kept * shape.virtual_stages);
  return costs;
}

// Lower bound: the busiest device waits for its first input and then does all its work.
std::int64_t least_ns(const planner::Layout& layout, const planner::ScheduleCosts& costs) {
  std::vector<std::int64_t> work(as_index(layout.devices()), 0);
  std::vector<std::int64_t> head(work.size(), std::numeric_limits<std::int64_t>::max());
  std::int64_t arrival_ns = 0;
  for (int s = 0; s < layout.stages(); ++s) {
    const planner::StageCosts& stage = costs.stages[as_index(s)];
    const auto d = as_index(layout.device_of(s, 0));
    head[d] = std::min(head[d], arrival_ns);
    work[d] += layout.microbatches() * (stage.forward_ns + stage.backward_input_ns + stage.backward_weight_ns);
    arrival_ns +=
        stage.forward_ns + (s + 1 < layout.stages() && layout.device_of(s + 1, 0) != layout.device_of(s, 0) ? stage.send_output_ns : 0);
  }
  std::int64_t least = 0;
  for (std::size_t d = 0; d < work.size(); ++d) least = std::max(least, head[d] + work[d]);
  return least;
}

void print_unequal() {
  std::printf(
      "\nunequal stages and links, 5 draws each: step of list against the best named schedule that fits, and against a lower bound\n");
  std::printf("  %3s %3s %3s %5s %-4s %10s %10s %10s %8s %8s\n", "p", "v", "m", "fit", "map", "mean %", "best %", "worst %", "bound %",
              "ms");
  std::mt19937 random(1);
  for (const Unequal& shape : {Unequal{2, 1, 4, 0, false},
                               {2, 1, 4, 2, false},
                               {4, 1, 8, 0, false},
                               {4, 1, 8, 4, false},
                               {4, 1, 16, 5, false},
                               {8, 1, 24, 8, false},
                               {2, 2, 6, 0, false},
                               {4, 2, 8, 0, false},
                               {4, 2, 8, 0, true},
                               {4, 2, 16, 4, true},
                               {8, 2, 24, 8, true},
                               {32, 1, 96, 32, false}}) {
    double sum = 0, most = -std::numeric_limits<double>::infinity(), least = -most, bound = 0, ms = 0;
    for (int draw = 0; draw < 5; ++draw) {
      Plan plan = testing::mapped(shape.in_a_v ? "zbv" : "gpipe", shape.devices, shape.virtual_stages, shape.m);
      const planner::ScheduleCosts costs = unequal_costs(random, shape);
      const planner::Layout layout(plan);
      auto named = std::numeric_limits<std::int64_t>::max();
      for (const std::string& name : planner::schedule_names()) {
        if (name == "list" || !planner::missing_for(planner::schedule_info(name), layout).empty()) continue;
        planner::make_schedule(plan, name, &costs);
        const std::vector<std::int64_t> kept = planner::most_saved_bytes(plan, costs);
        if (!costs.free_bytes.empty() && std::ranges::max(kept) > costs.free_bytes.front()) continue;
        named = std::min(named, planner::time_schedule(plan, costs).end_ns);
      }
      ms = std::max(ms, best_ms([&] { planner::make_schedule(plan, "list", &costs); }));
      const auto listed = static_cast<double>(planner::time_schedule(plan, costs).end_ns);
      const double change = 100 * (listed / static_cast<double>(named) - 1);
      sum += change;
      most = std::max(most, change);
      least = std::min(least, change);
      bound = std::max(bound, 100 * (listed / static_cast<double>(least_ns(layout, costs)) - 1));
    }
    std::printf("  %3d %3d %3d %5d %-4s %10.2f %10.2f %10.2f %8.2f %8.2f\n", shape.devices, shape.virtual_stages, shape.m, shape.kept,
                shape.in_a_v ? "V" : "mod", sum / 5, least, most, bound, ms);
  }
}

}  // namespace
}  // namespace mptune::testing

int main() {
  mptune::testing::print_times();
  mptune::testing::print_bubbles();
  mptune::testing::print_unequal();
}

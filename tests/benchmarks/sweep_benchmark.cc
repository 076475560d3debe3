// The planner's choice against a measured sweep of every plan: each cut into as many stages as there are devices (of GPUs in each
// order), 1, 2, 4 .. 32 micro-batches, gpipe and 1f1b.
//   benchmark_sweep MODEL [INPUT [BATCH [DEVICES [ROUNDS [SCHEDULES [PLANS [FOLDER [PLAN]]]]]]]]
// SCHEDULES: others, such as zb1p,zb2p,zbv,v-half,v-min,dualpipe-v,interleaved-late; CPU devices also help each other where they split the
// backward. PLANS: at most so many (400), half of them those predicted to be fastest. Sleeping devices sleep as the model's layers take.
// FOLDER: where profile and measured steps of CPU or sleeping devices are written for benchmark_trials; "" for none. PLAN: a plan file,
// which takes the place of the planner's choice. All plans are measured in turn, in a new order each round; after the first round those go
// on that may still be the best or that are far from what was predicted, and the planner's choice. Printed: the choice against the best
// (paired, with its interval), the error of the predictions beyond the interval of what was measured, and predicted over measured peaks.
// Exit 1 where the choice is more than 1 % behind beyond its interval.
#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "planner/plan/file/plan_file.h"
#include "planner/plan/plan_words.h"
#include "profiler/base/text.h"
#include "profiler/device/cpu_allocator.h"
#include "profiler/device/device.h"
#include "profiler/device/list/device_list.h"
#include "profiler/measure/sleep_model.h"
#include "profiler/model/loading/load_model.h"
#include "profiler/trace/store/store.h"
#include "tests/benchmarks/recorded_space.h"
#include "tests/benchmarks/sweep.h"
#include "tuner/runtime/graph/capabilities.h"

using namespace mptune;
using namespace mptune::testing;

namespace {

constexpr int kMostMicrobatches = 32;
constexpr int kMostPlans = 400;
constexpr double kUnreliable = 0.05;  // off by more after one round: the prediction or the measurement

struct Range {
  double least = 1e9, most = -1e9, sum = 0;
  void add(double value) {
    least = std::min(least, value);
    most = std::max(most, value);
    sum += value;
  }
};

bool sleeps(const Plan& plan) {
  return parse_device(plan.devices.front()).kind == DeviceSpec::Kind::sleep;
}

std::string name_of(const Plan& plan) {
  std::vector<std::string> cuts;
  for (std::size_t s = 1; s < plan.stages.size(); ++s) cuts.push_back(std::to_string(plan.stages[s].first_layer));
  return describe(plan) + " of " + join(plan.devices, ",") + ", cut at " + join(cuts, ",");
}

void print_group(const std::vector<const SweptPlan*>& group) {
  Range errors;
  std::vector<Range> peaks(group.front()->peak_bytes.size());
  for (const SweptPlan* swept : group) {
    errors.add(100 * (swept->prediction.step_s / median(swept->step_s) - 1));
    for (std::size_t d = 0; d < peaks.size(); ++d)
      peaks[d].add(static_cast<double>(swept->prediction.peak_bytes[d]) / static_cast<double>(swept->peak_bytes[d]));
  }
  const SweptPlan& best = **std::ranges::min_element(group, {}, [](const SweptPlan* swept) { return median(swept->step_s); });
  std::printf("%-8s %5d %12.1f %10.1f   %+6.1f %+6.1f %+6.1f  ", best.plan.schedule.c_str(), best.plan.num_microbatches(),
              1e3 * median(best.step_s), 1e3 * best.prediction.step_s, errors.least, errors.sum / static_cast<double>(group.size()),
              errors.most);
  for (const Range& peak : peaks) std::printf("%s%.3f to %.3f", &peak == &peaks.front() ? " " : ", ", peak.least, peak.most);
  std::puts("");
}

void print_groups(const std::vector<SweptPlan>& all) {
  std::map<std::pair<std::string, int>, std::vector<const SweptPlan*>> groups;
  for (const SweptPlan& swept : all) groups[{swept.plan.schedule, swept.plan.num_microbatches()}].push_back(&swept);
  std::puts("over all cuts:           best cut, ms              error, %          predicted over measured peak");
  std::puts("schedule     m     measured  predicted    least   mean   most   device 0, device 1 ..");
  for (const auto& [name, group] : groups) print_group(group);
}

void print_errors(const std::vector<SweptPlan>& all) {
  double sum = 0, largest = 0, sum_beyond = 0, largest_beyond = 0, least_peak = 1e9, most_peak = 0;
  int under = 0;
  const SweptPlan* worst = nullptr;
  for (const SweptPlan& swept : all) {
    const double error = std::abs(swept.prediction.step_s / median(swept.step_s) - 1), beyond = error_beyond_interval(swept);
    sum += error;
    sum_beyond += beyond;
    if (error > largest) worst = &swept;
    largest = std::max(largest, error);
    largest_beyond = std::max(largest_beyond, beyond);
    for (std::size_t d = 0; d < swept.peak_bytes.size(); ++d) {
      const double ratio = static_cast<double>(swept.prediction.peak_bytes[d]) / static_cast<double>(swept.peak_bytes[d]);
      least_peak = std::min(least_peak, ratio);
      most_peak = std::max(most_peak, ratio);
      under += ratio < 1 ? 1 : 0;
    }
  }
  const auto count = static_cast<double>(all.size());
  std::printf("predictions of %zu plans: error mean %.2f %%, largest %.2f %%; beyond the interval of what was measured %.2f and %.2f %%\n",
              all.size(), 100 * sum / count, 100 * largest, 100 * sum_beyond / count, 100 * largest_beyond);
  if (worst != nullptr)
    std::printf("worst: %s: predicted %.1f ms, measured %.1f\n", name_of(worst->plan).c_str(), 1e3 * worst->prediction.step_s,
                1e3 * median(worst->step_s));
  if (!sleeps(all.front().plan))
    std::printf("peak memory: predicted %.3f to %.3f times the measured; %d peaks under\n", least_peak, most_peak, under);
}

void print_plan(const char* name, const SweptPlan& swept) {
  const Interval ci = interval95(swept.step_s).value_or(range_of(swept.step_s));
  std::printf("%-16s %s: measured %.1f ms [%.1f, %.1f], predicted %.1f\n", name, name_of(swept.plan).c_str(), 1e3 * median(swept.step_s),
              1e3 * ci.low, 1e3 * ci.high, 1e3 * swept.prediction.step_s);
}

void record_space(const std::string& folder, const Profile& profile, const std::vector<SweptPlan>& all) {
  std::vector<RecordedPlan> plans;
  for (const SweptPlan& swept : all) {
    RecordedPlan& plan = plans.emplace_back(RecordedPlan{.choice = choice_of(swept.plan), .step_s = {}});
    for (const Sample& sample : swept.step_s.values) plan.step_s.push_back(sample.value);
  }
  write_space(folder, profile, plans);
}

/// With these schedules, given as a list, instead of the space's own; idle devices help.
SearchSpace space_of(const std::string& schedules, SearchSpace space) {
  if (schedules.empty()) return space;
  space.schedules = mptune::split(schedules, ',');
  space.virtual_counts = {1, 2};
  space.stage_counts.push_back(2 * space.stage_counts.front());
  space.idle_devices_help = true;
  space.capabilities = tuner::kRuntime;
  return space;
}

int run(int argc, char** argv) {
  const std::string input = argc > 2 ? argv[2] : "";
  const Model model = load_model(argv[1], input, 0).model;
  const int batch = argc > 3 ? std::atoi(argv[3]) : model.default_batch();
  const int rounds = argc > 5 ? std::atoi(argv[5]) : 8;
  profiler::MeasureOptions options;
  options.devices = parse_devices(argc > 4 ? argv[4] : "cpu:0,cpu:1");
  options.batch = batch;
  const std::string folder = argc > 8 ? argv[8] : "";
  if (!folder.empty() && orders_of(names_of(options.devices)).size() > 1)
    throw Error("a recorded space has one order of devices", folder, "record one of CPU or sleeping devices");
  Profile profile = profiler::measure_profile(model, synthetic_batch(model.sample(), batch, 0), options);
  for (DeviceClass& device_class : profile.classes) device_class.optimizer_seconds_per_byte = 0;  // the steps below run no optimizer
  const CostModel cost(profile);
  std::vector<int> counts;
  for (int m = 1; m <= std::min(batch, kMostMicrobatches); m *= 2) counts.push_back(m);
  const SearchSpace space = space_of(argc > 6 ? argv[6] : "", sweep_space(options.devices, batch, counts));
  std::vector<SweptPlan> all = thinned(every_plan(space, cost), argc > 7 ? as_index(std::atoi(argv[7])) : kMostPlans);
  const std::size_t choice = argc > 9 ? add_plan(load_plan_file(argv[9]).plan, all, cost) : planners_choice(all, space, cost);
  const auto made = [&] { return sleeps(all.front().plan) ? profiler::make_sleep_model(profile) : load_model(argv[1], input, 0).model; };
  Sweep sweep{made, synthetic_batch(made().sample(), batch, 0)};
  sweep.rounds = rounds;
  sweep.unreliable = [](const SweptPlan& swept) { return error_beyond_interval(swept) > kUnreliable; };
  sweep.after_first = [&](std::size_t left) {
    std::printf("%zu plans; after one round %zu go on: within %.0f %% of the best, or off by over %.0f %%\n", all.size(), left,
                100 * (sweep.within - 1), 100 * kUnreliable);
    std::fflush(stdout);
  };
  sweep.run(all, choice);
  if (!folder.empty()) record_space(folder, profile, all);
  const std::size_t best = fastest_of(all);
  print_plan(argc > 9 ? "the plan" : "planner's choice", all[choice]);
  print_plan("best measured", all[best]);
  print_groups(all);
  print_errors(all);
  if (choice == best) return std::puts("the choice is the best"), 0;
  const Speedup behind = paired_speedup(all[choice].step_s, all[best].step_s);
  const Interval ends = behind.ci95.value_or(behind.range.value_or(Interval{1, 1}));
  std::printf("the choice takes %.2f %% longer than the best, %s [%.2f, %.2f] of %d pairs\n", 100 * (behind.estimate - 1),
              behind.ci95 ? "95 % interval" : "range", 100 * (ends.low - 1), 100 * (ends.high - 1), behind.pairs);
  return ends.low > 1.01 ? 1 : 0;
}

}  // namespace

int main(int argc, char** argv) try {
  prepare_gpus();
  install_cpu_accounting();
  if (argc < 2) {
    std::puts("usage: benchmark_sweep MODEL [INPUT [BATCH [DEVICES [ROUNDS [SCHEDULES [PLANS [FOLDER [PLAN]]]]]]]]");
    return 2;
  }
  return run(argc, argv);
} catch (const Error& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return static_cast<int>(error.code());
}

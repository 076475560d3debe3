// Predicted against measured step time and peak memory of random plans.
//   benchmark_prediction sleep                                   sleeping devices, K = 2 to 8; exit 1 above 1 % mean or 3 % maximum
//   benchmark_prediction MODEL [INPUT [BATCH [DEVICES]]]         real kernels, 20 plans that were not measured before; exit 1 where
//                                                                a device's predicted peak is not 0.8 to 1.5 times the measured one
#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>

#include "planner/plan/plan_words.h"
#include "planner/search/make_plan.h"
#include "planner/simulate/simulate.h"
#include "profiler/base/error.h"
#include "profiler/base/index.h"
#include "profiler/device/cpu_allocator.h"
#include "profiler/device/list/device_list.h"
#include "profiler/measure/measure.h"
#include "profiler/measure/sleep_model.h"
#include "profiler/model/loading/load_model.h"
#include "profiler/trace/statistics/samples.h"
#include "tests/benchmarks/sleeping_devices.h"
#include "tuner/runtime/pipeline.h"

using namespace mptune;
using namespace mptune::testing;

namespace {

// Predicted over measured peak of a device.
constexpr double kLeastPeak = 0.8;
constexpr double kMostPeak = 1.5;

struct Errors {
  std::vector<double> relative;
  void add(const Plan& plan, const Prediction& prediction, double measured) {
    const double error = prediction.step_s / measured - 1;
    relative.push_back(std::abs(error));
    double busiest = 0;
    for (double busy : prediction.busy_s) busiest = std::max(busiest, busy);
    std::printf("%-72s predicted %8.2f ms  measured %8.2f ms  %+6.2f %%  busiest device %2.0f %%\n", describe(plan).c_str(),
                1e3 * prediction.step_s, 1e3 * measured, 100 * error, 100 * busiest / prediction.step_s);
    std::fflush(stdout);
  }
  /// Mean error of plans with measured and with interpolated micro-batch sizes; the worst plan.
  void print_what_dominates(const std::vector<Plan>& plans, const std::vector<int>& measured_at) const {
    double sum[2] = {0, 0};
    int count[2] = {0, 0};
    for (std::size_t i = 0; i < plans.size(); ++i) {
      const bool known = std::binary_search(measured_at.begin(), measured_at.end(), plans[i].microbatch_sizes.front());
      sum[known] += relative[i];
      ++count[known];
    }
    const auto worst = as_index(std::max_element(relative.begin(), relative.end()) - relative.begin());
    std::printf("mean %.2f %% of %d plans at measured micro-batch sizes, %.2f %% of %d between them; worst: %s\n",
                count[1] > 0 ? 100 * sum[1] / count[1] : 0, count[1], count[0] > 0 ? 100 * sum[0] / count[0] : 0, count[0],
                describe(plans[worst]).c_str());
  }
  void add_peaks(const Plan& plan, const Prediction& prediction, const std::vector<std::int64_t>& measured) {
    for (std::size_t d = 0; d < measured.size(); ++d) {
      const double ratio = static_cast<double>(prediction.peak_bytes[d]) / static_cast<double>(measured[d]);
      if (ratio < kLeastPeak || ratio > kMostPeak)
        std::printf("  peak of %s with layers %d to %d: predicted %lld bytes, measured %lld\n", plan.devices[d].c_str(),
                    plan.stages[d].first_layer, plan.stages[d].last_layer - 1, static_cast<long long>(prediction.peak_bytes[d]),
                    static_cast<long long>(measured[d]));
      least_peak = std::min(least_peak, ratio);
      most_peak = std::max(most_peak, ratio);
    }
  }
  double least_peak = 1e9;  ///< predicted over measured, of all devices of all plans
  double most_peak = 0;
  [[nodiscard]] double mean() const {
    double sum = 0;
    for (double error : relative) sum += error;
    return sum / static_cast<double>(relative.size());
  }
  [[nodiscard]] double largest() const { return *std::max_element(relative.begin(), relative.end()); }
};

Plan random_plan(std::mt19937& random, const std::vector<std::string>& devices, int layers, int batch) {
  const auto pick = [&](int low, int high) { return std::uniform_int_distribution<int>(low, high)(random); };
  PlanOptions options;
  options.devices = devices;
  options.batch = batch;
  options.layers = layers;
  options.stages = static_cast<int>(devices.size());
  std::vector<int> cuts;
  for (int i = 1; i < layers; ++i) cuts.push_back(i);
  std::shuffle(cuts.begin(), cuts.end(), random);
  cuts.resize(devices.size() - 1);
  std::sort(cuts.begin(), cuts.end());
  options.cuts = cuts;
  options.microbatches = pick(1, std::min(batch, 12));
  options.schedule = pick(0, 1) == 0 ? "gpipe" : "1f1b";
  options.recompute = pick(0, 3) == 0 ? "all" : "none";
  return make_plan(options);
}

double measured_step(Pipeline& pipeline, const Batch& batch, int steps) {
  for (int i = 0; i < 2; ++i) (void)pipeline.step(batch.inputs, batch.target);
  std::vector<double> seconds;
  for (int i = 0; i < steps; ++i) seconds.push_back(pipeline.step(batch.inputs, batch.target).seconds);
  return median(std::move(seconds));
}

int sleep_devices() {
  std::mt19937 random(7);
  Errors errors;
  for (int devices = 2; devices <= 8; ++devices)
    for (int repeat = 0; repeat < 4; ++repeat) {
      const int layers = devices + 4, batch = 16;
      Profile profile = sleep_profile(random, layers, batch, 1e-3, 4e-3);
      measure_fixed(profile, devices);
      std::vector<std::string> names;
      for (const ProfileDevice& device : profile.devices) names.push_back(device.name);
      const Plan plan = random_plan(random, names, layers, batch);
      const Model model = profiler::make_sleep_model(profile);
      const Batch data = synthetic_batch(model.sample(), batch, 0);
      Pipeline pipeline(profiler::make_sleep_model(profile), plan);
      errors.add(plan, predict(plan, CostModel(profile)), measured_step(pipeline, data, 5));
    }
  std::printf("mean %.2f %%, maximum %.2f %% over %zu plans\n", 100 * errors.mean(), 100 * errors.largest(), errors.relative.size());
  return errors.mean() <= 0.01 && errors.largest() <= 0.03 ? 0 : 1;
}

int real_kernels(int argc, char** argv) {
  const std::string input = argc > 2 ? argv[2] : "";
  const Model model = load_model(argv[1], input, 0).model;
  const int batch = argc > 3 ? std::atoi(argv[3]) : model.default_batch();
  profiler::MeasureOptions options;
  options.devices = parse_devices(argc > 4 ? argv[4] : "auto");
  options.batch = batch;
  const Batch data = synthetic_batch(model.sample(), batch, 0);
  Profile profile = profiler::measure_profile(model, data, options);
  const double slowdown = profile.co_running_slowdown;
  profile.classes[0].optimizer_seconds_per_byte = 0;  // the steps below run no optimizer
  const CostModel cost(profile);
  std::vector<std::string> names;
  for (const DeviceSpec& device : options.devices) names.push_back(device.name);
  std::mt19937 random(11);
  Errors errors;
  std::vector<Plan> plans;
  for (int i = 0; i < 20; ++i) {
    const Plan plan = random_plan(random, names, model.size(), batch);
    Pipeline pipeline(load_model(argv[1], input, 0).model, plan);
    const Prediction prediction = predict(plan, cost);
    errors.add(plan, prediction, measured_step(pipeline, data, 3));
    errors.add_peaks(plan, prediction, pipeline.peak_bytes());
    plans.push_back(plan);
  }
  std::printf("mean %.2f %%, maximum %.2f %% over %zu plans; co-running slow-down %.2f\n", 100 * errors.mean(), 100 * errors.largest(),
              errors.relative.size(), slowdown);
  errors.print_what_dominates(plans, profiler::measured_sizes(batch));
  std::printf("peak memory: predicted %.2f to %.2f times the measured\n", errors.least_peak, errors.most_peak);
  return errors.least_peak >= kLeastPeak && errors.most_peak <= kMostPeak ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) try {
  install_cpu_accounting();
  if (argc < 2) {
    std::puts("usage: benchmark_prediction sleep | MODEL [INPUT [BATCH [DEVICES]]]");
    return 2;
  }
  return std::strcmp(argv[1], "sleep") == 0 ? sleep_devices() : real_kernels(argc, argv);
} catch (const Error& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return static_cast<int>(error.code());
}

// Adds one source of delay at a time on sleeping devices, records real steps and analyses the causes of idle time.
//   benchmark_causes      exits with 1 unless the added cause is the largest new one, within 5 % of its predicted cost
#include <array>
#include <cmath>
#include <cstdio>
#include <functional>
#include <map>
#include <utility>

#include "planner/advise/advise.h"
#include "planner/search/make_plan.h"
#include "planner/simulate/simulate.h"
#include "profiler/base/error.h"
#include "profiler/base/index.h"
#include "profiler/device/cpu_allocator.h"
#include "profiler/device/list/device_list.h"
#include "profiler/device/precise_sleep.h"
#include "profiler/measure/measure.h"
#include "profiler/measure/sleep_model.h"
#include "profiler/trace/analyze/breakdown.h"
#include "profiler/trace/analyze/replay.h"
#include "profiler/trace/collect/host_collector.h"
#include "tests/benchmarks/sleeping_devices.h"
#include "tuner/runtime/pipeline.h"

using namespace mptune;
using namespace mptune::testing;

namespace {

constexpr int kSteps = 9;
constexpr int kHeldStep = 4;  // of the recorded ones
constexpr double kForward = 4e-3;
constexpr double kLate = 20e-3;
constexpr double kHeld = 100e-3;  // of one action in one step: much more than sleeps differ by themselves

// A layer that is slow on chosen devices or micro-batches.
class HeldLayer final : public Layer {
 public:
  using Extra = std::function<double(int layer, const RunContext&)>;
  HeldLayer(int index, std::unique_ptr<Layer> inner, Extra extra) : index_(index), inner_(std::move(inner)), extra_(std::move(extra)) {}
  Tensors forward(const Tensors& inputs, const RunContext& context) override {
    const auto start = profiler::SteadyClock::now();
    const double extra = extra_(index_, context);
    Tensors outputs = inner_->forward(inputs, context);
    if (extra > 0) profiler::sleep_until(start + std::chrono::nanoseconds(static_cast<std::int64_t>((kForward + extra) * 1e9)));
    return outputs;
  }
  [[nodiscard]] std::vector<NamedTensor> parameters() const override { return inner_->parameters(); }
  [[nodiscard]] std::vector<NamedTensor> buffers() const override { return inner_->buffers(); }
  [[nodiscard]] std::unique_ptr<Layer> clone() const override { return std::make_unique<HeldLayer>(index_, inner_->clone(), extra_); }
  [[nodiscard]] std::string kind() const override { return inner_->kind(); }

 private:
  int index_;
  std::unique_ptr<Layer> inner_;
  Extra extra_;
};

// Layers of 4 ms forward and 8 ms backward for any micro-batch size, times a factor per layer.
Profile even_profile(const std::vector<double>& factors, int batch) {
  Profile profile;
  profile.model = "sleep";
  profile.batch = batch;
  DeviceClass sleeping{"sleep", {}, 0, 0, 0, 0};
  for (std::size_t i = 0; i < factors.size(); ++i) {
    profile.layers.push_back({"layer" + std::to_string(i), "Sleep", {}, 1, 4, 0, false});
    LayerCosts costs;
    for (const int size : profiler::measured_sizes(batch)) {
      LayerCost cost;
      cost.samples = size;
      cost.forward = exactly(kForward * factors[i]);
      cost.backward = exactly(2 * kForward * factors[i]);
      cost.output_bytes = 1 << 10;
      costs.by_samples.push_back(cost);
    }
    sleeping.layers.push_back(std::move(costs));
    if (i > 0) profile.edges.push_back({static_cast<int>(i) - 1, static_cast<int>(i), 64, 0, true});
  }
  profile.classes.push_back(std::move(sleeping));
  return profile;
}

struct Plant {
  planner::IdleCause cause = planner::IdleCause::unexplained;
  Profile profile;  // with the trouble, where a profile can hold it
  LinkThrottle link;
  HeldLayer::Extra extra;  // beside the layer's own time; null: none
  double late_host_s = 0;  // before every step
};

Trace recorded(const Plan& plan, const Plant& plant, const Profile& layers) {
  Model model = profiler::make_sleep_model(layers);
  if (plant.extra) {
    int index = 0;
    for (ModelLayer& layer : model.layers()) layer.layer = std::make_unique<HeldLayer>(index++, std::move(layer.layer), plant.extra);
  }
  const Batch batch = synthetic_batch(model.sample(), plan.global_batch_size(), 0);
  PipelineOptions options;
  options.link = plant.link;
  Pipeline pipeline(std::move(model), plan, options);
  for (int i = 0; i < 2; ++i) (void)pipeline.step(batch.inputs, batch.target);
  HostCollector collector(pipeline.trace_devices());
  collector.start();
  pipeline.record(&collector);
  for (int i = 0; i < kSteps; ++i) {
    const auto start = profiler::SteadyClock::now();
    if (plant.late_host_s > 0) profiler::sleep_until(start + std::chrono::nanoseconds(static_cast<std::int64_t>(plant.late_host_s * 1e9)));
    (void)pipeline.step(batch.inputs, batch.target);
    collector.add_step(static_cast<int>(pipeline.steps()) - 1, start, profiler::SteadyClock::now());
  }
  pipeline.record(nullptr);
  return collector.stop();
}

constexpr std::array<std::pair<planner::IdleCause, Nanoseconds profiler::IdleCauses::*>, 6> kNamed{
    {{planner::IdleCause::host, &profiler::IdleCauses::host},
     {planner::IdleCause::copy_wait, &profiler::IdleCauses::copy_wait},
     {planner::IdleCause::imbalance, &profiler::IdleCauses::imbalance},
     {planner::IdleCause::straggler, &profiler::IdleCauses::straggler},
     {planner::IdleCause::jitter, &profiler::IdleCauses::jitter},
     {planner::IdleCause::unexplained, &profiler::IdleCauses::unexplained}}};

// Seconds of every cause in the mean step, summed over the devices. A copy that devices wait for counts on the devices that it occupies.
std::map<planner::IdleCause, double> causes_of(const Trace& trace) {
  const profiler::Breakdown breakdown = profiler::break_down(trace);
  std::map<planner::IdleCause, double> sum;
  for (const profiler::StepBreakdown& step : breakdown.steps) {
    for (const profiler::DeviceBreakdown& device : step.devices) {
      if (device.causes.total() != device.idle) throw Error("the causes do not sum to the idle time", "this trace", "mend the analysis");
      for (const auto& [cause, member] : kNamed)
        sum[cause] += static_cast<double>((device.causes.*member).count()) * 1e-9 / static_cast<double>(breakdown.steps.size());
      sum[planner::IdleCause::copy_wait] += static_cast<double>(device.copy.count()) * 1e-9 / static_cast<double>(breakdown.steps.size());
    }
  }
  return sum;
}

// What one held forward costs: the others wait until the step's end comes, which is as much later as a simulated replay says.
double predicted_hold_s(const Plan& plan, const Profile& profile, int stage, int microbatch) {
  const Trace step = simulate(plan, CostModel(profile)).trace;
  std::vector<Nanoseconds> durations;
  Nanoseconds before{0};
  for (const Event& event : step.events) {
    durations.push_back(event.duration);
    before = std::max(before, event.end());
  }
  for (std::size_t i = 0; i < durations.size(); ++i) {
    const Tag& tag = step.tags[as_index(step.events[i].tag)];
    if (step.events[i].kind == EventKind::forward && tag.layer == stage && tag.microbatch == microbatch)
      durations[i] += Nanoseconds{static_cast<std::int64_t>(kHeld * 1e9)};
  }
  Nanoseconds after{0};
  for (const Event& event : profiler::replay(step, durations).events) after = std::max(after, event.end());
  return static_cast<double>((after - before).count()) * 1e-9 * static_cast<double>(plan.devices.size() - 1) / kSteps;
}

class Trials {
 public:
  // `predicted_s` < 0: taken from the simulation of the planted profile.
  void add(const char* what, const Plan& plan, const Profile& healthy, const Plant& plant, double predicted_s = -1) {
    std::map<planner::IdleCause, double> added = causes_of(recorded(plan, plant, plant.profile.layers.empty() ? healthy : plant.profile));
    for (const auto& [cause, seconds] : causes_of(recorded(plan, {}, healthy))) added[cause] -= seconds;
    if (predicted_s < 0) {
      predicted_s = causes_of(simulate(plan, CostModel(plant.profile)).trace)[plant.cause] -
                    causes_of(simulate(plan, CostModel(healthy)).trace)[plant.cause];
    }
    planner::IdleCause largest = plant.cause;
    for (const auto& [cause, seconds] : added)
      if (seconds > added[largest]) largest = cause;
    const double error = added[plant.cause] / predicted_s - 1;
    const bool good = largest == plant.cause && std::abs(error) <= 0.05;
    std::printf("%-28s %-6s planted %-9s %8.2f ms  found %8.2f ms  %+5.1f %%  largest %s%s\n", what, plan.schedule.c_str(),
                to_string(plant.cause), 1e3 * predicted_s, 1e3 * added[plant.cause], 100 * error, to_string(largest),
                good ? "" : "  <-- wrong");
    std::fflush(stdout);
    wrong_ += good ? 0 : 1;
  }
  [[nodiscard]] int wrong() const { return wrong_; }

 private:
  int wrong_ = 0;
};

Plan plan_of(const Profile& profile, const char* schedule, std::vector<int> replicas) {
  PlanOptions options;
  for (const ProfileDevice& device : profile.devices) options.devices.push_back(device.name);
  options.batch = profile.batch;
  options.layers = static_cast<int>(profile.layers.size());
  options.stages = static_cast<int>(replicas.empty() ? options.devices.size() : replicas.size());
  options.microbatches = std::string(schedule) == "naive" ? 1 : profile.batch;
  options.schedule = schedule;
  options.replicas = std::move(replicas);
  return make_plan(options);
}

void plant_in_pipelines(Trials& trials, const char* schedule) {
  const int batch = 8;
  Profile healthy = even_profile({1, 1, 1, 1}, batch);
  measure_fixed(healthy, 4);
  const Plan plan = plan_of(healthy, schedule, {});

  Plant link{.cause = planner::IdleCause::copy_wait, .profile = healthy, .link = parse_link("1GB/s,6ms"), .extra = {}};
  for (LinkCost& cost : link.profile.links) cost.latency_s = 6e-3, cost.bytes_per_second = 1e9;
  trials.add("slow links", plan, healthy, link);

  Plant layer{.cause = planner::IdleCause::imbalance, .profile = even_profile({1, 1, 2, 1}, batch), .link = {}, .extra = {}};
  layer.profile.devices = healthy.devices;
  layer.profile.links = healthy.links;
  layer.profile.classes[0].action_seconds = healthy.classes[0].action_seconds;
  layer.profile.classes[0].step_seconds = healthy.classes[0].step_seconds;
  trials.add("slow layer", plan, healthy, layer);

  const Plant host{.cause = planner::IdleCause::host, .profile = {}, .link = {}, .extra = {}, .late_host_s = kLate};
  trials.add("late host", plan, healthy, host, 4 * kLate);

  // Two warm-up steps come before the first recorded one.
  const int held = plan.num_microbatches() > 1 ? 2 : 0;
  const auto hold = [held](int layer_index, const RunContext& context) {
    return layer_index == 1 && context.step == 2 + kHeldStep && context.microbatch == held ? kHeld : 0.0;
  };
  trials.add("one held action", plan, healthy, {.cause = planner::IdleCause::jitter, .profile = {}, .link = {}, .extra = hold},
             predicted_hold_s(plan, healthy, 1, held));
}

void plant_in_replicas(Trials& trials, const char* schedule) {
  Profile healthy = even_profile({1, 1}, 12);
  measure_fixed(healthy, 6);
  const Plan plan = plan_of(healthy, schedule, {3, 3});
  Plant straggler{.cause = planner::IdleCause::straggler, .profile = {}, .link = {}, .extra = {}};
  straggler.extra = [](int, const RunContext& context) { return context.microbatch % 3 == 1 ? kForward : 0.0; };
  Profile slow = healthy;
  slow.classes.push_back(slow.classes[0]);
  for (LayerCosts& costs : slow.classes[1].layers)
    for (LayerCost& cost : costs.by_samples) cost.forward = exactly(2 * kForward);
  for (const std::size_t device : {1, 4}) slow.devices[device].device_class = 1;
  const double predicted_s = causes_of(simulate(plan, CostModel(slow)).trace)[planner::IdleCause::straggler];
  trials.add("slow replicas", plan, healthy, straggler, predicted_s);
}

}  // namespace

int main() try {
  install_cpu_accounting();
  Trials trials;
  for (const char* schedule : {"naive", "gpipe", "1f1b"}) plant_in_pipelines(trials, schedule);
  for (const char* schedule : {"gpipe", "1f1b"}) plant_in_replicas(trials, schedule);
  return trials.wrong() == 0 ? 0 : 1;
} catch (const Error& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return static_cast<int>(error.code());
}

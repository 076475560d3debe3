#include "profiler/measure/measure.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <set>
#include <string>
#include <utility>

#include "profiler/base/error.h"
#include "profiler/base/index.h"
#include "profiler/base/text.h"
#include "profiler/device/device_worker.h"
#include "profiler/device/precise_sleep.h"
#include "profiler/measure/class_costs.h"
#include "profiler/measure/describe_model.h"
#include "profiler/measure/layer_operators.h"
#include "profiler/measure/layer_time.h"
#include "profiler/measure/link_costs.h"
#include "profiler/measure/optimizer.h"
#include "profiler/measure/size_choice.h"
#include "profiler/measure/sleep_model.h"
#include "profiler/trace/analyze/cost_jumps.h"

namespace mptune::profiler {

namespace {

constexpr double kLinkShare = 0.1;  // of the budget

double now_s() {
  return std::chrono::duration<double>(SteadyClock::now().time_since_epoch()).count();
}

double timed(const std::function<void()>& work) {
  const double start = now_s();
  work();
  return now_s() - start;
}

/// Returns the median of `repeats` calls; after five of them no more are made once half a second has passed.
double median_of(int repeats, const std::function<double()>& once) {
  constexpr int kLeast = 5;
  constexpr double kLongest = 0.5;
  const double start = now_s();
  std::vector<double> values;
  for (int i = 0; i < repeats && (i < kLeast || now_s() - start < kLongest); ++i) values.push_back(once());
  return median(std::move(values));
}

/// Returns the time to start and join the compute threads of all devices, as every step does [s].
double measure_step_seconds(const std::vector<DeviceSpec>& devices) {
  std::vector<std::unique_ptr<DeviceWorker>> workers;
  for (const DeviceSpec& spec : devices) workers.push_back(std::make_unique<DeviceWorker>(make_device(spec)));
  return median_of(100, [&] {
    return timed([&] {
      for (auto& worker : workers) worker->post([] {});
      for (auto& worker : workers) (void)worker->wait();
    });
  });
}

double slowdown_of(const std::vector<DeviceClass>& classes) {
  double sum = 0;
  int count = 0;
  for (const DeviceClass& device_class : classes)
    for (const LayerCosts& layer : device_class.layers)
      for (const LayerCost& cost : layer.by_samples) {
        if (cost.forward_busy.empty() || cost.backward_busy.empty()) continue;
        const double alone = median(cost.forward) + median(cost.backward);
        const double busy = median(cost.forward_busy) + median(cost.backward_busy);
        if (alone <= 0 || busy <= 0) continue;
        sum += std::log(busy / alone);
        ++count;
      }
  return count > 0 ? std::exp(sum / count) : 1;
}

/// Returns the device's cap, or what tensors can have of the GPU's memory; 0: unknown.
std::int64_t memory_of(const MeasureOptions& options, std::size_t device) {
  if (device < options.memory_bytes.size() && options.memory_bytes[device] > 0) return options.memory_bytes[device];
  const DeviceSpec& spec = options.devices[device];
  return spec.kind == DeviceSpec::Kind::cuda ? make_device(spec)->available_bytes() : 0;
}

/// Returns the key of a device's class: GPUs of different models are different classes.
std::string kind_of_device(const DeviceSpec& device) {
  return device_class(device) + (device.kind == DeviceSpec::Kind::cuda ? make_device(device)->description().description : "");
}

/// Returns the index of every device's class, in the order in which classes first occur.
std::vector<int> classes_of(const std::vector<DeviceSpec>& devices) {
  std::vector<std::string> kinds;
  std::vector<int> classes;
  for (const DeviceSpec& device : devices) {
    const std::string kind = kind_of_device(device);
    const auto found = std::find(kinds.begin(), kinds.end(), kind);
    classes.push_back(static_cast<int>(found - kinds.begin()));
    if (found == kinds.end()) kinds.push_back(kind);
  }
  return classes;
}

/// Returns the first device of every class.
std::vector<DeviceSpec> one_of_each(const std::vector<DeviceSpec>& devices, const std::vector<int>& classes) {
  std::vector<DeviceSpec> firsts;
  for (std::size_t i = 0; i < devices.size(); ++i)
    if (as_index(classes[i]) == firsts.size()) firsts.push_back(devices[i]);
  return firsts;
}

/// Returns the devices of one class, with whatever measures them.
ClassDevices devices_of_class(const MeasureOptions& options, const std::vector<DeviceSpec>& measured, const std::vector<int>& classes,
                              int index, const std::vector<int>& sizes) {
  const auto first = as_index(std::find(classes.begin(), classes.end(), index) - classes.begin());
  ClassDevices devices{device_class(options.devices[first]), {measured[first]}, sizes};
  if (!options.pools.empty()) {
    const std::vector<DeviceSpec> others = devices_beside(measured[first], options.pools, options.devices);
    devices.specs.insert(devices.specs.end(), others.begin(), others.end());
    return devices;
  }
  for (std::size_t i = 0; i < measured.size(); ++i)
    if (i != first) devices.specs.push_back(measured[i]);
  return devices;
}

/// Returns the time of a pass over the whole batch, judging by the first class of devices [s].
double batch_pass_seconds(const Profile& profile) {
  double pass_s = 0;
  const std::vector<LayerCosts>& layers = profile.classes.front().layers;
  for (const LayerCosts& layer : layers) pass_s += median(layer.by_samples.back().forward) + median(layer.by_samples.back().backward);
  return pass_s * profile.batch / layers.front().by_samples.back().samples;
}

/// Adds the whole machine as one device and its costs for the whole batch, or for smaller sizes if the batch takes too long.
void measure_whole_machine(const Model& model, const Batch& batch, const MeasureOptions& options, double ends_s, double last_s,
                           Profile& profile) {
  const DeviceSpec whole = parse_device(options.whole_machine);
  const double warm_up_s = kPassesOfWarmUp * batch_pass_seconds(profile);
  const auto measurement_of = [&](const std::vector<int>& sizes) {
    return ClassMeasurement(model, batch, options, {device_class(whole), {whole}, sizes, true});
  };
  const std::vector<int> sizes = measured_sizes(options.batch, model.samples());
  const double weight = measurement_of({sizes.back()}).weight();
  LayerTime time(now_s, ends_s, last_s, weight, [](double) {});
  const bool too_long = options.keeps_budget && warm_up_s > time.part(1).budget_s;
  const ClassMeasurement measurement = measurement_of(too_long ? sizes : std::vector<int>{sizes.back()});
  MeasuredClass measured = measurement.measure_default(time);
  measured.costs.step_seconds = measure_step_seconds({whole});
  const int index = static_cast<int>(profile.classes.size());
  profile.devices.push_back({options.whole_machine, index, 0});
  profile.classes.push_back(std::move(measured.costs));
  measurement.add_variants(index, time, profile);
}

/// Returns the devices whose threads a step starts beside the first device of a class.
std::vector<DeviceSpec> started_with(const MeasureOptions& options, const std::vector<int>& classes, int index) {
  if (options.pools.empty()) return options.devices;
  const auto first = as_index(std::find(classes.begin(), classes.end(), index) - classes.begin());
  std::vector<DeviceSpec> devices = devices_beside(options.devices[first], options.pools, options.devices);
  devices.push_back(options.devices[first]);
  return devices;
}

/// Returns the kinds of the GPUs among the devices, each once: "NVIDIA H200, 132 SMs".
std::string kinds_of_gpus(const std::vector<DeviceSpec>& devices) {
  std::set<std::string> kinds;
  for (const DeviceSpec& spec : devices)
    if (spec.kind == DeviceSpec::Kind::cuda) kinds.insert(make_device(spec)->description().description);
  return join({kinds.begin(), kinds.end()}, "; ");
}

/// Says what is measured: the model, and the devices.
Profile describe_profile(const Model& model, const Batch& batch, const MeasureOptions& options) {
  Profile profile = describe_model(model, batch, options.batch, options.optimizer);
  for (const DevicePool& pool : options.pools) profile.fingerprint.devices.push_back(pool.name());
  for (const DeviceSpec& device : options.devices) {
    const auto has_it = [&](const DevicePool& pool) { return in_pool(device, pool); };
    if (std::ranges::none_of(options.pools, has_it)) profile.fingerprint.devices.push_back(device.name);
  }
  profile.fingerprint.cuda = kinds_of_gpus(options.devices);
  return profile;
}

}  // namespace

std::vector<DeviceSpec> measured_devices(const std::vector<DeviceSpec>& devices, const std::vector<DevicePool>& pools) {
  std::vector<DeviceSpec> measured;
  for (const DevicePool& pool : pools)
    for (const std::string& name : mptune::measured_devices(pool)) measured.push_back(parse_device(name));
  for (const DeviceSpec& device : devices)
    if (std::ranges::none_of(pools, [&](const DevicePool& pool) { return in_pool(device, pool); })) measured.push_back(device);
  return measured;
}

std::vector<int> measured_sizes(int batch, const SampleRange& samples) {
  const int most = samples.most == 0 ? batch : std::min(batch, samples.most);
  std::vector<int> sizes;
  for (int size = std::min(samples.least, most); size < most; size *= 2) sizes.push_back(size);
  sizes.push_back(most);
  return sizes;
}

Profile measure_profile(const Model& model, const Batch& batch, const MeasureOptions& options) {
  Profile profile = describe_profile(model, batch, options);
  const auto report = [&](const std::string& what, double fraction) {
    if (options.progress) options.progress(what, fraction);
  };
  const double start_s = now_s(), budget_s = std::max(0.0, options.budget_s);
  const bool sleeping = options.devices[0].kind == DeviceSpec::Kind::sleep;
  const std::vector<DeviceSpec> measured =
      sleeping ? std::vector<DeviceSpec>{parse_device("cpu:" + std::to_string(available_cores()[0]))} : options.devices;
  const bool whole_apart = !options.whole_machine.empty() &&
                           std::ranges::find(options.devices, options.whole_machine, &DeviceSpec::name) == options.devices.end();
  const double layer_share = whole_apart ? 0.7 : 0.85;

  const std::vector<int> classes = classes_of(options.devices);
  const int class_count = 1 + *std::max_element(classes.begin(), classes.end());
  const std::vector<int> sizes = measured_sizes(options.batch, model.samples());
  std::vector<ClassMeasurement> measurements;
  double weights = 0;
  for (int c = 0; c < class_count; ++c)
    weights += measurements.emplace_back(model, batch, options, devices_of_class(options, measured, classes, c, sizes)).weight();
  // The smallest sizes of all cores may need as much time as those of any other class.
  const double last_s = start_s + options.most_s, layers_last_s = whole_apart ? (start_s + last_s) / 2 : last_s;
  LayerTime time(now_s, start_s + budget_s * layer_share, layers_last_s, weights,
                 [&](double fraction) { report("layer costs", fraction * layer_share); });
  for (const ClassMeasurement& measurement : measurements) {
    MeasuredClass one = measurement.measure_default(time);
    if (profile.classes.empty()) describe_flow(model, one, profile);
    one.costs.step_seconds = measure_step_seconds(started_with(options, classes, static_cast<int>(profile.classes.size())));
    if (sleeping) one.costs.action_seconds = sleep_action_seconds();
    profile.classes.push_back(std::move(one.costs));
  }
  profile.co_running_slowdown = slowdown_of(profile.classes);
  for (std::size_t i = 0; i < options.devices.size(); ++i)
    profile.devices.push_back({options.devices[i].name, classes[i], memory_of(options, i)});
  for (int c = 0; c < class_count; ++c) measurements[as_index(c)].add_variants(c, time, profile);

  report("links", layer_share);
  add_links(options, budget_s * (layer_share + kLinkShare) - (now_s() - start_s), profile);

  if (whole_apart) {
    report("all cores", layer_share + kLinkShare);
    measure_whole_machine(model, batch, options, start_s + budget_s, last_s, profile);
  }
  report("operators", 0.99);
  const double left_s = options.keeps_budget ? start_s + budget_s - now_s() : std::numeric_limits<double>::infinity();
  profile.operators = measure_operators(model, batch, one_of_each(measured, classes), jumps_within(profile, cost_jumps(profile), left_s));
  report("done", 1);
  return profile;
}

}  // namespace mptune::profiler

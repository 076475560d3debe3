#include "profiler/measure/class_costs.h"

#include <ATen/ATen.h>
#include <torch/optim/optimizer.h>

#include <algorithm>

#include "profiler/base/error.h"
#include "profiler/base/index.h"
#include "profiler/base/text.h"
#include "profiler/measure/optimizer.h"
#include "profiler/model/in_memory_format.h"

namespace mptune::profiler {

namespace {

/// Time of `work` on the device's compute thread, by the device's clock: the median of three [s].
double timed_on(Device& device, const std::function<void()>& work) {
  std::vector<double> values;
  for (int i = 0; i < 3; ++i) {
    const auto start = device.stamp();
    work();
    values.push_back(device.stamp()->seconds_since(*start));
  }
  return median(std::move(values));
}

/// Measures costs that do not depend on the micro-batch: per action, per step, per byte of parameters.
void measure_fixed_costs(Bench& bench, const OptimizerChoice& optimizer_choice, DeviceClass& device_class) {
  bench.worker->run([&] {
    Device& device = bench.worker->device();
    device_class.action_seconds = action_overhead_seconds();
    std::vector<at::Tensor> parameters = bench.chain->parameters();
    for (at::Tensor& parameter : parameters)
      if (!parameter.grad().defined()) parameter.mutable_grad() = at::zeros_like(parameter);
    double bytes = 0;
    for (const at::Tensor& parameter : parameters) bytes += static_cast<double>(parameter.nbytes());
    if (bytes == 0) return;
    auto optimizer = make_optimizer(optimizer_choice, 1e-12, parameters);
    optimizer->step();
    device_class.optimizer_seconds_per_byte = timed_on(device, [&] { optimizer->step(); }) / bytes;
    const at::NoGradGuard no_grad;
    std::vector<at::Tensor> other;
    for (at::Tensor& parameter : parameters) other.push_back(at::zeros_like(parameter));
    const auto sum = [&] {
      for (std::size_t i = 0; i < other.size(); ++i) {
        other[i].add_(parameters[i].grad());
        other[i].copy_(parameters[i]);
      }
    };
    device_class.reduce_seconds_per_byte = timed_on(device, sum) / bytes;
  });
}

/// True if a weight is one of a convolution whose kernel is 1 wide: only those have slow kernels that oneDNN would not take.
bool has_narrow_kernels(const Model& model) {
  return std::ranges::any_of(model.parameters(), [](const NamedTensor& parameter) {
    const at::Tensor& weight = parameter.tensor;
    return weight.dim() >= 3 && weight.size(-1) == 1 && weight.is_floating_point();
  });
}

std::string in_words(const ExecutionVariant& variant) {
  const std::string threads = variant.threads == 0 ? "" : " with " + counted(variant.threads, "thread");
  return name_of(variant.memory_format) + threads + (variant.replaces_slow_kernels ? " with slow kernels replaced" : "");
}

/// Index of the class with the costs of class `index` in this variant; -1: not measured.
int class_in(const Profile& profile, int index, const ExecutionVariant& variant) {
  for (std::size_t c = 0; c < profile.classes.size(); ++c) {
    const bool same_devices = static_cast<int>(c) == index || profile.classes[c].variant_of == index;
    if (same_devices && profile.classes[c].variant == variant) return static_cast<int>(c);
  }
  return -1;
}

}  // namespace

ClassMeasurement::ClassMeasurement(const Model& model, const Batch& batch, const MeasureOptions& options, ClassDevices devices)
    : model_(model), batch_(batch), options_(options), devices_(std::move(devices)) {
  const DeviceSpec::Kind kind = options.devices[0].kind;
  if (kind == DeviceSpec::Kind::sleep) return;
  std::vector<MemoryFormat> formats{MemoryFormat::contiguous};
  if (options.channels_last && has_convolution_weights(model.layers())) formats.push_back(MemoryFormat::channels_last);
  const std::vector<int> threads = thread_counts();
  for (const int count : threads)
    for (const MemoryFormat format : formats)
      if (const ExecutionVariant variant{format, false, count}; variant != ExecutionVariant()) variants_.push_back({variant});
  if (!options.replaced_kernels || kind != DeviceSpec::Kind::cpu || !has_narrow_kernels(model)) return;
  for (const int count : threads)
    for (const MemoryFormat format : formats) {
      const ExecutionVariant replacing{format, true, count};
      LayersBySize replaced = layers_with_slow_kernels(replacing);
      if (replaced.empty()) continue;
      const double weight = weight_of(replaced);
      variants_.push_back({replacing, std::move(replaced), weight});
    }
}

// 0, one per core, and those asked for that are fewer.
std::vector<int> ClassMeasurement::thread_counts() const {
  std::vector<int> counts{0};
  for (const int count : options_.threads)
    if (count > 0 && count < std::ssize(devices_.specs.front().cores) && std::ranges::find(counts, count) == counts.end())
      counts.push_back(count);
  return counts;
}

LayersBySize ClassMeasurement::layers_with_slow_kernels(const ExecutionVariant& replacing) const {
  LayersBySize layers;
  Bench bench(devices_.specs.front(), model_, replacing);
  for (const int size : devices_.sizes) {
    try {
      bench.worker->run([&] {
        std::vector<bool> replaced = bench.chain->replaced_layers(samples_of(batch_, 0, size));
        if (std::ranges::count(replaced, true) > 0) layers[size] = std::move(replaced);
      });
    } catch (const c10::Error&) {
      continue;  // the model can't run at this size: nothing is measured there
    }
  }
  return layers;
}

double ClassMeasurement::weight_of(const LayersBySize& layers) const {
  double all = 0, some = 0;
  for (const int size : devices_.sizes) all += static_cast<double>(size) * model_.size();
  for (const auto& [size, replaced] : layers) some += static_cast<double>(size * std::ranges::count(replaced, true));
  return some / all;
}

double ClassMeasurement::weight() const {
  double sum = 1;
  for (const Variant& variant : variants_) sum += variant.weight;
  return sum;
}

std::vector<Bench> ClassMeasurement::benches(const ExecutionVariant& variant) const {
  std::vector<Bench> benches;
  for (const DeviceSpec& spec : devices_.specs) benches.emplace_back(spec, model_, variant);
  return benches;
}

MeasuredClass ClassMeasurement::measure_default(LayerTime& time) const {
  MeasuredClass measured;
  time.spend(1, [&](double budget_s, const std::function<void(double)>& progress) {
    std::vector<Bench> all = benches({});
    MeasuredLayers layers = measure_layers(all, batch_, devices_.sizes, model_.size(), budget_s, options_.keeps_budget, progress);
    warn_of_left_out(layers.left_out);
    measured.costs.name = devices_.name;
    measured.costs.layers = std::move(layers.costs);
    measured.returned = std::move(layers.returned);
    measured.unsplit = std::move(layers.unsplit);
    measured.written_buffers = all.front().written_buffers();
    measure_fixed_costs(all.front(), options_.optimizer, measured.costs);
  });
  return measured;
}

void ClassMeasurement::warn_of_left_out(const std::vector<int>& sizes) const {
  if (sizes.empty() || !options_.warn) return;
  options_.warn("the costs of " + devices_.name + " at micro-batches of " + std::to_string(sizes.front()) + " and more samples are " +
                "extrapolated, there was no time to measure them; a larger --budget measures them");
}

DeviceClass ClassMeasurement::measure_format(const Variant& variant, const DeviceClass& base, double budget_s,
                                             const std::function<void(double)>& progress) const {
  std::vector<Bench> all = benches(variant.variant);
  DeviceClass costs = base;
  costs.layers = measure_layers(all, batch_, devices_.sizes, model_.size(), budget_s, options_.keeps_budget, progress).costs;
  measure_fixed_costs(all.front(), options_.optimizer, costs);
  costs.action_seconds = base.action_seconds;
  return costs;
}

DeviceClass ClassMeasurement::measure_replaced(const Variant& variant, const DeviceClass& base, double budget_s,
                                               const std::function<void(double)>& progress) const {
  std::vector<Bench> all = benches(variant.variant);
  for (Bench& bench : all) bench.chain->time_only(variant.replaced);
  std::vector<int> sizes;
  for (const auto& [size, layers] : variant.replaced) sizes.push_back(size);
  const MeasuredLayers measured = measure_layers(all, batch_, sizes, model_.size(), budget_s, options_.keeps_budget, progress);
  DeviceClass costs = base;
  for (std::size_t i = 0; i < costs.layers.size(); ++i)
    for (const LayerCost& replaced : measured.costs[i].by_samples) {
      if (!variant.replaced.at(replaced.samples)[i]) continue;
      const auto cost = std::ranges::find(costs.layers[i].by_samples, replaced.samples, &LayerCost::samples);
      if (cost != costs.layers[i].by_samples.end()) *cost = replaced;
    }
  return costs;
}

void ClassMeasurement::add_variants(int index, LayerTime& time, Profile& profile) const {
  for (const Variant& variant : variants_)
    time.spend(variant.weight, [&](double budget_s, const std::function<void(double)>& progress) {
      const bool replaces = variant.variant.replaces_slow_kernels;
      const int base = replaces ? class_in(profile, index, {variant.variant.memory_format, false, variant.variant.threads}) : index;
      if (base < 0) return;
      try {
        const DeviceClass& without = profile.classes[as_index(base)];
        DeviceClass costs =
            replaces ? measure_replaced(variant, without, budget_s, progress) : measure_format(variant, without, budget_s, progress);
        costs.variant = variant.variant;
        costs.variant_of = index;
        profile.classes.push_back(std::move(costs));
      } catch (const Error& error) {
        // A layer may need its input contiguous.
        if (options_.warn)
          options_.warn("there are no costs of " + devices_.name + " in " + in_words(variant.variant) + ": " + error.what());
      }
    });
}

}  // namespace mptune::profiler

#include "profiler/measure/class_costs.h"

#include <ATen/ATen.h>
#include <torch/optim/optimizer.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "profiler/base/error.h"
#include "profiler/base/index.h"
#include "profiler/base/text.h"
#include "profiler/device/precise_sleep.h"
#include "profiler/measure/optimizer.h"
#include "profiler/measure/size_choice.h"
#include "profiler/model/layers/in_memory_format.h"

namespace mptune::profiler {

namespace {

constexpr double kShareOfLook = 0.1;  // of the time for a variant with slow kernels replaced, to find them

/// Weight of a variant: 1 is the default variant's samples times layers; a variant with slow kernels replaced measures fewer layers.
double weight_of(const ExecutionVariant& variant) {
  return variant.replaces_slow_kernels ? 0.5 : 1;
}

/// Returns the time of `work` on the device's compute thread, by the device's clock: the median of three [s].
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
    // On GPUs, which do not share memory, parameters take the link.
    const bool shares_memory = device.spec().kind != DeviceSpec::Kind::cuda;
    const auto sum = [&] {
      for (std::size_t i = 0; i < other.size(); ++i) {
        other[i].add_(parameters[i].grad());
        if (shares_memory) other[i].copy_(parameters[i]);
      }
    };
    device_class.reduce_seconds_per_byte = timed_on(device, sum) / bytes;
  });
}

/// Returns how much of a GPU's memory is in use although the model's tensors are gone.
std::int64_t kept_by_libraries(const DeviceSpec& spec) {
  if (spec.kind != DeviceSpec::Kind::cuda) return 0;
  const std::shared_ptr<Device> device = make_device(spec);
  (void)device->available_bytes();  // lets the allocator see which of the freed tensors no stream reads any more
  return device->current_bytes();
}

/// True if a weight is that of a convolution whose kernel is 1 wide: only those have slow kernels that oneDNN would not take.
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

/// Returns the index of the class with the costs of class `index` in this variant; -1: not measured.
int class_in(const Profile& profile, int index, const ExecutionVariant& variant) {
  for (std::size_t c = 0; c < profile.classes.size(); ++c) {
    const bool same_devices = static_cast<int>(c) == index || profile.classes[c].variant_of == index;
    if (same_devices && profile.classes[c].variant == variant) return static_cast<int>(c);
  }
  return -1;
}

/// Returns the time that the least of a variant takes, by the costs of another one: the warm-up of the two smallest sizes [s].
double least_seconds(const DeviceClass& base) {
  double pass_s = 0;
  for (const LayerCosts& layer : base.layers)
    for (std::size_t size = 0; size < std::min<std::size_t>(2, layer.by_samples.size()); ++size)
      pass_s += median(layer.by_samples[size].forward) + median(layer.by_samples[size].backward);
  return kPassesOfWarmUp * pass_s;
}

}  // namespace

ClassMeasurement::ClassMeasurement(const Model& model, const Batch& batch, const MeasureOptions& options, ClassDevices devices)
    : model_(model), batch_(batch), options_(options), devices_(std::move(devices)) {
  const DeviceSpec::Kind kind = options.devices[0].kind;
  if (kind == DeviceSpec::Kind::sleep) return;
  std::vector<MemoryFormat> formats{MemoryFormat::contiguous};
  if (options.channels_last && has_convolution_weights(model.layers())) formats.push_back(MemoryFormat::channels_last);
  const bool replaces = options.replaced_kernels && kind == DeviceSpec::Kind::cpu && has_narrow_kernels(model);
  for (const bool replaced : {false, true})
    for (const int count : thread_counts())
      for (const MemoryFormat format : formats)
        if (const ExecutionVariant variant{format, replaced, count}; variant != ExecutionVariant() && (replaces || !replaced))
          variants_.push_back(variant);
}

// Returns 0 (one per core) and those of the wanted numbers that are fewer than the cores.
std::vector<int> ClassMeasurement::thread_counts() const {
  std::vector<int> counts{0};
  for (const int count : options_.threads)
    if (count > 0 && count < std::ssize(devices_.specs.front().cores) && std::ranges::find(counts, count) == counts.end())
      counts.push_back(count);
  return counts;
}

double ClassMeasurement::weight() const {
  double sum = 1;
  for (const ExecutionVariant& variant : variants_) sum += weight_of(variant);
  return sum;
}

std::vector<Bench> ClassMeasurement::benches(const ExecutionVariant& variant) const {
  std::vector<Bench> benches;
  for (const DeviceSpec& spec : devices_.specs) benches.emplace_back(spec, model_, variant);
  return benches;
}

MeasuredClass ClassMeasurement::measure_default(LayerTime& time) const {
  MeasuredClass measured;
  time.spend(1, [&](const PartTime& part, const Report& progress) {
    std::vector<Bench> all = benches({});
    MeasuredLayers layers = measure_layers(all, batch_, devices_.sizes, model_.size(), limits(part), progress);
    warn_of_left_out(layers, {});
    measured.costs.name = devices_.name;
    measured.costs.layers = std::move(layers.costs);
    measured.returned = std::move(layers.returned);
    measured.unsplit = std::move(layers.unsplit);
    measured.written_buffers = all.front().written_buffers();
    measure_fixed_costs(all.front(), options_.optimizer, measured.costs);
  });
  measured.costs.library_bytes = kept_by_libraries(devices_.specs.front());
  return measured;
}

void ClassMeasurement::warn_of_left_out(const MeasuredLayers& measured, const ExecutionVariant& variant) const {
  if (measured.left_out.empty() || !options_.warn) return;
  std::vector<std::string> sizes;
  for (const int size : measured.left_out) sizes.push_back(std::to_string(size));
  const int largest = measured.costs.front().by_samples.back().samples;
  const bool below = measured.left_out.front() < largest;
  const bool above = measured.left_out.back() > largest;
  options_.warn("for lack of time the costs of " + devices_.name + " in " + in_words(variant) + " at micro-batches of " +
                join(sizes, ", ") + " samples were not measured: they are " +
                (below && above ? "inter- and extrapolated"
                 : below        ? "interpolated"
                                : "extrapolated"));
}

void ClassMeasurement::warn_of_no_costs(const ExecutionVariant& variant, const std::string& why) const {
  if (options_.warn) options_.warn("there are no costs of " + devices_.name + " in " + in_words(variant) + ": " + why);
}

ClassMeasurement::SlowLayers ClassMeasurement::slow_layers(const ExecutionVariant& replacing, const DeviceClass& base,
                                                           double seconds) const {
  SlowLayers slow;
  Bench bench(devices_.specs.front(), model_, replacing);
  const auto start = SteadyClock::now();
  double used_s = 0, sample_s = 0;
  for (const LayerCost& cost : base.layers.front().by_samples) {
    const int size = cost.samples;
    if (options_.keeps_budget && slow.up_to > 0 && used_s + sample_s * size > seconds) break;
    slow.up_to = size;
    try {
      bench.worker->run([&] {
        std::vector<bool> replaced = bench.chain->replaced_layers(samples_of(batch_, 0, size));
        if (std::ranges::count(replaced, true) > 0) slow.layers[size] = std::move(replaced);
      });
    } catch (const c10::AcceleratorError&) {
      throw;
    } catch (const c10::Error&) {
      continue;  // the model can't run at this size: nothing is measured there
    }
    const double before_s = std::exchange(used_s, std::chrono::duration<double>(SteadyClock::now() - start).count());
    sample_s = (used_s - before_s) / size;
  }
  return slow;
}

DeviceClass ClassMeasurement::measure_format(const ExecutionVariant& variant, const DeviceClass& base, const PartTime& time,
                                             const Report& progress) const {
  std::vector<Bench> all = benches(variant);
  DeviceClass costs = base;
  MeasuredLayers measured = measure_layers(all, batch_, devices_.sizes, model_.size(), limits(time), progress);
  warn_of_left_out(measured, variant);
  costs.layers = std::move(measured.costs);
  measure_fixed_costs(all.front(), options_.optimizer, costs);
  costs.action_seconds = base.action_seconds;
  return costs;
}

DeviceClass ClassMeasurement::measure_replaced(const ExecutionVariant& variant, const SlowLayers& slow, const DeviceClass& base,
                                               const PartTime& time, const Report& progress) const {
  std::vector<Bench> all = benches(variant);
  for (Bench& bench : all) bench.chain->time_only(slow.layers);
  std::vector<int> sizes;
  for (const auto& [size, layers] : slow.layers) sizes.push_back(size);
  const MeasuredLayers measured = measure_layers(all, batch_, sizes, model_.size(), limits(time), progress);
  warn_of_left_out(measured, variant);
  // Other sizes are extrapolated from sizes that are known, not from costs with slow kernels.
  const auto unknown = [&](const LayerCost& cost) {
    return cost.samples > slow.up_to || std::ranges::binary_search(measured.left_out, cost.samples);
  };
  DeviceClass costs = base;
  for (std::size_t i = 0; i < costs.layers.size(); ++i) {
    std::erase_if(costs.layers[i].by_samples, unknown);
    for (const LayerCost& replaced : measured.costs[i].by_samples) {
      if (!slow.layers.at(replaced.samples)[i]) continue;
      const auto cost = std::ranges::find(costs.layers[i].by_samples, replaced.samples, &LayerCost::samples);
      if (cost != costs.layers[i].by_samples.end()) *cost = replaced;
    }
  }
  return costs;
}

std::optional<DeviceClass> ClassMeasurement::measure_variant(const ExecutionVariant& variant, const DeviceClass& base, const PartTime& time,
                                                             const Report& progress) const {
  if (options_.keeps_budget && least_seconds(base) > time.budget_s) {
    warn_of_no_costs(variant, "there was no time to measure them");
    return std::nullopt;
  }
  if (!variant.replaces_slow_kernels) return measure_format(variant, base, time, progress);
  const SlowLayers slow = slow_layers(variant, base, kShareOfLook * time.budget_s);
  if (slow.layers.empty()) return std::nullopt;
  return measure_replaced(variant, slow, base, {(1 - kShareOfLook) * time.budget_s, time.most_s}, progress);
}

void ClassMeasurement::add_variants(int index, LayerTime& time, Profile& profile) const {
  for (const ExecutionVariant& variant : variants_)
    time.spend(weight_of(variant), [&](const PartTime& part, const Report& progress) {
      const ExecutionVariant plain{variant.memory_format, false, variant.threads};
      const int base = variant.replaces_slow_kernels ? class_in(profile, index, plain) : index;
      if (base < 0) return;
      try {
        std::optional<DeviceClass> costs = measure_variant(variant, profile.classes[as_index(base)], part, progress);
        if (!costs) return;
        costs->variant = variant;
        costs->variant_of = index;
        profile.classes.push_back(*std::move(costs));
      } catch (const Error& error) {
        // A layer may need its input contiguous.
        warn_of_no_costs(variant, error.problem());
      }
    });
}

}  // namespace mptune::profiler

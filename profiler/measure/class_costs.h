#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "profiler/measure/layer_costs.h"
#include "profiler/measure/layer_time.h"
#include "profiler/measure/measure.h"

namespace mptune::profiler {

/// Devices that share layer costs. The first is measured while the others are busy.
struct ClassDevices {
  std::string name;
  std::vector<DeviceSpec> specs;
  std::vector<int> sizes;      ///< of micro-batches
  bool wants_largest = false;  ///< see LayerLimits::wants_largest
};

struct MeasuredClass {
  DeviceClass costs;
  std::vector<std::vector<ReturnedTensor>> returned;  ///< tensors that each layer returns, bytes per sample
  std::vector<Unsplit> unsplit;                       ///< per layer
  std::vector<std::string> written_buffers;           ///< per layer, Layer::written_buffer
};

/// Measures one class of devices: what layers, optimizer and sums cost.
class ClassMeasurement {
 public:
  /// The arguments must outlive this object.
  ClassMeasurement(const Model& model, const Batch& batch, const MeasureOptions& options, ClassDevices devices);

  /// The weight of all variants in LayerTime; the default one has 1. How many layers the variants with slow kernels replaced measure is not
  /// known before.
  [[nodiscard]] double weight() const;
  /// Measures the default variant, without the costs of a step.
  [[nodiscard]] MeasuredClass measure_default(LayerTime& time) const;
  /// Adds the other variants of class `index`. A variant that the model can't run in, or that there is no time for, is left out with a
  /// warning. Layers with slow kernels are found by one forward of each size that was measured, in each format and with each number of
  /// threads.
  void add_variants(int index, LayerTime& time, Profile& profile) const;

 private:
  /// Layers with slow kernels at micro-batches of up to `up_to` samples.
  struct SlowLayers {
    LayersBySize layers;
    int up_to = 0;
  };
  using Report = std::function<void(double)>;

  [[nodiscard]] std::vector<int> thread_counts() const;
  [[nodiscard]] std::vector<Bench> benches(const ExecutionVariant& variant) const;
  [[nodiscard]] LayerLimits limits(const PartTime& time) const {
    return {time, options_.keeps_budget, devices_.wants_largest, options_.timed};
  }
  [[nodiscard]] SlowLayers slow_layers(const ExecutionVariant& replacing, const DeviceClass& base, double seconds) const;
  void warn_of_left_out(const MeasuredLayers& measured, const ExecutionVariant& variant) const;
  void warn_of_no_costs(const ExecutionVariant& variant, const std::string& why) const;
  /// Measures one variant, based on the costs of another; nullopt if there is no time for it or it has no slow kernels to replace.
  [[nodiscard]] std::optional<DeviceClass> measure_variant(const ExecutionVariant& variant, const DeviceClass& base, const PartTime& time,
                                                           const Report& progress) const;
  [[nodiscard]] DeviceClass measure_format(const ExecutionVariant& variant, const DeviceClass& base, const PartTime& time,
                                           const Report& progress) const;
  [[nodiscard]] DeviceClass measure_replaced(const ExecutionVariant& variant, const SlowLayers& slow, const DeviceClass& base,
                                             const PartTime& time, const Report& progress) const;

  const Model& model_;
  const Batch& batch_;
  const MeasureOptions& options_;
  ClassDevices devices_;
  std::vector<ExecutionVariant> variants_;  ///< all but the default one
};

}  // namespace mptune::profiler

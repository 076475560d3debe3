#pragma once

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "profiler/measure/layer_costs.h"
#include "profiler/measure/measure.h"

namespace mptune::profiler {

/// Devices that share layer costs. The first is measured while the others are busy.
struct ClassDevices {
  std::string name;
  std::vector<DeviceSpec> specs;
  std::vector<int> sizes;  ///< of micro-batches
};

/// Divides the time for layer costs by weight and reports which fraction of it is done.
class LayerTime {
 public:
  LayerTime(double seconds, double weights, std::function<void(double)> report)
      : seconds_(seconds), weights_(weights), report_(std::move(report)) {}

  /// Calls `measure` with its time [s] and with what it reports its own fraction to.
  template <class Measure>
  void spend(double weight, const Measure& measure) {
    measure(seconds_ * weight / weights_,
            std::function<void(double)>([&](double fraction) { report_((done_ + fraction * weight) / weights_); }));
    done_ += weight;
  }

 private:
  double seconds_;
  double weights_;
  double done_ = 0;
  std::function<void(double)> report_;
};

struct MeasuredClass {
  DeviceClass costs;
  std::vector<std::vector<ReturnedTensor>> returned;  ///< by each layer, bytes per sample
  std::vector<Unsplit> unsplit;                       ///< per layer
  std::vector<std::string> written_buffers;           ///< per layer, Layer::written_buffer
};

/// Measures one class of devices: what layers, optimizer and sums cost.
class ClassMeasurement {
 public:
  /// Finds the layers with slow kernels, if they are asked for, by one forward of each size in each format and with each number of threads.
  /// The arguments outlive this.
  ClassMeasurement(const Model& model, const Batch& batch, const MeasureOptions& options, ClassDevices devices);

  /// Of all variants; the default one has 1.
  [[nodiscard]] double weight() const;
  /// The default variant, without what a step costs.
  [[nodiscard]] MeasuredClass measure_default(LayerTime& time) const;
  /// Adds the other variants of class `index`. One that the model can't run in is left out and warned of.
  void add_variants(int index, LayerTime& time, Profile& profile) const;

 private:
  struct Variant {
    ExecutionVariant variant;
    LayersBySize replaced = {};  ///< with slow kernels replaced: all that is measured
    double weight = 1;           ///< of the samples times layers that the default variant measures
  };

  [[nodiscard]] std::vector<int> thread_counts() const;
  [[nodiscard]] LayersBySize layers_with_slow_kernels(const ExecutionVariant& replacing) const;
  [[nodiscard]] double weight_of(const LayersBySize& layers) const;
  [[nodiscard]] std::vector<Bench> benches(const ExecutionVariant& variant) const;
  void warn_of_left_out(const std::vector<int>& sizes) const;
  [[nodiscard]] DeviceClass measure_format(const Variant& variant, const DeviceClass& base, double budget_s,
                                           const std::function<void(double)>& progress) const;
  [[nodiscard]] DeviceClass measure_replaced(const Variant& variant, const DeviceClass& base, double budget_s,
                                             const std::function<void(double)>& progress) const;

  const Model& model_;
  const Batch& batch_;
  const MeasureOptions& options_;
  ClassDevices devices_;
  std::vector<Variant> variants_;  ///< but the default one
};

}  // namespace mptune::profiler

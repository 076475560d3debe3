#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "profiler/device/device_worker.h"
#include "profiler/measure/layer_time.h"
#include "profiler/measure/layer_timing.h"
#include "profiler/trace/values/profile.h"

namespace mptune::profiler {

/// A device with its thread and its copy of the model. Throws Error if the device is not available.
struct Bench {
  explicit Bench(const DeviceSpec& spec, const Model& model, const ExecutionVariant& variant = {})
      : Bench(make_device(spec), model, variant) {}
  explicit Bench(std::shared_ptr<Device> device, const Model& model, const ExecutionVariant& variant = {})
      : worker(std::make_unique<DeviceWorker>(std::move(device))) {
    if (variant.threads > 0) worker->use_threads(variant.threads);
    worker->run([&] { chain = std::make_unique<LayerChain>(model, worker->device(), variant); });
  }
  ~Bench() { chain.reset(); }
  Bench(Bench&&) = default;

  std::unique_ptr<DeviceWorker> worker;
  std::unique_ptr<LayerChain> chain;

  /// Runs LayerChain::time_pass on the device's thread. Blocks.
  [[nodiscard]] ChainTimes pass(const Batch& microbatch, bool accumulate, bool split = false) {
    ChainTimes times;
    worker->run([&] { times = chain->time_pass(microbatch, accumulate, split); });
    return times;
  }
  /// Runs LayerChain::peaks on the device's thread. Blocks.
  [[nodiscard]] MeasuredPeaks peaks(const Batch& microbatch) {
    MeasuredPeaks peaks;
    worker->run([&] { peaks = chain->peaks(microbatch); });
    return peaks;
  }
  /// Runs LayerChain::written_buffers on the device's thread. Blocks.
  [[nodiscard]] std::vector<std::string> written_buffers() {
    std::vector<std::string> names;
    worker->run([&] { names = chain->written_buffers(); });
    return names;
  }
};

struct MeasuredLayers {
  std::vector<LayerCosts> costs;                      ///< per layer
  std::vector<std::vector<ReturnedTensor>> returned;  ///< tensors that each layer returns, bytes per sample
  std::vector<Unsplit> unsplit;                       ///< per layer
  std::vector<int> left_out;                          ///< sizes that there was no time for, ascending
};

/// How long measuring a class of devices may take.
struct LayerLimits {
  PartTime time;
  bool keeps_budget = false;   ///< sizes and passes that would end later are left out, except for the smallest sizes as SizeChoice says,
                               ///< and for the largest one if its warm-up ends in time
  bool wants_largest = false;  ///< only the largest size counts, once it is known to have time; else the smaller ones
  std::function<void(int samples, double seconds)> timed = {};  ///< called after the first pass of each size; may be empty
};

/// Measures the first bench's layers at micro-batches of `sizes` samples (ascending). Blocks.
/// Passes alternate: with a whole backward alone, with the other benches busy, and with a split backward alone. They repeat until every
/// size is precise enough or the budget is used. The first passes of each size are warm-up, and at least one more of each kind counts. If
/// the limits keep the budget and leave no time for one, the warm-up counts instead, and nothing is measured beside busy devices. Sizes at
/// which the model can't run are left out; throws Error if none is left. If there is no memory for the split backward of all layers, only
/// the whole one is measured.
[[nodiscard]] MeasuredLayers measure_layers(std::vector<Bench>& benches, const Batch& batch, const std::vector<int>& sizes, int layers,
                                            const LayerLimits& limits, const std::function<void(double)>& progress);

}  // namespace mptune::profiler

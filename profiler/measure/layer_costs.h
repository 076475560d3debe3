#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "mptune/profiler/device/device_worker.h"
#include "mptune/profiler/measure/layer_timing.h"
#include "mptune/profiler/trace/profile.h"

namespace mptune {

/// A device with its thread and its copy of the model. Throws Error where the device can't be had.
struct Bench {
  explicit Bench(const DeviceSpec& spec, const Model& model) : worker(std::make_unique<DeviceWorker>(make_device(spec))) {
    worker->run([&] { chain = std::make_unique<LayerChain>(model, worker->device()); });
  }
  ~Bench() { chain.reset(); }
  Bench(Bench&&) = default;

  std::unique_ptr<DeviceWorker> worker;
  std::unique_ptr<LayerChain> chain;

  /// LayerChain::time_pass on the device's thread. Blocks.
  [[nodiscard]] ChainTimes pass(const Batch& microbatch, bool accumulate) {
    ChainTimes times;
    worker->run([&] { times = chain->time_pass(microbatch, accumulate); });
    return times;
  }
};

/// What crosses the cut behind a layer for one sample, and of it the bytes whose gradient comes back.
struct Crossing {
  std::int64_t bytes = 0;
  std::int64_t gradient_bytes = 0;
};

struct MeasuredLayers {
  std::vector<LayerCosts> costs;    ///< per layer
  std::vector<Crossing> crossings;  ///< behind each layer
};

/// Costs of the first bench's layers at micro-batches of `sizes` samples (ascending, the last is the batch), alone and with the other
/// benches busy in turn, until every size is settled or `budget_s` seconds are used up; the first pass of each warms up, and one more is
/// always counted. Sizes at which the model can't run are left out; throws Error where none is left. Blocks.
[[nodiscard]] MeasuredLayers measure_layers(std::vector<Bench>& benches, const Batch& batch, const std::vector<int>& sizes, int layers,
                                            double budget_s, const std::function<void(double)>& progress);

}  // namespace mptune

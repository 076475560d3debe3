#include "profiler/measure/layer_operators.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "profiler/base/index.h"
#include "profiler/device/device_worker.h"
#include "profiler/device/precise_sleep.h"
#include "profiler/model/kernels/operator_times.h"
#include "profiler/model/kernels/replace_slow_kernels.h"
#include "profiler/model/layers/graph_piece.h"
#include "profiler/trace/statistics/samples.h"

namespace mptune::profiler {

namespace {

constexpr int kPasses = 3;
constexpr int kPassesOfLayer = 2 * (kPasses + 1) + kPasses;  // as it is and replaced, with warm-up, and to name its operators

/// A copy of the model's layers. Make and use it on the device's thread.
class Layers {
 public:
  explicit Layers(const Model& model) {
    for (const ModelLayer& layer : model.layers()) layers_.push_back(copy_of(layer));
    tie_layers(layers_);
  }

  [[nodiscard]] Tensors inputs_of(int layer, const Batch& microbatch) {
    const at::NoGradGuard no_gradients;
    Tensors values = microbatch.inputs;
    for (int i = 0; i < layer; ++i) {
      Tensors outputs = run_layer(layers_[as_index(i)], i, values, context_of(values));
      (void)layers_[as_index(i)].layer->take_statistics();
      values = marked_outputs(*layers_[as_index(i)].layer, values, std::move(outputs));
    }
    return values;
  }

  /// Forward and backward of one layer [s].
  double pass(int layer, const Tensors& inputs) {
    const ModelLayer& model_layer = layers_[as_index(layer)];
    const auto start = SteadyClock::now();
    GraphPiece piece{as_leaves(inputs), {}, {}};
    const Tensors outputs = run_layer(model_layer, layer, piece.inputs, context_of(inputs));
    Tensors gradients;
    for (const at::Tensor& output : outputs) gradients.push_back(output.requires_grad() ? at::ones_like(output) : at::Tensor());
    set_roots(piece, outputs);
    (void)backward_through(std::move(piece), std::move(gradients));
    (void)model_layer.layer->take_statistics();
    return std::chrono::duration<double>(SteadyClock::now() - start).count();
  }

 private:
  static RunContext context_of(const Tensors& inputs) {
    RunContext context;
    context.samples = inputs.at(0).size(0);
    return context;
  }

  std::vector<ModelLayer> layers_;
};

/// Returns seconds by operator: the least of some passes, since other work on the machine lengthens whichever operator runs then.
std::map<std::string, double> operator_times(Layers& layers, int layer, const Tensors& inputs) {
  std::map<std::string, double> least;
  for (int i = 0; i < kPasses; ++i) {
    const OperatorTimes times;
    (void)layers.pass(layer, inputs);
    for (const auto& [name, seconds] : times.seconds()) {
      const auto [at, is_new] = least.try_emplace(name, seconds);
      if (!is_new) at->second = std::min(at->second, seconds);
    }
  }
  return least;
}

LayerOperator measured(Layers& layers, int layer, const Batch& microbatch) {
  const Tensors inputs = layers.inputs_of(layer, microbatch);
  LayerOperator result;
  result.layer = layer;
  result.samples = static_cast<int>(microbatch.inputs.at(0).size(0));
  std::vector<double> plain, replaced;
  std::int64_t replacements = 0;
  for (int i = 0; i <= kPasses; ++i) {  // the first one is warm-up
    const double as_is = layers.pass(layer, inputs);
    const ReplaceSlowKernels scope(true);
    const double faster = layers.pass(layer, inputs);
    replacements = scope.replaced();
    if (i == 0) continue;
    plain.push_back(as_is);
    replaced.push_back(faster);
  }
  result.seconds = median(std::move(plain));
  if (replacements > 0) result.replaced_seconds = median(std::move(replaced));
  double all = 0, most = 0;
  for (const auto& [name, seconds] : operator_times(layers, layer, inputs)) {
    all += seconds;
    if (seconds <= most) continue;
    most = seconds;
    result.name = name;
  }
  result.share = all > 0 ? most / all : 0;
  return result;
}

/// Returns the time of a forward of all layers before `layer` and of the passes of `layer` [s].
double measuring_seconds(const DeviceClass& device_class, int layer, int samples) {
  const auto cost_of = [&](int index) -> const LayerCost* {
    const auto& costs = device_class.layers[as_index(index)].by_samples;
    const auto found = std::ranges::find(costs, samples, &LayerCost::samples);
    return found == costs.end() ? nullptr : &*found;
  };
  double seconds = 0;
  for (int before = 0; before < layer; ++before)
    if (const LayerCost* cost = cost_of(before)) seconds += median(cost->forward);
  const LayerCost* own = cost_of(layer);
  return own == nullptr ? seconds : seconds + kPassesOfLayer * (median(own->forward) + median(own->backward));
}

}  // namespace

std::vector<CostJump> jumps_within(const Profile& profile, const std::vector<CostJump>& jumps, double seconds) {
  std::vector<CostJump> within;
  for (const CostJump& jump : jumps) {
    const DeviceClass& device_class = profile.classes.at(as_index(jump.device_class));
    for (const int samples : {jump.samples, jump.larger_samples}) seconds -= measuring_seconds(device_class, jump.layer, samples);
    if (seconds < 0) break;
    within.push_back(jump);
  }
  return within;
}

std::vector<LayerOperator> measure_operators(const Model& model, const Batch& batch, const std::vector<DeviceSpec>& devices,
                                             const std::vector<CostJump>& jumps) {
  std::vector<LayerOperator> all;
  for (std::size_t c = 0; c < devices.size(); ++c) {
    std::set<std::pair<int, int>> wanted;  // layer and micro-batch size
    for (const CostJump& jump : jumps)
      if (as_index(jump.device_class) == c) wanted.insert({{jump.layer, jump.samples}, {jump.layer, jump.larger_samples}});
    if (wanted.empty() || devices[c].kind == DeviceSpec::Kind::cuda) continue;
    DeviceWorker worker(make_device(devices[c]));
    worker.run([&] {
      Layers layers(model);
      for (const auto& [layer, samples] : wanted) {
        all.push_back(measured(layers, layer, samples_of(batch, 0, samples)));
        all.back().device_class = static_cast<int>(c);
      }
    });
  }
  return all;
}

}  // namespace mptune::profiler

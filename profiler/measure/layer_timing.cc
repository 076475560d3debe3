#include "profiler/measure/layer_timing.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <utility>

#include "profiler/base/activity.h"
#include "profiler/device/precise_sleep.h"
#include "profiler/model/kernels/replace_slow_kernels.h"
#include "profiler/model/layers/graph_piece.h"
#include "profiler/model/layers/in_memory_format.h"
#include "profiler/model/layers/split_backward.h"
#include "profiler/trace/statistics/samples.h"

namespace mptune::profiler {

namespace {

double seconds_between(SteadyClock::time_point a, SteadyClock::time_point b) {
  return std::chrono::duration<double>(b - a).count();
}

std::int64_t total_bytes(const Tensors& tensors) {
  std::int64_t bytes = 0;
  for (const at::Tensor& tensor : tensors) bytes += static_cast<std::int64_t>(tensor.nbytes());
  return bytes;
}

std::vector<ReturnedTensor> described(const Tensors& tensors) {
  std::vector<ReturnedTensor> all;
  for (const at::Tensor& tensor : tensors) all.push_back({static_cast<std::int64_t>(tensor.nbytes()), tensor.requires_grad()});
  return all;
}

/// True if the outputs' memory is also held by the autograd graph or by a tensor that they are views of. Inputs that are passed on are not
/// the layer's own.
bool held_elsewhere(const Tensors& outputs, const Tensors& inputs) {
  return std::ranges::any_of(outputs, [&](const at::Tensor& output) {
    const bool passed = std::ranges::any_of(inputs, [&](const at::Tensor& input) { return input.is_same(output); });
    return !passed && (output.use_count() > 1 || output.storage().use_count() > 1);
  });
}

struct Timed {
  std::unique_ptr<const Stamp> start, end;
  [[nodiscard]] double seconds() const { return start ? end->seconds_since(*start) : 0; }
};

/// The memory of tensors, which this object does not keep alive.
class Memory {
 public:
  explicit Memory(const Tensors& tensors) {
    for (const at::Tensor& tensor : tensors)
      if (tensor.defined() && tensor.has_storage()) storages_.push_back(tensor.storage().getWeakStorageImpl());
  }
  [[nodiscard]] bool holds(const at::Tensor& tensor) const {
    const auto* storage = tensor.storage().unsafeGetStorageImpl();
    return std::ranges::any_of(storages_, [&](const auto& known) { return known._unsafe_get_target() == storage; });
  }

 private:
  std::vector<c10::weak_intrusive_ptr<c10::StorageImpl>> storages_;
};

/// Returns what fused micro-batches would compute together.
SplitMemory fused_of(const WeightGradients& weights) {
  SplitMemory memory;
  double all = 0, fused = 0;
  for (const auto& weight : weights) {
    all += weight->multiplications();
    if (!weight->fuses()) continue;
    fused += weight->multiplications();
    memory.fused_bytes = std::max(memory.fused_bytes, total_bytes(weight->held()));
  }
  memory.fused_share = all > 0 ? fused / all : 0;
  return memory;
}

/// Returns what is held for weight gradients, each memory once. Memory of `always` does not count. `samples` may be those of a whole step,
/// of which a micro-batch is a part.
SplitMemory held_by(const WeightGradients& weights, const Memory& always, const Memory& samples, const Memory& inputs,
                    const Memory& output_gradients) {
  SplitMemory memory = fused_of(weights);
  std::vector<const void*> seen;
  for (const auto& weight : weights)
    for (const at::Tensor& tensor : weight->held()) {
      if (!tensor.defined() || !tensor.has_storage() || always.holds(tensor)) continue;
      const bool part = samples.holds(tensor);
      const void* start = part ? tensor.const_data_ptr() : tensor.storage().unsafeGetStorageImpl();
      if (std::ranges::count(seen, start) > 0) continue;
      seen.push_back(start);
      const auto bytes = static_cast<std::int64_t>(part ? tensor.nbytes() : tensor.storage().nbytes());
      memory.held_bytes += bytes;
      if (inputs.holds(tensor))
        memory.held_input_bytes += bytes;
      else if (output_gradients.holds(tensor))
        memory.held_gradient_bytes += bytes;
    }
  return memory;
}

/// Gradients of a layer's parameters at one moment, to see later which ones have been made or added to.
class GradientState {
 public:
  explicit GradientState(const Layer& layer) {
    for (const NamedTensor& parameter : layer.parameters()) {
      const at::Tensor& gradient = parameter.tensor.grad();
      states_.push_back({parameter.tensor, gradient, gradient.defined() ? gradient._version() : 0});
    }
  }

  /// Returns the bytes of gradients that did not exist then and do now.
  [[nodiscard]] std::int64_t made_bytes() const {
    std::int64_t bytes = 0;
    for (const State& state : states_)
      if (!state.gradient.defined() && state.parameter.grad().defined()) bytes += static_cast<std::int64_t>(state.parameter.nbytes());
    return bytes;
  }

  /// Returns the parameters whose gradients have changed, which are taken for those that stay with the input gradients.
  [[nodiscard]] Unsplit changed() const {
    Unsplit unsplit;
    double weights = 0, changed_weights = 0;
    for (const State& state : states_) {
      const auto bytes = static_cast<double>(state.parameter.nbytes());
      const bool weight = state.parameter.dim() >= 2 && state.parameter.requires_grad();
      weights += weight ? bytes : 0;
      if (!state.has_changed()) continue;
      unsplit.bytes += static_cast<std::int64_t>(state.parameter.nbytes());
      changed_weights += weight ? bytes : 0;
    }
    unsplit.share = weights > 0 ? changed_weights / weights : 0;
    return unsplit;
  }

 private:
  struct State {
    at::Tensor parameter;
    at::Tensor gradient;
    std::int64_t version = 0;
    [[nodiscard]] bool has_changed() const {
      const at::Tensor& now = parameter.grad();
      return now.defined() && (!now.is_same(gradient) || static_cast<std::int64_t>(now._version()) != version);
    }
  };
  std::vector<State> states_;
};

RunContext context_of(const Batch& microbatch) {
  return {0, 0, 0, 0, microbatch.inputs.at(0).size(0), false};
}

Tensors gradients_of_ones(const Tensors& outputs) {
  Tensors gradients;
  for (const at::Tensor& output : outputs) gradients.push_back(output.requires_grad() ? at::ones_like(output) : at::Tensor());
  return gradients;
}

Tensors device_inputs(Device& device, const Batch& microbatch, MemoryFormat format) {
  Tensors values;
  for (const at::Tensor& input : microbatch.inputs) values.push_back(device.from_host(in_memory_format(input, format)));
  return values;
}

/// Returns the outputs of a layer as with gradients on, without what a backward needs.
Tensors run_without_gradients(const ModelLayer& layer, int index, const Tensors& values, const RunContext& context) {
  const at::NoGradGuard no_gradients;
  Tensors outputs = run_layer(layer, index, values, context);
  (void)layer.layer->take_statistics();
  return marked_outputs(*layer.layer, values, std::move(outputs));
}

/// One forward and backward over a chain. Stamps are read at the end, so that the thread never waits for an asynchronous device between
/// layers.
class Pass {
 public:
  /// `timed`: true for each layer to time; empty: all of them.
  Pass(Device& device, std::vector<ModelLayer>& layers, const std::vector<bool>& timed)
      : device_(device),
        layers_(layers),
        timed_(timed.empty() ? std::vector<bool>(layers.size(), true) : timed),
        end_(last_timed() + 1),
        times_(layers.size()),
        forward_(layers.size()),
        backward_(layers.size()),
        input_(layers.size()),
        weight_(layers.size()),
        saved_(layers.size()),
        given_(layers.size()) {}

  void forward(const Batch& microbatch, const ExecutionVariant& variant, const Loss& loss) {
    const RunContext context = context_of(microbatch);
    const at::Tensor target = microbatch.target.defined() ? device_.from_host(microbatch.target) : at::Tensor();
    const ReplaceSlowKernels kernels(variant.replaces_slow_kernels);
    Tensors values = device_inputs(device_, microbatch, variant.memory_format);
    samples_ = Memory(values);
    for (std::size_t i = 0; i < end_; ++i) {
      if (!timed_[i]) {
        values = run_without_gradients(layers_[i], static_cast<int>(i), values, context);
        continue;
      }
      saved_[i].inputs = as_leaves(values);
      const std::int64_t before = device_.current_bytes();
      device_.reset_peak();
      forward_[i].start = device_.stamp();
      Tensors outputs = run_layer(layers_[i], static_cast<int>(i), saved_[i].inputs, context);
      if (i + 1 == layers_.size()) outputs = {loss(outputs, target)};
      forward_[i].end = device_.stamp();
      (void)layers_[i].layer->take_statistics();
      times_.output_bytes[i] = total_bytes(outputs);
      times_.returned[i] = described(outputs);
      times_.keeps_output[i] = held_elsewhere(outputs, saved_[i].inputs);
      times_.saved_activation_bytes[i] = device_.current_bytes() - before;
      times_.workspace_bytes[i] = device_.peak_bytes() - device_.current_bytes();
      set_roots(saved_[i], outputs);
      if (i + 1 == end_ || !timed_[i + 1]) given_[i] = gradients_of_ones(outputs);
      values = std::move(outputs);
    }
  }

  void backward() {
    for (std::size_t i = end_; i-- > 0;) {
      if (!take_gradients(i)) continue;
      const Growth growth = growth_in(i, backward_[i], [&] { gradients_ = backward_through(std::move(saved_[i]), std::move(gradients_)); });
      times_.workspace_bytes[i] = std::max(times_.workspace_bytes[i], growth.workspace_bytes());
      times_.backward_bytes[i] = growth.peak_bytes + parameters_bytes(*layers_[i].layer) - growth.made_bytes;
    }
  }

  void split_backward() {
    std::vector<WeightGradients> weights(layers_.size());
    for (std::size_t i = end_; i-- > 0;) {
      if (!take_gradients(i)) continue;
      const Layer& layer = *layers_[i].layer;
      const Memory inputs(saved_[i].inputs), output_gradients(gradients_), owned(owned_by(layer));
      const GradientState before(layer);
      const Growth growth = growth_in(i, input_[i], [&] {
        weights[i] = set_weights_aside(saved_[i]);
        gradients_ = backward_through(std::move(saved_[i]), std::move(gradients_));
      });
      times_.unsplit[i] = before.changed();
      times_.split[i] = held_by(weights[i], owned, samples_, inputs, output_gradients);
      times_.split[i].input_workspace_bytes = growth.workspace_bytes();
    }
    // Inputs and gradients are then as cold as they are after the input gradients of a stage.
    for (std::size_t i = end_; i-- > 0;) {
      if (!timed_[i]) continue;
      const auto run = [&] {
        for (auto& weight : weights[i]) weight->run();
        weights[i].clear();
      };
      times_.split[i].weight_workspace_bytes = growth_in(i, weight_[i], run).workspace_bytes();
    }
  }

  [[nodiscard]] ChainTimes times() && {
    for (std::size_t i = 0; i < layers_.size(); ++i) {
      times_.forward_s[i] = forward_[i].seconds();
      times_.backward_s[i] = backward_[i].seconds();
      times_.backward_input_s[i] = input_[i].seconds();
      times_.backward_weight_s[i] = weight_[i].seconds();
    }
    return std::move(times_);
  }

 private:
  [[nodiscard]] std::size_t last_timed() const {
    const auto last = std::find(timed_.rbegin(), timed_.rend(), true);
    return static_cast<std::size_t>(timed_.rend() - last) - 1;
  }

  /// Sets gradients_ to the gradients of the layer's outputs. Returns false if the layer is not timed.
  bool take_gradients(std::size_t i) {
    if (!given_[i].empty()) gradients_ = std::move(given_[i]);
    return timed_[i];
  }

  static Tensors owned_by(const Layer& layer) {
    Tensors tensors;
    for (const auto& owned : {layer.parameters(), layer.buffers()})
      for (const NamedTensor& named : owned) tensors.push_back(named.tensor);
    return tensors;
  }

  static std::int64_t parameters_bytes(const Layer& layer) {
    std::int64_t bytes = 0;
    for (const NamedTensor& parameter : layer.parameters()) bytes += static_cast<std::int64_t>(parameter.tensor.nbytes());
    return bytes;
  }

  struct Growth {
    std::int64_t peak_bytes = 0;  ///< above what was held before
    std::int64_t made_bytes = 0;  ///< gradients of parameters that it made, still held afterwards
    [[nodiscard]] std::int64_t workspace_bytes() const { return std::max<std::int64_t>(0, peak_bytes - made_bytes); }
  };

  /// Times `work`.
  template <class Work>
  Growth growth_in(std::size_t layer, Timed& timed, const Work& work) {
    const std::int64_t before = device_.current_bytes();
    const GradientState gradients(*layers_[layer].layer);
    const Activity activity("the backward of layer", layers_[layer].name);
    device_.reset_peak();
    timed.start = device_.stamp();
    work();
    timed.end = device_.stamp();
    return {device_.peak_bytes() - before, gradients.made_bytes()};
  }

  Device& device_;
  std::vector<ModelLayer>& layers_;
  std::vector<bool> timed_;
  std::size_t end_;  ///< index after the last timed layer
  ChainTimes times_;
  std::vector<Timed> forward_, backward_, input_, weight_;
  std::vector<GraphPiece> saved_;
  std::vector<Tensors> given_;  ///< gradients of outputs that no timed layer reads
  Tensors gradients_;
  Memory samples_{Tensors()};  ///< of the micro-batch
};

}  // namespace

LayerChain::LayerChain(const Model& model, Device& device, const ExecutionVariant& variant)
    : device_(device), variant_(variant), loss_(model.loss()) {
  for (const ModelLayer& layer : model.layers()) layers_.push_back(copy_of(layer));
  tie_layers(layers_);
  to_memory_format(layers_, variant_.memory_format);
  for (const auto& tensors : {parameters_of(layers_), buffers_of(layers_)})
    for (const NamedTensor& named : tensors) device_.adopt(named.tensor);
}

std::vector<at::Tensor> LayerChain::parameters() const {
  std::vector<at::Tensor> all;
  for (const NamedTensor& parameter : parameters_of(layers_)) all.push_back(parameter.tensor);
  return all;
}

void LayerChain::clear_gradients() {
  for (at::Tensor& parameter : parameters()) parameter.mutable_grad().reset();
}

ChainTimes LayerChain::time_pass(const Batch& microbatch, bool accumulate, bool split) {
  if (!accumulate) clear_gradients();
  const auto timed = timed_.find(static_cast<int>(microbatch.inputs.at(0).size(0)));
  Pass pass(device_, layers_, timed == timed_.end() ? std::vector<bool>() : timed->second);
  pass.forward(microbatch, variant_, loss_);
  split ? pass.split_backward() : pass.backward();
  return std::move(pass).times();
}

std::vector<std::string> LayerChain::written_buffers() const {
  std::vector<std::string> names;
  for (const ModelLayer& layer : layers_) names.push_back(layer.layer->written_buffer());
  return names;
}

MeasuredPeaks LayerChain::peaks(const Batch& microbatch) {
  std::vector<LayerPeaks> peaks(layers_.size());
  const RunContext context = context_of(microbatch);
  const at::Tensor target = microbatch.target.defined() ? device_.from_host(microbatch.target) : at::Tensor();
  {
    const ReplaceSlowKernels kernels(variant_.replaces_slow_kernels);
    Tensors values = device_inputs(device_, microbatch, variant_.memory_format);
    for (std::size_t i = 0; i < layers_.size(); ++i) {
      const std::int64_t before = device_.current_bytes();
      device_.reset_peak();
      Tensors outputs = run_without_gradients(layers_[i], static_cast<int>(i), values, context);
      if (i + 1 == layers_.size()) (void)loss_(outputs, target);
      peaks[i].bare_forward_bytes = device_.peak_bytes() - before;
      values = std::move(outputs);
    }
  }
  ChainTimes times = time_pass(microbatch, /*accumulate=*/false);
  for (std::size_t i = 0; i < layers_.size(); ++i) peaks[i].first_backward_bytes = times.backward_bytes[i];
  return {std::move(peaks), std::move(times)};
}

std::vector<bool> LayerChain::replaced_layers(const Batch& microbatch) {
  const RunContext context = context_of(microbatch);
  std::vector<bool> replaced;
  Tensors values = device_inputs(device_, microbatch, variant_.memory_format);
  for (const ModelLayer& layer : layers_) {
    const ReplaceSlowKernels kernels(variant_.replaces_slow_kernels);
    values = run_without_gradients(layer, static_cast<int>(replaced.size()), values, context);
    replaced.push_back(kernels.replaced() > 0);
  }
  return replaced;
}

double action_overhead_seconds() {
  std::vector<double> seconds;
  for (int i = 0; i < 200; ++i) {
    const at::Tensor value = at::zeros({1}).requires_grad_();
    const at::Tensor gradient = at::zeros({1, 1});
    const auto start = SteadyClock::now();
    GraphPiece piece{as_leaves({value}), {}, {}};
    set_roots(piece, {piece.inputs[0].view({1, 1})});
    (void)backward_through(std::move(piece), {gradient});
    seconds.push_back(seconds_between(start, SteadyClock::now()) / 2);
  }
  return median(std::move(seconds));
}

}  // namespace mptune::profiler

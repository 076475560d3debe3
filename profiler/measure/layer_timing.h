#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "profiler/device/device.h"
#include "profiler/model/layers/model.h"
#include "profiler/trace/values/profile.h"

namespace mptune::profiler {

/// The parameters of a layer whose gradients a split backward computes together with the input gradients.
struct Unsplit {
  std::int64_t bytes = 0;
  double share = 0;  ///< their share, by bytes, of the layer's weights with two or more dimensions
};

/// A tensor that a layer returns.
struct ReturnedTensor {
  std::int64_t bytes = 0;
  bool needs_gradient = false;
};

/// Costs of one forward and backward over a chain of layers, in seconds and bytes per layer. Each layer gets a detached input, as after a
/// cut. The loss counts with the last layer.
struct ChainTimes {
  explicit ChainTimes(std::size_t layers = 0)
      : forward_s(layers),
        backward_s(layers),
        backward_input_s(layers),
        backward_weight_s(layers),
        split(layers),
        unsplit(layers),
        output_bytes(layers),
        returned(layers),
        saved_activation_bytes(layers),
        workspace_bytes(layers),
        backward_bytes(layers),
        keeps_output(layers) {}

  std::vector<double> forward_s;
  std::vector<double> backward_s;        ///< of a whole backward, which workspace_bytes covers, too, beside the forward
  std::vector<double> backward_input_s;  ///< of a split backward, as are the next three members
  std::vector<double> backward_weight_s;
  std::vector<SplitMemory> split;
  std::vector<Unsplit> unsplit;
  std::vector<std::int64_t> output_bytes;
  std::vector<std::vector<ReturnedTensor>> returned;
  std::vector<std::int64_t> saved_activation_bytes;
  std::vector<std::int64_t> workspace_bytes;
  std::vector<std::int64_t> backward_bytes;  ///< peak of a whole backward above what was held before it; gradients of all parameters count
  std::vector<bool> keeps_output;
};

/// What layers need at their peaks, and the times of the pass that showed it.
struct MeasuredPeaks {
  std::vector<LayerPeaks> peaks;
  ChainTimes times;
};

/// Layers of a model, by micro-batch size.
using LayersBySize = std::map<int, std::vector<bool>>;

/// A model's layers on one device in an execution variant. Create and use it on the device's compute thread.
class LayerChain {
 public:
  LayerChain(const Model& model, Device& device, const ExecutionVariant& variant = {});

  /// At the sizes of `layers`, only these layers are timed from now on; the others have no costs. Layers before them run without gradients,
  /// and layers after the last one do not run. Layers that are not timed give the timed ones gradients of ones.
  void time_only(LayersBySize layers) { timed_ = std::move(layers); }

  /// Times one pass over a micro-batch in host memory. `accumulate`: adds gradients to those of the pass before, as in all micro-batches of
  /// a step but the first. `split`: all layers' weight gradients follow the input gradients of the first layer.
  [[nodiscard]] ChainTimes time_pass(const Batch& microbatch, bool accumulate, bool split = false);
  /// Runs the layers once without gradients, and once forward and backward, which gives their parameters gradients.
  [[nodiscard]] MeasuredPeaks peaks(const Batch& microbatch);
  /// Returns Layer::written_buffer of each layer for the passes so far.
  [[nodiscard]] std::vector<std::string> written_buffers() const;
  /// Returns which layers have slow kernels to replace at the micro-batch's size, and a variant that replaces them. Runs only forwards.
  [[nodiscard]] std::vector<bool> replaced_layers(const Batch& microbatch);
  [[nodiscard]] std::vector<at::Tensor> parameters() const;
  void clear_gradients();

 private:
  Device& device_;
  ExecutionVariant variant_;
  LayersBySize timed_;
  std::vector<ModelLayer> layers_;
  Loss loss_;
};

/// Returns the time of one action without its layers [s]: detaching inputs, entering and leaving the autograd engine.
[[nodiscard]] double action_overhead_seconds();

}  // namespace mptune::profiler

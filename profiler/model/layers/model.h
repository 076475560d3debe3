#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "profiler/base/precision.h"
#include "profiler/model/layers/layer.h"
#include "profiler/model/layers/loss.h"

namespace mptune {

/// One tensor of a sample, without the sample dimension.
struct SampleTensor {
  std::string name = {};                 ///< name of forward's argument; "" means "input", or "input0", "input1", ... if there are several
  std::vector<std::int64_t> shape = {};  ///< empty: a number per sample
  at::ScalarType type = at::kFloat;      ///< a floating type together with `classes` means int64
  std::int64_t classes = 0;              ///< of integers: values are 0 .. classes - 1; 0: unknown
  bool fraction = false;                 ///< of floating types: values lie between 0 and 1, as probabilities do
  bool operator==(const SampleTensor&) const = default;
};

/// Description of one sample. Without inputs, they are unknown. An integer target without classes means that there is no target.
struct SampleDescription {
  std::vector<SampleTensor> inputs = {};
  SampleTensor target = {.type = at::kLong};
};

/// One global batch, samples first: inputs of the first layer, and the target, which may be undefined if the loss needs none.
struct Batch {
  Tensors inputs;
  at::Tensor target;
};

/// Returns `count` samples from `first` on, as views of the batch.
[[nodiscard]] Tensors samples_of(const Tensors& tensors, std::int64_t first, std::int64_t count);
[[nodiscard]] Batch samples_of(const Batch& batch, std::int64_t first, std::int64_t count);

struct ModelLayer {
  std::string name;                  ///< "layer1.0"
  std::vector<std::string> modules;  ///< module paths that this layer covers
  std::unique_ptr<Layer> layer;
  Precision precision = Precision::float32;  ///< that run_layer() computes in
};

/// Returns a copy with a layer of its own.
[[nodiscard]] ModelLayer copy_of(const ModelLayer& layer);

/// Makes layers that hold the same tensor (Layer::shares_by_name) use the first layer's tensor, so that gradients accumulate there.
void tie_layers(const std::vector<ModelLayer>& layers);
/// Returns the parameters (buffers) of layers in order; shared ones only once, at the first layer that holds them.
[[nodiscard]] std::vector<NamedTensor> parameters_of(const std::vector<ModelLayer>& layers);
[[nodiscard]] std::vector<NamedTensor> buffers_of(const std::vector<ModelLayer>& layers);

/// Layers with a loss, run one after another; model_flow.h says which of them read what others compute. The constructor ties the layers;
/// two names for one parameter are an error otherwise. Movable, not copyable; clone the layers to have them twice.
class Model {
 public:
  Model(std::string name, std::vector<ModelLayer> layers, Loss loss, SampleDescription sample, int default_batch);

  [[nodiscard]] const std::string& name() const { return name_; }
  [[nodiscard]] const std::vector<ModelLayer>& layers() const { return layers_; }
  [[nodiscard]] std::vector<ModelLayer>& layers() { return layers_; }
  [[nodiscard]] int size() const { return static_cast<int>(layers_.size()); }
  [[nodiscard]] const Loss& loss() const { return loss_; }
  [[nodiscard]] const SampleDescription& sample() const { return sample_; }
  [[nodiscard]] int default_batch() const { return default_batch_; }
  /// Returns how many samples a micro-batch may have so that all layers take it.
  [[nodiscard]] SampleRange samples() const;
  /// From now on layers and loss compute under autocast to this type, in the backward, too. Parameters and their gradients stay as they
  /// are.
  void compute_in(Precision precision);

  /// Returns all parameters, each once, with their names in the user's model (torchvision's for the ResNets).
  [[nodiscard]] std::vector<NamedTensor> parameters() const;
  [[nodiscard]] std::vector<NamedTensor> buffers() const;

  /// Returns "sha256:..." of layer names, kinds, parameter and buffer shapes and dtypes and edges; never of weights or batch.
  [[nodiscard]] std::string fingerprint() const;
  /// Returns "3x64x64:float32", or "words=64:int64,mask=64:int64" for several inputs; "" if the shape is not known.
  [[nodiscard]] std::string input_text() const;

 private:
  std::string name_;
  std::vector<ModelLayer> layers_;
  Loss loss_;
  SampleDescription sample_;
  int default_batch_;
};

/// Makes random data for the description, the same for the same seed.
[[nodiscard]] Batch synthetic_batch(const SampleDescription& sample, int batch, std::uint64_t seed);

/// Runs one layer, the `index`th of its model. All layers are run by this function: what they draw at random depends on context, index and
/// sample alone (randomness.h). Without context.samples, the first input's size is the number of samples. A c10::Error that the layer
/// throws names the layer.
[[nodiscard]] Tensors run_layer(const ModelLayer& layer, int index, const Tensors& inputs, const RunContext& context);

/// Runs all layers on `inputs` in the calling thread, without pipelining.
[[nodiscard]] Tensors forward_all(Model& model, const Tensors& inputs, const RunContext& context);

}  // namespace mptune

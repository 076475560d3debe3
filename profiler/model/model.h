#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "mptune/profiler/model/layer.h"
#include "mptune/profiler/model/loss.h"

namespace mptune {

/// One tensor of a sample, without the sample dimension.
struct SampleTensor {
  std::string name = {};                 ///< of forward's argument; "" is "input", or of several "input0", "input1", ...
  std::vector<std::int64_t> shape = {};  ///< empty: a number per sample
  at::ScalarType type = at::kFloat;      ///< int64 is meant where this is a floating type and there are classes
  std::int64_t classes = 0;              ///< integers: values are 0 .. classes-1; 0: not known
  bool operator==(const SampleTensor&) const = default;
};

/// What one sample is. Without inputs it is not known; a target of integers without classes is none.
struct SampleDescription {
  std::vector<SampleTensor> inputs = {};
  SampleTensor target = {.type = at::kLong};
};

/// One global batch, samples first: what the first layer takes, and a target that may be undefined where the loss needs none.
struct Batch {
  Tensors inputs;
  at::Tensor target;
};

/// `count` samples from `first` on, in the batch's memory.
[[nodiscard]] Tensors samples_of(const Tensors& tensors, std::int64_t first, std::int64_t count);
[[nodiscard]] Batch samples_of(const Batch& batch, std::int64_t first, std::int64_t count);

struct ModelLayer {
  std::string name;                  ///< "layer1.0"
  std::vector<std::string> modules;  ///< module paths that this layer covers
  std::unique_ptr<Layer> layer;
};

/// Lets layers that hold the same tensor (Layer::shares_by_name) use the first holder's own, so that gradients add up there.
void tie_layers(const std::vector<ModelLayer>& layers);
/// Parameters, or buffers, of layers in their order; what several share where it is held first.
[[nodiscard]] std::vector<NamedTensor> parameters_of(const std::vector<ModelLayer>& layers);
[[nodiscard]] std::vector<NamedTensor> buffers_of(const std::vector<ModelLayer>& layers);

/// A chain of layers with a loss. Ties them; two names for one parameter are an error otherwise. Movable, not copyable; clone the layers to
/// have them twice.
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

  /// All parameters, each once, then nothing else: names are those of the user's model (torchvision's for the ResNets).
  [[nodiscard]] std::vector<NamedTensor> parameters() const;
  [[nodiscard]] std::vector<NamedTensor> buffers() const;

  /// "sha256:..." of layer names, kinds, parameter and buffer shapes and dtypes and edges; never of weights or batch.
  [[nodiscard]] std::string fingerprint() const;
  /// "3x64x64:float32", "words=64:int64,mask=64:int64" for several inputs; "" where the shape is not known.
  [[nodiscard]] std::string input_text() const;

 private:
  std::string name_;
  std::vector<ModelLayer> layers_;
  Loss loss_;
  SampleDescription sample_;
  int default_batch_;
};

/// Seeded random data of the model's description, the same for the same seed.
[[nodiscard]] Batch synthetic_batch(const SampleDescription& sample, int batch, std::uint64_t seed);

/// Runs one layer, the `index`th of its model. All layers are run through this function: what they draw at random then depends on the
/// context, the index and the sample alone (randomness.h). Without context.samples the first input says how many there are.
[[nodiscard]] Tensors run_layer(const ModelLayer& layer, int index, const Tensors& inputs, const RunContext& context);

/// Output of all layers, un-pipelined, in the calling thread; the first takes `inputs`.
[[nodiscard]] Tensors forward_all(Model& model, const Tensors& inputs, const RunContext& context);

}  // namespace mptune

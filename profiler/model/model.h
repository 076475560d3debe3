#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "mptune/profiler/model/layer.h"
#include "mptune/profiler/model/loss.h"
#include "mptune/profiler/trace/profile.h"

namespace mptune {

/// Shape and type of one sample's input and target, without the sample dimension.
struct SampleDescription {
  std::vector<std::int64_t> input_shape;
  at::ScalarType input_type = at::kFloat;
  std::int64_t input_classes = 0;  ///< integer inputs: values are 0 .. classes-1
  std::vector<std::int64_t> target_shape;
  at::ScalarType target_type = at::kLong;
  std::int64_t target_classes = 0;  ///< integer targets: values are 0 .. classes-1
};

/// One global batch: `target` may be undefined where the loss needs none.
struct Batch {
  at::Tensor input;
  at::Tensor target;
};

struct ModelLayer {
  std::string name;                  ///< "layer1.0"
  std::vector<std::string> modules;  ///< module paths that this layer covers
  std::unique_ptr<Layer> layer;
};

/// A chain of layers with a loss. Movable, not copyable; clone the layers to have them twice.
class Model {
 public:
  Model(std::string name, std::vector<ModelLayer> layers, Loss loss, SampleDescription sample, int default_batch);

  [[nodiscard]] const std::string& name() const { return name_; }
  void set_name(std::string name) { name_ = std::move(name); }
  [[nodiscard]] const std::vector<ModelLayer>& layers() const { return layers_; }
  [[nodiscard]] std::vector<ModelLayer>& layers() { return layers_; }
  [[nodiscard]] int size() const { return static_cast<int>(layers_.size()); }
  [[nodiscard]] const Loss& loss() const { return loss_; }
  void set_loss(Loss loss) { loss_ = std::move(loss); }
  [[nodiscard]] const SampleDescription& sample() const { return sample_; }
  void set_sample(SampleDescription sample) { sample_ = std::move(sample); }
  [[nodiscard]] int default_batch() const { return default_batch_; }

  /// All parameters, then nothing else: names are those of the user's model (torchvision's for the ResNets).
  [[nodiscard]] std::vector<NamedTensor> parameters() const;
  [[nodiscard]] std::vector<NamedTensor> buffers() const;

  /// "sha256:..." of layer names, kinds, parameter and buffer shapes and dtypes and edges; never of weights or batch.
  [[nodiscard]] std::string fingerprint() const;
  /// "3x64x64:float32"; "" where the shape is not known.
  [[nodiscard]] std::string input_text() const;

  /// What a user should know of the file that the model comes from, in one line; "" for nothing.
  [[nodiscard]] const std::string& warning() const { return warning_; }
  void set_warning(std::string warning) { warning_ = std::move(warning); }

 private:
  std::string name_;
  std::vector<ModelLayer> layers_;
  Loss loss_;
  SampleDescription sample_;
  int default_batch_;
  std::string warning_;
};

/// Seeded random data of the model's description, the same for the same seed.
[[nodiscard]] Batch synthetic_batch(const SampleDescription& sample, int batch, std::uint64_t seed);

/// Runs one layer, the `index`th of its model. All layers are run through this function: what they draw at random then depends on the
/// context, the index and the sample alone (randomness.h). Without context.samples the first input says how many there are.
[[nodiscard]] Tensors run_layer(const ModelLayer& layer, int index, const Tensors& inputs, const RunContext& context);

/// Output of all layers, un-pipelined, in the calling thread.
[[nodiscard]] Tensors forward_all(Model& model, const at::Tensor& input, const RunContext& context);

/// What else of the step decides what is loaded; "" where the user did not say.
struct StepSource {
  std::string loss = {};  ///< `--loss`; "" is the model's own
  std::string data = {};  ///< `--data`, a file for load_batch; it gives a model from a file its shapes
};

/// MODEL: a built-in model (builtin_models() lists them), its name, or NAME:KEY=VALUE,... with parameters, e.g.
/// "transformer:d=256,layers=8"; or a file (model_file.h). `input` is `--input SHAPE[:DTYPE]` ("" is the model's own), `seed` fixes the
/// initial weights; without one those of built-in models stay uninitialised, for who asks for names, shapes and counts alone. Throws Error
/// (usage) for an unknown model (lists those there are), an unknown or nonsensical parameter, a shape that does not fit, a file that is no
/// model.
[[nodiscard]] Model load_model(const std::string& text, const std::string& input, std::optional<std::uint64_t> seed,
                               const StepSource& source = {});

struct BuiltinModel {
  std::string name;
  std::string parameters;  ///< what may follow the colon, "" for none
  std::string description;
};
[[nodiscard]] const std::vector<BuiltinModel>& builtin_models();

/// A dict with tensors `input` and `target`, saved by Python's torch.save. Throws Error: missing, not such a file, shapes that do not fit
/// `sample`.
[[nodiscard]] Batch load_batch(const std::string& path, const SampleDescription& sample);
/// Copies a state dict saved by Python's torch.save, or a safetensors file, into the model; every name and shape must agree. Throws Error
/// that names the first that does not.
void load_state(Model& model, const std::string& path);
/// Writes parameters and buffers as a state dict that torch.load(path, weights_only=True) takes; as a safetensors file where the name ends
/// in .safetensors. Throws Error (environment) when it can't be written.
void save_state(const Model& model, const std::string& path);

}  // namespace mptune

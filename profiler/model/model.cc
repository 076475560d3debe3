#include "mptune/profiler/model/model.h"

#include <ATen/CPUGeneratorImpl.h>

#include <torch/torch.h>

#include <algorithm>
#include <set>
#include <utility>

#include "mptune/profiler/model/randomness.h"
#include "mptune/profiler/model/scalar_types.h"
#include "mptune/profiler/trace/error.h"
#include "mptune/profiler/trace/sha256.h"

namespace mptune {
namespace {

std::string describe(const char* role, const NamedTensor& named) {
  return std::string(role) + " " + named.name + " " + scalar_type_name(named.tensor.scalar_type()) + " " +
         shape_text(named.tensor.sizes()) + "\n";
}

// Optimizers would step a parameter twice, and stages would train two copies of it apart.
void check_unique(const std::vector<NamedTensor>& tensors) {
  std::set<std::string> names;
  std::set<const void*> seen;
  for (const auto& [name, tensor] : tensors) {
    if (!names.insert(name).second) {
      throw Error("two tensors are called '" + name + "'", "model", "give every layer a prefix of its own");
    }
    if (tensor.defined() && !seen.insert(tensor.unsafeGetTensorImpl()).second) {
      throw Error("parameter '" + name + "' is used under two names", "model",
                  "give every layer parameters of its own, or keep the layers that share it in one layer");
    }
  }
}

at::Tensor random_tensor(const std::vector<std::int64_t>& shape, int batch, at::ScalarType type, std::int64_t classes,
                         at::Generator& generator) {
  std::vector<std::int64_t> sizes{batch};
  sizes.insert(sizes.end(), shape.begin(), shape.end());
  if (at::isFloatingType(type)) {
    return at::empty(sizes, type).normal_(0, 1, generator);
  }
  return at::empty(sizes, type).random_(0, classes, generator);
}

}  // namespace

Model::Model(std::string name, std::vector<ModelLayer> layers, Loss loss, SampleDescription sample, int default_batch)
    : name_(std::move(name)),
      layers_(std::move(layers)),
      loss_(std::move(loss)),
      sample_(std::move(sample)),
      default_batch_(default_batch) {
  if (layers_.empty()) {
    throw Error("the model has no layers", name_, "give it at least one");
  }
  auto all = parameters();
  const auto rest = buffers();
  all.insert(all.end(), rest.begin(), rest.end());
  check_unique(all);
}

std::vector<NamedTensor> Model::parameters() const {
  std::vector<NamedTensor> result;
  for (const auto& layer : layers_) {
    for (auto& named : layer.layer->parameters()) {
      result.push_back(std::move(named));
    }
  }
  return result;
}

std::vector<NamedTensor> Model::buffers() const {
  std::vector<NamedTensor> result;
  for (const auto& layer : layers_) {
    for (auto& named : layer.layer->buffers()) {
      result.push_back(std::move(named));
    }
  }
  return result;
}

std::string Model::fingerprint() const {
  std::string text = "mptune.model/1\n";
  for (int i = 0; i < size(); ++i) {
    const auto& layer = layers_[static_cast<std::size_t>(i)];
    text += "layer " + layer.name + " " + layer.layer->kind() + "\n";
    for (const auto& named : layer.layer->parameters()) {
      text += describe("parameter", named);
    }
    for (const auto& named : layer.layer->buffers()) {
      text += describe("buffer", named);
    }
    if (i > 0) {
      text += "edge " + std::to_string(i - 1) + " " + std::to_string(i) + "\n";
    }
  }
  return sha256(text);
}

std::string Model::input_text() const {
  if (sample_.input_shape.empty()) {
    return "";
  }
  return shape_text(sample_.input_shape) + ":" + scalar_type_name(sample_.input_type);
}

Batch synthetic_batch(const SampleDescription& sample, int batch, std::uint64_t seed) {
  if (batch < 1) {
    throw Error("a batch of " + std::to_string(batch) + " samples", "--batch", "give at least 1");
  }
  if (sample.input_shape.empty() || (!at::isFloatingType(sample.input_type) && sample.input_classes < 1)) {
    throw Error("the shape of the model's input is not known", "model",
                "give --input SHAPE or --data FILE; in C++, pass a SampleDescription");
  }
  auto generator = at::make_generator<at::CPUGeneratorImpl>(seed);
  Batch result;
  result.input = random_tensor(sample.input_shape, batch, sample.input_type, sample.input_classes, generator);
  if (at::isFloatingType(sample.target_type) || sample.target_classes > 0) {
    result.target = random_tensor(sample.target_shape, batch, sample.target_type, sample.target_classes, generator);
  }
  return result;
}

Tensors run_layer(const ModelLayer& layer, int index, const Tensors& inputs, const RunContext& context) {
  const auto given = inputs.empty() || inputs[0].dim() == 0 ? 1 : inputs[0].size(0);
  const auto samples = std::max<std::int64_t>(1, context.samples > 0 ? context.samples : given);
  DrawScope draws({context.seed, context.step, index, layer.name, context.first_sample, samples});
  RunContext drawing = context;
  drawing.draws = &draws;
  try {
    return layer.layer->forward(inputs, drawing);
  } catch (const std::exception&) {
    draws.rethrow_refusal();
    throw;
  }
}

Tensors forward_all(Model& model, const at::Tensor& input, const RunContext& context) {
  Tensors tensors{input};
  for (int i = 0; i < model.size(); ++i) {
    tensors = run_layer(model.layers()[static_cast<std::size_t>(i)], i, tensors, context);
  }
  return tensors;
}

}  // namespace mptune

#include "profiler/model/layers/model.h"

#include <ATen/CPUGeneratorImpl.h>

#include <torch/types.h>

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "profiler/base/activity.h"
#include "profiler/base/error.h"
#include "profiler/base/index.h"
#include "profiler/base/sha256.h"
#include "profiler/base/text.h"
#include "profiler/model/layers/autocast_scope.h"
#include "profiler/model/layers/scalar_types.h"
#include "profiler/model/random/randomness.h"

namespace mptune {
namespace {

std::string describe(const char* role, const NamedTensor& named) {
  return std::string(role) + " " + named.name + " " + profiler::scalar_type_name(named.tensor.scalar_type()) + " " +
         shape_text(named.tensor.sizes()) + "\n";
}

// Throws Error if a tensor has two names: optimizers would update a parameter twice, and stages would train separate copies of it.
void check_unique(const std::vector<NamedTensor>& tensors) {
  std::set<std::string> names;
  std::set<const void*> seen;
  for (const auto& [name, tensor] : tensors) {
    if (!names.insert(name).second) throw Error("two tensors are called '" + name + "'", "model", "give every layer a prefix of its own");
    if (tensor.defined() && !seen.insert(tensor.unsafeGetTensorImpl()).second) {
      throw Error("parameter '" + name + "' is used under two names", "model",
                  "give every layer parameters of its own, or keep the layers that share it in one layer");
    }
  }
}

at::Tensor random_tensor(const SampleTensor& about, int batch, at::Generator& generator) {
  std::vector<std::int64_t> sizes{batch};
  sizes.insert(sizes.end(), about.shape.begin(), about.shape.end());
  if (about.fraction) return at::empty(sizes, about.type).uniform_(0, 1, generator);
  if (at::isFloatingType(about.type)) return at::empty(sizes, about.type).normal_(0, 1, generator);
  return at::empty(sizes, about.type).random_(0, about.classes, generator);
}

SampleTensor as_meant(SampleTensor tensor) {
  if (tensor.classes > 0 && at::isFloatingType(tensor.type)) tensor.type = at::kLong;
  return tensor;
}

SampleDescription as_meant(SampleDescription sample) {
  for (std::size_t i = 0; i < sample.inputs.size(); ++i) {
    auto& input = sample.inputs[i];
    input = as_meant(std::move(input));
    if (sample.inputs.size() > 1 && input.name.empty()) input.name = "input" + std::to_string(i);
  }
  sample.target = as_meant(std::move(sample.target));
  return sample;
}

std::string text_of(const SampleTensor& tensor) {
  return profiler::tensor_text(tensor.shape, tensor.type);
}

using Held = std::vector<NamedTensor> (Layer::*)() const;

std::vector<NamedTensor> held_by(const std::vector<ModelLayer>& layers, Held held) {
  std::vector<NamedTensor> result;
  std::set<std::string> shared;
  for (const auto& layer : layers) {
    for (auto& named : (layer.layer.get()->*held)())
      if (!layer.layer->shares_by_name() || shared.insert(named.name).second) result.push_back(std::move(named));
  }
  return result;
}

}  // namespace

std::vector<NamedTensor> parameters_of(const std::vector<ModelLayer>& layers) {
  return held_by(layers, &Layer::parameters);
}

std::vector<NamedTensor> buffers_of(const std::vector<ModelLayer>& layers) {
  return held_by(layers, &Layer::buffers);
}

ModelLayer copy_of(const ModelLayer& layer) {
  return {layer.name, layer.modules, layer.layer->clone(), layer.precision};
}

void tie_layers(const std::vector<ModelLayer>& layers) {
  std::map<std::string, at::Tensor> first;
  for (const auto& layer : layers) {
    for (const auto& tensors : {layer.layer->parameters(), layer.layer->buffers()}) {
      for (const auto& named : tensors)
        if (layer.layer->shares_by_name() && !first.emplace(named.name, named.tensor).second)
          layer.layer->share(named.name, first.at(named.name));
    }
  }
}

Model::Model(std::string name, std::vector<ModelLayer> layers, Loss loss, SampleDescription sample, int default_batch)
    : name_(std::move(name)),
      layers_(std::move(layers)),
      loss_(std::move(loss)),
      sample_(as_meant(std::move(sample))),
      default_batch_(default_batch) {
  if (layers_.empty()) throw Error("the model has no layers", name_, "give it at least one");
  tie_layers(layers_);
  auto all = parameters();
  const auto rest = buffers();
  all.insert(all.end(), rest.begin(), rest.end());
  check_unique(all);
}

std::vector<NamedTensor> Model::parameters() const {
  return parameters_of(layers_);
}

std::vector<NamedTensor> Model::buffers() const {
  return buffers_of(layers_);
}

SampleRange Model::samples() const {
  SampleRange all;
  for (const ModelLayer& layer : layers_) all = common_range(all, layer.layer->samples());
  return all;
}

void Model::compute_in(Precision precision) {
  for (ModelLayer& layer : layers_) layer.precision = precision;
  loss_ = loss_.computed_in(precision);
}

std::string Model::fingerprint() const {
  std::string text = "mptune.model/1\n";
  for (int i = 0; i < size(); ++i) {
    const auto& layer = layers_[as_index(i)];
    text += "layer " + layer.name + " " + layer.layer->kind() + "\n";
    for (const auto& named : layer.layer->parameters()) text += describe("parameter", named);
    for (const auto& named : layer.layer->buffers()) text += describe("buffer", named);
    if (i > 0) text += "edge " + std::to_string(i - 1) + " " + std::to_string(i) + "\n";
  }
  return sha256(text);
}

std::string Model::input_text() const {
  if (sample_.inputs.size() == 1) return text_of(sample_.inputs.front());
  std::string text;
  for (const auto& input : sample_.inputs) text += (text.empty() ? "" : ",") + input.name + "=" + text_of(input);
  return text;
}

Batch synthetic_batch(const SampleDescription& description, int batch, std::uint64_t seed) {
  const auto sample = as_meant(description);
  if (batch < 1) throw Error("a batch of " + std::to_string(batch) + " samples", "--batch", "give at least 1");
  const auto unknown = [](const SampleTensor& input) { return !at::isFloatingType(input.type) && input.classes < 1; };
  if (sample.inputs.empty() || std::any_of(sample.inputs.begin(), sample.inputs.end(), unknown)) {
    throw Error("the shape of the model's input is not known", "model",
                "give --input SHAPE or --data FILE; in C++, pass a SampleDescription");
  }
  auto generator = at::make_generator<at::CPUGeneratorImpl>(seed);
  Batch result;
  for (const auto& input : sample.inputs) result.inputs.push_back(random_tensor(input, batch, generator));
  if (at::isFloatingType(sample.target.type) || sample.target.classes > 0) result.target = random_tensor(sample.target, batch, generator);
  return result;
}

Tensors samples_of(const Tensors& tensors, std::int64_t first, std::int64_t count) {
  Tensors result;
  for (const auto& tensor : tensors) result.push_back(tensor.narrow(0, first, count));
  return result;
}

Batch samples_of(const Batch& batch, std::int64_t first, std::int64_t count) {
  return {samples_of(batch.inputs, first, count), batch.target.defined() ? batch.target.narrow(0, first, count) : at::Tensor()};
}

namespace {

// Gives empty tensors for unread inputs that are not there.
Tensors given_to(const TensorFlow& flow, const Tensors& inputs) {
  Tensors given = inputs;
  const auto there = std::ranges::find_if(inputs, &at::Tensor::defined);
  const auto options = there == inputs.end() ? at::TensorOptions() : there->options().requires_grad(false);
  for (std::size_t i = 0; i < given.size(); ++i)
    if (!given[i].defined() && i < flow.reads.size() && flow.reads[i] == 0) given[i] = at::empty({0}, options);
  return given;
}

void check_count(const ModelLayer& layer, const std::string& takes, std::size_t said, const std::string& got, std::size_t count) {
  if (count == said) return;
  throw Error("the layer's flow " + takes + " " + std::to_string(said) + " tensors, forward " + got + " " + std::to_string(count),
              layer.name, "let Layer::flow say what forward does");
}

Tensors run_flow(const ModelLayer& layer, const TensorFlow& flow, const Tensors& inputs, const RunContext& context) {
  Tensors outputs = layer.layer->forward(given_to(flow, inputs), context);
  check_count(layer, "takes", flow.reads.size(), "got", inputs.size());
  check_count(layer, "returns", flow.passes.size(), "returned", outputs.size());
  for (std::size_t i = 0; i < outputs.size(); ++i)
    if (flow.passes[i] >= 0) outputs[i] = inputs.at(as_index(flow.passes[i]));
  return outputs;
}

}  // namespace

Tensors run_layer(const ModelLayer& layer, int index, const Tensors& inputs, const RunContext& context) {
  const auto given = inputs.empty() || !inputs[0].defined() || inputs[0].dim() == 0 ? 1 : inputs[0].size(0);
  const auto samples = std::max<std::int64_t>(1, context.samples > 0 ? context.samples : given);
  profiler::DrawScope draws({context.seed, context.step, index, layer.name, context.first_sample, samples, context.evaluating});
  const Activity activity("the forward of layer", layer.name);
  RunContext drawing = context;
  drawing.draws = &draws;
  const profiler::AutocastScope autocast(layer.precision);
  try {
    const std::optional<TensorFlow> flow = layer.layer->flow();
    return flow ? run_flow(layer, *flow, inputs, drawing) : layer.layer->forward(inputs, drawing);
  } catch (c10::Error& error) {
    draws.rethrow_refusal();
    error.add_context("in layer " + layer.name);
    throw;
  } catch (const std::exception&) {
    draws.rethrow_refusal();
    throw;
  }
}

Tensors forward_all(Model& model, const Tensors& inputs, const RunContext& context) {
  Tensors tensors = inputs;
  for (int i = 0; i < model.size(); ++i) tensors = run_layer(model.layers()[as_index(i)], i, tensors, context);
  return tensors;
}

}  // namespace mptune

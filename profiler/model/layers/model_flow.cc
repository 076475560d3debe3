#include "profiler/model/layers/model_flow.h"

#include <optional>
#include <string>

#include "profiler/base/error.h"
#include "profiler/base/index.h"

namespace mptune::profiler {
namespace {

constexpr const char* kRemedy = "let Layer::flow say what forward does";

/// Returns how many tensors layer `layer` takes; kAll: it does not say.
int taken_by(const std::vector<ModelLayer>& layers, int layer) {
  if (as_index(layer) == layers.size()) return ModelTensor::kAll;
  const std::optional<TensorFlow> flow = layers[as_index(layer)].layer->flow();
  return flow ? static_cast<int>(flow->reads.size()) : ModelTensor::kAll;
}

void check_flow(const ModelLayer& layer, const TensorFlow& flow, std::size_t given) {
  if (flow.reads.size() != given)
    throw Error("the layer takes " + std::to_string(flow.reads.size()) + " tensors, and there are " + std::to_string(given), layer.name,
                kRemedy);
  for (const int input : flow.passes)
    if (input < -1 || input >= static_cast<int>(given))
      throw Error("the layer passes on input " + std::to_string(input) + " of " + std::to_string(given), layer.name, kRemedy);
}

}  // namespace

ModelFlow::ModelFlow(const std::vector<ModelLayer>& layers) {
  cuts_.push_back(made_by(-1, taken_by(layers, 0)));
  for (int i = 0; i < static_cast<int>(layers.size()); ++i) pass_through(i, layers);
  for (const int tensor : cuts_.back()) add_reader(tensor, static_cast<int>(layers.size()), TensorFlow::kSeveral);
}

bool ModelFlow::is_unknown(int cut) const {
  return at(cut).size() == 1 && tensors_[as_index(at(cut)[0])].output == ModelTensor::kAll;
}

int ModelFlow::add(int maker, int output) {
  tensors_.push_back({maker, output, {}, {}});
  return static_cast<int>(tensors_.size()) - 1;
}

std::vector<int> ModelFlow::made_by(int maker, int count) {
  if (count == ModelTensor::kAll) return {add(maker, ModelTensor::kAll)};
  std::vector<int> made;
  for (int output = 0; output < count; ++output) made.push_back(add(maker, output));
  return made;
}

// Adds a reader; a layer may take the same tensor twice.
void ModelFlow::add_reader(int tensor, int layer, int operators) {
  auto& [maker, output, readers, several] = tensors_[as_index(tensor)];
  const bool again = !readers.empty() && readers.back() == layer;
  if (!again) readers.push_back(layer);
  if ((again || operators > 1) && (several.empty() || several.back() != layer)) several.push_back(layer);
}

void ModelFlow::pass_through(int layer, const std::vector<ModelLayer>& layers) {
  const std::vector<int> given = cuts_.back();
  const std::optional<TensorFlow> flow = layers[as_index(layer)].layer->flow();
  if (flow) check_flow(layers[as_index(layer)], *flow, given.size());
  for (std::size_t i = 0; i < given.size(); ++i)
    if (!flow || flow->reads[i] > 0) add_reader(given[i], layer, flow ? flow->reads[i] : TensorFlow::kSeveral);
  if (!flow) return cuts_.push_back(made_by(layer, taken_by(layers, layer + 1)));
  std::vector<int> returned;
  for (std::size_t i = 0; i < flow->passes.size(); ++i)
    returned.push_back(flow->passes[i] < 0 ? add(layer, static_cast<int>(i)) : given[as_index(flow->passes[i])]);
  cuts_.push_back(std::move(returned));
}

}  // namespace mptune::profiler

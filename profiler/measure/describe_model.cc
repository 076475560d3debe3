#include "profiler/measure/describe_model.h"

#include <torch/version.h>

#include <map>
#include <set>
#include <string>
#include <utility>

#include "profiler/base/index.h"
#include "profiler/measure/layer_edges.h"

namespace mptune::profiler {

namespace {

std::vector<TiedParameters> tied_parameters(const Model& model) {
  std::map<std::pair<int, int>, std::int64_t> bytes;
  std::map<std::string, int> last_user;
  for (int layer = 0; layer < model.size(); ++layer) {
    const Layer& described = *model.layers()[as_index(layer)].layer;
    if (!described.shares_by_name()) continue;
    for (const NamedTensor& parameter : described.parameters()) {
      const auto [user, first] = last_user.try_emplace(parameter.name, layer);
      if (!first) bytes[{layer, user->second}] += static_cast<std::int64_t>(parameter.tensor.nbytes());
      user->second = layer;
    }
  }
  std::vector<TiedParameters> tied;
  for (const auto& [layers, size] : bytes) tied.push_back({layers.first, layers.second, size});
  return tied;
}

}  // namespace

std::vector<ProfileLayer> describe_layers(const Model& model) {
  std::vector<ProfileLayer> layers;
  std::set<std::string> shared;
  for (const ModelLayer& source : model.layers()) {
    ProfileLayer layer{.name = source.name,
                       .kind = source.layer->kind(),
                       .modules = source.modules,
                       .batch_statistics = source.layer->has_batch_statistics(),
                       .samples = source.layer->samples()};
    for (const NamedTensor& parameter : source.layer->parameters()) {
      // Tied weights count once as parameters, but every layer that uses them needs their memory: it may be a stage of its own.
      if (!source.layer->shares_by_name() || shared.insert(parameter.name).second) layer.parameters += parameter.tensor.numel();
      layer.parameters_bytes += static_cast<std::int64_t>(parameter.tensor.nbytes());
      ++layer.parameter_tensors;
    }
    for (const NamedTensor& buffer : source.layer->buffers()) layer.buffers_bytes += static_cast<std::int64_t>(buffer.tensor.nbytes());
    layers.push_back(std::move(layer));
  }
  return layers;
}

Profile describe_model(const Model& model, const Batch& batch, int samples, const OptimizerChoice& optimizer) {
  Profile profile;
  profile.model = model.name();
  profile.precision = model.layers().front().precision;
  profile.input = model.input_text();
  profile.batch = samples;
  profile.layers = describe_layers(model);
  profile.tied_parameters = tied_parameters(model);
  profile.optimizer_state_factor = optimizer_state_factor(optimizer);
  profile.fingerprint.model = model.fingerprint();
  profile.fingerprint.input = model.input_text();
  profile.fingerprint.libtorch = TORCH_VERSION;
  if (batch.target.defined() && batch.target.dim() > 0 && batch.target.size(0) > 0)
    profile.target_bytes_per_sample = static_cast<std::int64_t>(batch.target.nbytes()) / batch.target.size(0);
  return profile;
}

void describe_flow(const Model& model, const MeasuredClass& measured, Profile& profile) {
  profile.edges = layer_edges(model, measured.returned);
  for (std::size_t i = 0; i < profile.layers.size(); ++i) {
    profile.layers[i].unsplit_bytes = measured.unsplit[i].bytes;
    profile.layers[i].unsplit_share = measured.unsplit[i].share;
    profile.layers[i].written_buffer = measured.written_buffers[i];
  }
}

}  // namespace mptune::profiler

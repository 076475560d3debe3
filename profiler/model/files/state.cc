#include "profiler/model/files/state.h"

#include <torch/types.h>

#include <algorithm>
#include <map>
#include <set>

#include "profiler/base/error.h"
#include "profiler/model/files/safetensors.h"
#include "profiler/model/files/torch_file.h"
#include "profiler/model/layers/scalar_types.h"

namespace mptune {
namespace {

std::string module_of(const std::string& name) {
  const auto dot = name.rfind('.');
  return dot == std::string::npos ? "" : name.substr(0, dot);
}

// True for batch counters, which torchvision's files from before PyTorch 0.4.1 lack. Python's load_state_dict accepts that, too.
bool may_be_missing(const std::string& name) {
  return name.ends_with("num_batches_tracked");
}

// Returns all tensors of the model: those of its layers, and those that no layer uses.
std::vector<NamedTensor> whole_state_of(const Model& model, const StateExtras& extras) {
  auto state = state_of(model);
  state.insert(state.end(), extras.unused.begin(), extras.unused.end());
  return state;
}

Error two_in_the_file(const std::string& name, const std::string& held, const std::string& path) {
  return {"'" + name + "' and '" + held + "' are one tensor in the model and two in the file", path,
          "tie them before they are saved, or export a model without that tie"};
}

// Moves tensors that the file has under another name of a tied tensor to the name that the model uses.
void join_tied(std::map<std::string, at::Tensor>& given, const StateExtras& extras, const std::string& path) {
  for (const auto& [name, held] : extras.tied) {
    const auto found = given.find(name);
    if (found == given.end()) continue;
    const auto [same, added] = given.emplace(held, found->second);
    if (!added && !at::equal(same->second, found->second)) throw two_in_the_file(name, held, path);
    given.erase(name);
  }
}

void check_state(const std::vector<NamedTensor>& state, const std::map<std::string, at::Tensor>& given, const std::string& path) {
  std::set<std::string> known;
  for (const auto& [name, tensor] : state) {
    known.insert(name);
    const auto found = given.find(name);
    if (found == given.end()) {
      if (!may_be_missing(name))
        throw Error("'" + name + "' is missing", path, "give the state_dict() of the same model with the same parameters");
    } else if (found->second.sizes() != tensor.sizes() || found->second.scalar_type() != tensor.scalar_type()) {
      throw Error("'" + name + "' is " + profiler::tensor_text(found->second.sizes(), found->second.scalar_type()) + ", the model's is " +
                      profiler::tensor_text(tensor.sizes(), tensor.scalar_type()),
                  path, "give the state_dict() of the same model with the same parameters");
    }
  }
  for (const auto& [name, tensor] : given) {
    if (known.count(name) == 0) {
      throw Error("'" + name + "' is not in the model", path,
                  "give the state_dict() of the same model, without prefixes or optimizer state");
    }
  }
}

// Removes tensors that earlier layers hold as well.
std::vector<NamedTensor> held_first(const Layer& layer, std::vector<NamedTensor> tensors, std::set<std::string>& shared) {
  std::erase_if(tensors, [&](const NamedTensor& named) { return layer.shares_by_name() && !shared.insert(named.name).second; });
  return tensors;
}

}  // namespace

std::vector<NamedTensor> state_of(const Model& model) {
  std::vector<NamedTensor> result;
  std::set<std::string> shared;
  for (const auto& layer : model.layers()) {
    const auto parameters = held_first(*layer.layer, layer.layer->parameters(), shared);
    const auto buffers = held_first(*layer.layer, layer.layer->buffers(), shared);
    std::set<std::string> with_parameters;
    for (const auto& named : parameters) with_parameters.insert(module_of(named.name));
    std::size_t next = 0;
    for (std::size_t i = 0; i < parameters.size(); ++i) {
      result.push_back(parameters[i]);
      const auto module = module_of(parameters[i].name);
      const bool last = i + 1 == parameters.size() || module_of(parameters[i + 1].name) != module;
      while (last && next < buffers.size() &&
             (module_of(buffers[next].name) == module || with_parameters.count(module_of(buffers[next].name)) == 0))
        result.push_back(buffers[next++]);
    }
    result.insert(result.end(), buffers.begin() + static_cast<std::ptrdiff_t>(next), buffers.end());
  }
  return result;
}

void load_state(Model& model, const std::string& path, const StateExtras& extras) {
  std::map<std::string, at::Tensor> given;
  for (const auto& [name, tensor] : profiler::is_safetensors(path) ? profiler::read_safetensors(path) : profiler::read_torch_file(path))
    given[name] = tensor;
  join_tied(given, extras, path);
  const auto state = whole_state_of(model, extras);
  check_state(state, given, path);
  const at::NoGradGuard no_gradients;
  for (const auto& [name, tensor] : state)
    if (const auto found = given.find(name); found != given.end()) at::Tensor(tensor).copy_(found->second);
}

void save_state(const Model& model, const std::string& path, const StateExtras& extras) {
  profiler::TensorDict tensors;
  std::map<std::string, at::Tensor> by_name;
  for (const auto& [name, tensor] : whole_state_of(model, extras)) {
    tensors.emplace_back(name, tensor);
    by_name[name] = tensor;
  }
  if (path.ends_with(".safetensors")) {
    profiler::write_safetensors(path, tensors, extras.tied);
    return;
  }
  for (const auto& [name, held] : extras.tied) tensors.emplace_back(name, by_name.at(held));
  profiler::write_torch_file(path, tensors);
}

void check_can_save(const Model& model, const std::string& path, const StateExtras& extras) {
  for (const auto& [name, tensor] : whole_state_of(model, extras)) {
    const bool can = path.ends_with(".safetensors") ? profiler::safetensors_hold(tensor.scalar_type())
                                                    : profiler::torch_files_hold(tensor.scalar_type());
    if (!can)
      throw Error("'" + name + "' is " + profiler::scalar_type_name(tensor.scalar_type()) + ", which the file can't hold", path,
                  "convert the model's tensors to a real type (view_as_real)");
  }
}

}  // namespace mptune

#include "mptune/profiler/model/state.h"

#include <torch/torch.h>

#include <algorithm>
#include <map>
#include <set>

#include "mptune/profiler/base/error.h"
#include "mptune/profiler/model/safetensors.h"
#include "mptune/profiler/model/scalar_types.h"
#include "mptune/profiler/model/torch_file.h"

namespace mptune {
namespace {

std::string module_of(const std::string& name) {
  const auto dot = name.rfind('.');
  return dot == std::string::npos ? "" : name.substr(0, dot);
}

std::string text_of(at::IntArrayRef sizes, at::ScalarType type) {
  return (sizes.empty() ? "scalar" : shape_text(sizes)) + ":" + scalar_type_name(type);
}
std::string text_of(const at::Tensor& tensor) {
  return text_of(tensor.sizes(), tensor.scalar_type());
}

const at::Tensor* find(const TensorDict& dict, const std::string& name) {
  const at::Tensor* found = nullptr;
  for (const auto& [key, tensor] : dict) {
    found = key == name ? &tensor : found;
  }
  return found;
}

// Files of torchvision from before PyTorch 0.4.1 have none; Python's load_state_dict forgives that too.
bool may_be_missing(const std::string& name) {
  return name.ends_with("num_batches_tracked");
}

// The model's tensors: those of its layers, and those that no layer uses.
std::vector<NamedTensor> whole_state_of(const Model& model) {
  auto state = state_of(model);
  const auto& unused = model.state_extras().unused;
  state.insert(state.end(), unused.begin(), unused.end());
  return state;
}

// What the file has under a further name of a tied tensor goes to the name that the model knows.
void join_tied(std::map<std::string, at::Tensor>& given, const StateExtras& extras, const std::string& path) {
  for (const auto& [name, held] : extras.tied) {
    const auto found = given.find(name);
    if (found == given.end()) {
      continue;
    }
    const auto [same, added] = given.emplace(held, found->second);
    if (!added && !at::equal(same->second, found->second)) {
      throw Error("'" + name + "' and '" + held + "' are one tensor in the model and two in the file", path,
                  "tie them before they are saved, or export a model without that tie");
    }
    given.erase(name);
  }
}

void check_state(const std::vector<NamedTensor>& state, const std::map<std::string, at::Tensor>& given, const std::string& path) {
  std::set<std::string> known;
  for (const auto& [name, tensor] : state) {
    known.insert(name);
    const auto found = given.find(name);
    if (found == given.end()) {
      if (!may_be_missing(name)) {
        throw Error("'" + name + "' is missing", path, "give the state_dict() of the same model with the same parameters");
      }
    } else if (found->second.sizes() != tensor.sizes() || found->second.scalar_type() != tensor.scalar_type()) {
      throw Error("'" + name + "' is " + text_of(found->second) + ", the model's is " + text_of(tensor), path,
                  "give the state_dict() of the same model with the same parameters");
    }
  }
  for (const auto& [name, tensor] : given) {
    if (known.count(name) == 0) {
      throw Error("'" + name + "' is not in the model", path,
                  "give the state_dict() of the same model, without prefixes or optimizer state");
    }
  }
}

// "'words', 'mask' and 'target'": what a file for load_batch holds.
std::string expected_names(const SampleDescription& sample, bool with_target) {
  std::vector<std::string> names;
  for (const auto& input : sample.inputs) {
    names.push_back(sample.inputs.size() == 1 || input.name.empty() ? "input" : input.name);
  }
  if (with_target) {
    names.emplace_back("target");
  }
  std::string text;
  for (std::size_t i = 0; i < names.size(); ++i) {
    text += (i == 0 ? "" : i + 1 < names.size() ? ", " : " and ") + ("'" + names[i] + "'");
  }
  return text;
}

// One tensor of the file, which must fit `about`; `remedy` says what the file must hold.
at::Tensor checked(const TensorDict& dict, const std::string& name, const SampleTensor& about, const std::string& path,
                   const std::string& remedy) {
  const auto* tensor = find(dict, name);
  if (tensor == nullptr) {
    throw Error("there is no '" + name + "'", path, remedy);
  }
  std::vector<std::int64_t> sizes{tensor->dim() > 0 ? tensor->size(0) : 0};
  sizes.insert(sizes.end(), about.shape.begin(), about.shape.end());
  if (tensor->dim() == 0 || tensor->size(0) == 0 || tensor->sizes() != at::IntArrayRef(sizes) || tensor->scalar_type() != about.type) {
    throw Error("'" + name + "' is " + text_of(*tensor) + ", each sample of it must be " + text_of(about.shape, about.type), path, remedy);
  }
  if (at::isIntegralType(about.type, /*includeBool=*/false) && about.classes > 0) {
    const auto least = tensor->min().item<std::int64_t>();
    const auto most = tensor->max().item<std::int64_t>();
    if (least < 0 || most >= about.classes) {
      throw Error("'" + name + "' has the value " + std::to_string(least < 0 ? least : most), path,
                  "use values from 0 to " + std::to_string(about.classes - 1));
    }
  }
  // Data of its own: the file's tensors are views of what was read.
  return tensor->clone(at::MemoryFormat::Contiguous);
}

// Without what layers before hold as well.
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
    for (const auto& named : parameters) {
      with_parameters.insert(module_of(named.name));
    }
    std::size_t next = 0;
    for (std::size_t i = 0; i < parameters.size(); ++i) {
      result.push_back(parameters[i]);
      const auto module = module_of(parameters[i].name);
      const bool last = i + 1 == parameters.size() || module_of(parameters[i + 1].name) != module;
      while (last && next < buffers.size() &&
             (module_of(buffers[next].name) == module || with_parameters.count(module_of(buffers[next].name)) == 0)) {
        result.push_back(buffers[next++]);
      }
    }
    result.insert(result.end(), buffers.begin() + static_cast<std::ptrdiff_t>(next), buffers.end());
  }
  return result;
}

Batch load_batch(const std::string& path, const SampleDescription& sample) {
  const auto dict = read_torch_file(path);
  const bool wanted = at::isFloatingType(sample.target.type) || sample.target.classes > 0;
  const std::string remedy =
      "save a dict with the tensors " + expected_names(sample, wanted) + ", samples first, each of the model's shape and type";
  const auto check_samples = [&](const at::Tensor& first, const std::string& first_name, const at::Tensor& tensor,
                                 const std::string& name) {
    if (tensor.size(0) != first.size(0)) {
      throw Error(
          "'" + first_name + "' has " + std::to_string(first.size(0)) + " samples, '" + name + "' " + std::to_string(tensor.size(0)), path,
          "save as many of each");
    }
  };
  Batch batch;
  std::string first_name;
  for (const auto& input : sample.inputs) {
    const bool only =
        sample.inputs.size() == 1 && (input.name.empty() || find(dict, "input") != nullptr || find(dict, input.name) == nullptr);
    const std::string name = only ? "input" : input.name;
    first_name = first_name.empty() ? name : first_name;
    batch.inputs.push_back(checked(dict, name, input, path, remedy));
    check_samples(batch.inputs.front(), first_name, batch.inputs.back(), name);
  }
  const bool is_input = std::any_of(sample.inputs.begin(), sample.inputs.end(), [](const auto& input) { return input.name == "target"; });
  if (wanted || (!is_input && find(dict, "target") != nullptr)) {
    batch.target = checked(dict, "target", sample.target, path, remedy);
    check_samples(batch.inputs.front(), first_name, batch.target, "target");
  }
  return batch;
}

void load_state(Model& model, const std::string& path) {
  std::map<std::string, at::Tensor> given;
  for (const auto& [name, tensor] : is_safetensors(path) ? read_safetensors(path) : read_torch_file(path)) {
    given[name] = tensor;
  }
  join_tied(given, model.state_extras(), path);
  const auto state = whole_state_of(model);
  check_state(state, given, path);
  const at::NoGradGuard no_gradients;
  for (const auto& [name, tensor] : state) {
    if (const auto found = given.find(name); found != given.end()) {
      at::Tensor(tensor).copy_(found->second);
    }
  }
}

void save_state(const Model& model, const std::string& path) {
  TensorDict tensors;
  std::map<std::string, at::Tensor> by_name;
  for (const auto& [name, tensor] : whole_state_of(model)) {
    tensors.emplace_back(name, tensor);
    by_name[name] = tensor;
  }
  const auto& tied = model.state_extras().tied;
  if (path.ends_with(".safetensors")) {
    write_safetensors(path, tensors, tied);
    return;
  }
  for (const auto& [name, held] : tied) {
    tensors.emplace_back(name, by_name.at(held));
  }
  write_torch_file(path, tensors);
}

}  // namespace mptune

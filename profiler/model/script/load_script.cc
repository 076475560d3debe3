#include "profiler/model/script/load_script.h"

#include <torch/csrc/jit/runtime/graph_executor.h>
#include <torch/version.h>

#include <set>
#include <utility>

#include "profiler/base/error.h"
#include "profiler/base/library_message.h"
#include "profiler/base/text.h"
#include "profiler/model/script/archive.h"
#include "profiler/model/script/layer.h"
#include "profiler/model/script/read_script.h"

namespace mptune::profiler {
namespace {

constexpr int kDefaultBatch = 32;
constexpr std::size_t kMostNamed = 5;
constexpr const char* kDeprecated = "PyTorch has deprecated TorchScript: prefer an exported program (.pt2) or a plug-in (.so)";

[[noreturn]] void refuse(const std::string& path, const std::string& text) {
  const auto words = library_message(text);
  // Code with functions that are marked torch.jit.ignore.
  if (text.find("found '^'") != std::string::npos) {
    throw Error("it needs Python: its code calls a Python function", path,
                "write that function so that torch.jit.script can compile it, or make a plug-in");
  }
  for (const char* sign : {"Unknown builtin op", "__torch__.torch.classes", "Unknown custom class", "torch.classes"}) {
    if (text.find(sign) != std::string::npos) {
      throw Error(
          "it uses operators that LibTorch does not have: " + words, path,
          "mptune loads no libraries of operators: write the model with PyTorch's own, or make it a plug-in that links the library");
    }
  }
  throw Error("LibTorch " + std::string(TORCH_VERSION) + " cannot read it: " + words, path,
              "save it again in Python: torch.jit.script(model).save(FILE)");
}

torch::jit::Module load_module(const std::string& path) {
  const torch::jit::GraphOptimizerEnabledGuard optimiser_off(false);
  try {
    auto module = read_script(path);
    module.train();
    return module;
  } catch (const Error&) {
    throw;
  } catch (const c10::Error& error) {
    refuse(path, error.what_without_backtrace());
  } catch (const std::exception& error) {
    refuse(path, error.what());
  }
}

bool is_sequential(const torch::jit::Module& module) {
  return script_kind(module) == "Sequential";
}

bool is_container(const torch::jit::Module& module) {
  return is_sequential(module) || script_kind(module) == "ModuleList";
}

std::string joined(const std::string& path, const std::string& name) {
  return path.empty() ? name : path + "." + name;
}

// Returns a list of the outermost containers: "backbone (Sequential), head.blocks (ModuleList)".
std::string containers_of(const torch::jit::Module& module, const std::string& path, std::size_t& named) {
  std::string text;
  for (const auto& child : module.named_children()) {
    const auto inner = joined(path, child.name);
    if (!is_container(child.value)) {
      const auto deeper = containers_of(child.value, inner, named);
      text += deeper.empty() ? "" : (text.empty() ? "" : ", ") + deeper;
    } else if (named++ < kMostNamed) {
      text += (text.empty() ? "" : ", ") + inner + " (" + script_kind(child.value) + ")";
    }
  }
  return text;
}

std::string remedy_naming_containers(const std::string& path, const torch::jit::Module& root) {
  std::size_t named = 0;
  const auto names = containers_of(root, "", named);
  if (names.empty()) return "write the model as an nn.Sequential of the pieces that may be cut, or make it a plug-in";
  return "name a container, " + path + ":container=" + names.substr(0, names.find(' ')) + "; there are " + names +
         (named > kMostNamed ? " and " + std::to_string(named - kMostNamed) + " more" : "");
}

torch::jit::Module find_container(const torch::jit::Module& root, const std::string& path, const std::string& container) {
  torch::jit::Module found = root;
  if (!container.empty()) {
    for (const auto& name : split(container, '.')) {
      const auto value = found.hasattr(name) ? found.attr(name) : c10::IValue();
      if (!value.isModule()) throw Error("there is no container '" + container + "'", path, remedy_naming_containers(path, root));
      found = value.toModule();
    }
  }
  if (!is_container(found)) {
    const auto subject = container.empty() ? "the model" : "'" + container + "'";
    throw Error(subject + " is not a container but a " + script_kind(found), path, remedy_naming_containers(path, root));
  }
  if (found.named_children().size() == 0)
    throw Error("the " + script_kind(found) + " has no children, so that there are no layers", path, remedy_naming_containers(path, root));
  return found;
}

struct Piece {
  std::string name;
  torch::jit::Module module;
};

void flatten(const torch::jit::Module& container, const std::string& path, std::vector<Piece>& pieces) {
  for (const auto& child : container.named_children()) {
    const auto name = joined(path, child.name);
    if (is_sequential(child.value))
      flatten(child.value, name, pieces);
    else
      pieces.push_back({name, child.value});
  }
}

void check_chain(const std::vector<Piece>& pieces, const std::string& path) {
  int given = 1;
  std::string before = "a batch";
  for (const auto& piece : pieces) {
    const auto arity = script_arity(piece.module, "layer " + piece.name + " of " + path);
    if (arity.takes != ScriptArity::kAny && given != ScriptArity::kAny && arity.takes != given) {
      throw Error("layer " + piece.name + " takes " + std::to_string(arity.takes) + (arity.takes == 1 ? " tensor" : " tensors") + ", and " +
                      before + " gives " + std::to_string(given),
                  path, "let every layer take what the one before it returns, and the first one a single tensor");
    }
    given = arity.gives;
    before = "the layer before it";
  }
}

// Warns if the file has parameters outside of the container, which is the only part that is trained.
std::vector<std::string> warnings_of(const torch::jit::Module& root, const Model& model, const std::string& container) {
  std::set<const at::TensorImpl*> kept;
  for (const auto& named : model.parameters()) kept.insert(named.tensor.unsafeGetTensorImpl());
  std::size_t outside = 0;
  for (const auto& parameter : root.parameters())
    outside += parameter.requires_grad() && kept.count(parameter.unsafeGetTensorImpl()) == 0 ? 1 : 0;
  std::vector<std::string> warnings;
  if (outside > 0) {
    warnings.push_back(std::to_string(outside) + (outside == 1 ? " parameter outside of '" : " parameters outside of '") + container +
                       (outside == 1 ? "' is not a part of the model" : "' are not parts of the model"));
  }
  warnings.emplace_back(kDeprecated);
  return warnings;
}

}  // namespace

LoadedModel load_script(const std::string& path, const std::string& container) {
  check_script_archive(path);
  const auto root = load_module(path);
  std::vector<Piece> pieces;
  flatten(find_container(root, path, container), container, pieces);
  if (pieces.empty())
    throw Error("all children of the Sequential are empty, so that there are no layers", path, remedy_naming_containers(path, root));
  check_chain(pieces, path);
  std::vector<ModelLayer> layers;
  for (const auto& piece : pieces) layers.push_back({piece.name, {piece.name}, make_script_layer(piece.module, piece.name)});
  Model model("script", std::move(layers), Loss::cross_entropy(), {}, kDefaultBatch);
  if (model.parameters().empty())
    throw Error("there are no parameters to train", path, "save the model before torch.jit.freeze, with parameters that require gradients");
  auto warnings = warnings_of(root, model, container);
  return {std::move(model), std::move(warnings)};
}

}  // namespace mptune::profiler

#include "mptune/profiler/model/exported_model.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "mptune/profiler/model/exported_archive.h"
#include "mptune/profiler/trace/error.h"

namespace mptune {
namespace {

constexpr int kBatch = 32;
const char* const kExportAgain =
    "export it again with mptune_export.py, or with model.train() and dynamic_shapes={'x': {0: Dim('batch', min=1)}}";

/// The path that two module paths share: "layer1.0.conv1" and "layer1.0.bn1" share "layer1.0".
std::string shared_path(const std::string& a, const std::string& b) {
  std::size_t end = 0;
  for (std::size_t i = 0; i <= a.size() && i <= b.size(); ++i) {
    const bool a_ends = i == a.size() || a[i] == '.', b_ends = i == b.size() || b[i] == '.';
    if (a_ends && b_ends) end = i;
    if (i == a.size() || i == b.size() || a[i] != b[i]) break;
  }
  return a.substr(0, end);
}

std::vector<std::string> modules_of(const ExportedProgram& program, int first, int last) {
  std::vector<std::string> modules;
  for (int node = first; node < last; ++node) {
    const std::string& module = program.graph.nodes[static_cast<std::size_t>(node)].module;
    if (!module.empty() && std::find(modules.begin(), modules.end(), module) == modules.end()) modules.push_back(module);
  }
  return modules;
}

const TensorDescription* first_user_tensor(const ExportedProgram& program) {
  for (std::size_t i = 0; i < program.inputs.size(); ++i) {
    const auto* value = std::get_if<ProgramValue>(&program.graph.inputs[i]);
    if (value == nullptr || program.inputs[i].kind != ProgramInput::Kind::user) continue;
    const auto& about = program.graph.values[static_cast<std::size_t>(value->index)].tensor;
    return about ? &*about : nullptr;
  }
  return nullptr;
}

void check_batch(const BoundProgram& bound, const std::string& path) {
  const TensorDescription* input = first_user_tensor(bound.program);
  if (input == nullptr || input->sizes.empty()) throw Error("the program takes no tensor of samples", path, kExportAgain);
  if (!bound.cuts.batch_symbol().empty()) return;
  const std::int64_t samples = input->sizes[0].value({}).value_or(0);
  throw Error("the program was exported for a fixed batch of " + std::to_string(samples) + " samples, which can't be split", path,
              kExportAgain);
}

/// True if nothing that behaves otherwise in training does so here, though the program has such operators.
bool in_evaluation(const ExportedProgram& program) {
  bool any = false;
  for (const ProgramNode& node : program.graph.nodes) {
    if (node.target != "torch.ops.aten.batch_norm.default" && node.target != "torch.ops.aten.dropout.default") continue;
    for (const NamedArgument& input : node.inputs) {
      if (input.name != "training" && input.name != "train") continue;
      any = true;
      if (const auto* trains = std::get_if<bool>(&input.argument); trains == nullptr || *trains) return false;
    }
  }
  return any;
}

/// Without the cuts between two uses of one parameter: what shares it stays together.
std::vector<int> without_shared(const BoundProgram& bound, std::vector<int> cuts) {
  std::map<int, std::pair<int, int>> uses;  // first and last node
  for (int node = 0; node < bound.graph.nodes(); ++node) {
    for (const int read : bound.graph.reads(node)) {
      if (!bound.cuts.is_state(read) || bound.graph.batch_counter(node) >= 0) continue;
      uses.try_emplace(read, node, node).first->second.second = node;
    }
  }
  std::erase_if(cuts, [&](int cut) {
    return std::any_of(uses.begin(), uses.end(), [&](const auto& use) { return use.second.first < cut && cut <= use.second.second; });
  });
  return cuts;
}

/// Integers that are looked up in a table have as many values as the table has rows.
std::int64_t classes_of(const ExportedProgram& program, int value) {
  for (const ProgramNode& node : program.graph.nodes) {
    if (node.target != "torch.ops.aten.embedding.default" || node.inputs.size() < 2) continue;
    const auto* table = std::get_if<ProgramValue>(&node.inputs[0].argument);
    const auto* indices = std::get_if<ProgramValue>(&node.inputs[1].argument);
    if (table == nullptr || indices == nullptr || indices->index != value) continue;
    const auto& about = program.graph.values[static_cast<std::size_t>(table->index)].tensor;
    if (about && !about->sizes.empty()) return about->sizes[0].value({}).value_or(0);
  }
  return 0;
}

SampleDescription sample_of(const BoundProgram& bound) {
  const ExportedProgram& program = bound.program;
  const std::vector<int> inputs = exported_layer_inputs(bound, 0);
  const auto& about = program.graph.values[static_cast<std::size_t>(inputs.at(0))].tensor;
  SampleDescription sample;
  sample.target_shape = {};
  SymbolValues symbols;
  for (const auto& [symbol, range] : program.symbols) symbols[symbol] = std::max<std::int64_t>(1, range.least.value_or(1));
  for (std::size_t d = 1; d < about->sizes.size(); ++d) sample.input_shape.push_back(about->sizes[d].value(symbols).value_or(1));
  if (sample.input_shape.empty()) sample.input_shape = {1};
  sample.input_type = scalar_type_of(about->scalar_type);
  if (!at::isFloatingType(sample.input_type)) sample.input_classes = classes_of(program, inputs[0]);
  return sample;
}

bool brings_its_loss(const BoundProgram& bound) {
  const std::vector<int> outputs = exported_layer_outputs(bound, bound.graph.nodes());
  if (outputs.empty()) return false;
  const auto& about = bound.program.graph.values[static_cast<std::size_t>(outputs[0])].tensor;
  return about && about->sizes.empty();
}

/// A file made without weights trains all the same: small random numbers, the same for all of one shape's seed.
void initialise(std::map<std::string, at::Tensor>& tensors) {
  for (auto& [name, tensor] : tensors) {
    if (!tensor.is_floating_point()) {
      tensor.zero_();
    } else if (tensor.dim() >= 2) {
      tensor.normal_(0, 0.02);
    } else {
      tensor.fill_(name.ends_with("weight") || name.ends_with("running_var") ? 1 : 0);
    }
  }
}

}  // namespace

std::vector<std::string> exported_layer_names(const ExportedProgram& program, const std::vector<int>& cuts) {
  std::vector<std::string> names;
  std::map<std::string, int> used;
  for (std::size_t i = 0; i + 1 < cuts.size(); ++i) {
    const std::vector<std::string> modules = modules_of(program, cuts[i], cuts[i + 1]);
    std::string name = modules.empty() ? "" : modules[0];
    for (const std::string& module : modules) name = shared_path(name, module);
    // Of several modules with nothing in common the first says where the layer begins.
    if (name.empty() && !modules.empty()) name = modules[0];
    if (name.empty()) name = "node" + std::to_string(cuts[i]);
    const int times = ++used[name];
    names.push_back(times == 1 ? name : name + "#" + std::to_string(times));
  }
  return names;
}

Model load_exported(const std::string& path) {
  ExportedArchive archive = read_exported_archive(path);
  if (in_evaluation(archive.program)) throw Error("the program was exported in evaluation form", path, kExportAgain);
  if (archive.without_weights) initialise(archive.tensors);
  const auto bound = std::make_shared<const BoundProgram>(std::move(archive.program), path, kBatch);
  if (const std::size_t inputs = exported_layer_inputs(*bound, 0).size(); inputs != 1)
    throw Error("the program takes " + std::to_string(inputs) + " inputs", path,
                "export a model of one input and leave the target to --loss and --data");
  check_batch(*bound, path);
  bound->graph.check_draws();

  std::vector<int> cuts{0};
  for (const int cut : without_shared(*bound, bound->cuts.useful())) cuts.push_back(cut);
  cuts.push_back(bound->graph.nodes());
  const std::vector<std::string> names = exported_layer_names(bound->program, cuts);
  std::vector<ModelLayer> layers;
  for (std::size_t i = 0; i + 1 < cuts.size(); ++i)
    layers.push_back(
        {names[i], modules_of(bound->program, cuts[i], cuts[i + 1]), make_exported_layer(bound, cuts[i], cuts[i + 1], archive.tensors)});

  Loss loss = Loss::cross_entropy();
  if (brings_its_loss(*bound)) loss = Loss::custom("model", [](const Tensors& outputs, const at::Tensor&) { return outputs.at(0); });
  Model model("exported", std::move(layers), std::move(loss), sample_of(*bound), kBatch);
  return model;
}

}  // namespace mptune

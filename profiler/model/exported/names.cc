#include "profiler/model/exported/names.h"

#include <algorithm>
#include <map>
#include <set>

#include "profiler/base/index.h"

namespace mptune::profiler {
namespace {

/// Returns the common prefix of two module paths: "layer1.0" for "layer1.0.conv1" and "layer1.0.bn1".
std::string shared_path(const std::string& a, const std::string& b) {
  std::size_t end = 0;
  for (std::size_t i = 0; i <= a.size() && i <= b.size(); ++i) {
    const bool a_ends = i == a.size() || a[i] == '.', b_ends = i == b.size() || b[i] == '.';
    if (a_ends && b_ends) end = i;
    if (i == a.size() || i == b.size() || a[i] != b[i]) break;
  }
  return a.substr(0, end);
}

const ProgramNode& node_at(const ExportedProgram& program, int node) {
  return program.graph.nodes[as_index(node)];
}

/// Returns parameters with two or more dimensions: weights of matrix products and convolutions, unlike those of norms.
std::set<int> weights_of(const ExportedProgram& program) {
  std::set<int> weights;
  for (std::size_t i = 0; i < program.inputs.size(); ++i) {
    const auto* value = std::get_if<ProgramValue>(&program.graph.inputs[i]);
    if (value == nullptr || program.inputs[i].kind != ProgramInput::Kind::parameter) continue;
    const auto& about = program.graph.values[as_index(value->index)].tensor;
    if (about && about->sizes.size() >= 2) weights.insert(value->index);
  }
  return weights;
}

bool uses(const ProgramNode& node, const std::set<int>& weights) {
  return std::any_of(node.inputs.begin(), node.inputs.end(), [&](const NamedArgument& input) {
    const auto* value = std::get_if<ProgramValue>(&input.argument);
    return value != nullptr && weights.count(value->index) > 0;
  });
}

std::string path_of(const ExportedProgram& program, int first, int last, const std::set<int>& weights) {
  std::vector<std::string> modules;
  for (int node = first; node < last; ++node)
    if (uses(node_at(program, node), weights) && !node_at(program, node).module.empty()) modules.push_back(node_at(program, node).module);
  if (modules.empty()) modules = exported_modules(program, first, last);
  if (modules.empty()) return "";
  std::string path = modules[0];
  for (const std::string& module : modules) path = shared_path(path, module);
  // Modules without a common prefix: the first one tells where the layer begins.
  return path.empty() ? modules[0] : path;
}

}  // namespace

std::vector<std::string> exported_modules(const ExportedProgram& program, int first, int last) {
  std::vector<std::string> modules;
  for (int node = first; node < last; ++node) {
    const std::string& module = node_at(program, node).module;
    if (!module.empty() && std::find(modules.begin(), modules.end(), module) == modules.end()) modules.push_back(module);
  }
  return modules;
}

std::vector<std::string> exported_layer_names(const ExportedProgram& program, const std::vector<int>& cuts) {
  const std::set<int> weights = weights_of(program);
  std::vector<std::string> names;
  std::map<std::string, int> used;
  for (std::size_t i = 0; i + 1 < cuts.size(); ++i) {
    std::string name = path_of(program, cuts[i], cuts[i + 1], weights);
    if (name.empty()) name = "node" + std::to_string(cuts[i]);
    const int times = ++used[name];
    names.push_back(times == 1 ? name : name + "#" + std::to_string(times));
  }
  return names;
}

std::string exported_layer_kind(const ExportedProgram& program, int first, int last) {
  const std::string path = path_of(program, first, last, weights_of(program));
  std::string kind;
  for (int node = first; node < last; ++node) {
    const ProgramNode& source = node_at(program, node);
    const std::string name = source.module_class.substr(source.module_class.rfind('.') + 1);
    if (source.module == path && !name.empty()) return name;
    if (kind.empty()) kind = name;
  }
  return kind.empty() ? "Segment" : kind;
}

}  // namespace mptune::profiler

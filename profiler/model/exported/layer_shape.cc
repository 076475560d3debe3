#include "profiler/model/exported/layer_shape.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "profiler/model/exported/names.h"

namespace mptune::profiler {

namespace {

// True if a number needs the sizes of tensors: numbers that follow from the number of samples alone need none.
bool needs_sizes(const LayerShape& shape) {
  const SymbolValues samples{{shape.bound->cuts.batch_symbol(), 1}};
  return std::ranges::any_of(shape.numbers, [&](int number) {
    const ValueDescription& about = shape.value(number);
    return !about.size || !about.size->value(samples);
  });
}

// Returns how many operators of the layer read the value; TensorFlow::kSeveral: more than one, or not known.
int readers_of(const LayerShape& shape, int value) {
  const ExportedGraph& graph = shape.bound->graph;
  int readers = 0;
  for (const int node : shape.nodes) {
    const auto times = static_cast<int>(std::ranges::count(graph.reads(node), value));
    readers += times > 0 && !graph.adds_one_term(node) ? TensorFlow::kSeveral : times;
  }
  return std::min(readers, TensorFlow::kSeveral);
}

// Returns the layer's flow. The first layer checks all inputs of the program. A layer that reads nothing looks at the device of its first
// input, where its own tensors will be. A value whose memory the layer writes to is no longer the input.
TensorFlow flow_of(const LayerShape& shape, const std::set<int>& written) {
  const bool all = shape.first == 0 || needs_sizes(shape);
  TensorFlow flow;
  for (const int input : shape.inputs) flow.reads.push_back(std::max(readers_of(shape, input), all ? 1 : 0));
  if (!flow.reads.empty() && std::ranges::max(flow.reads) == 0) flow.reads[0] = 1;
  for (const int output : shape.outputs) {
    const auto input = std::ranges::find(shape.inputs, output);
    const bool same = input != shape.inputs.end() && !written.contains(shape.bound->cuts.memory_of(output));
    flow.passes.push_back(same ? static_cast<int>(input - shape.inputs.begin()) : -1);
  }
  return flow;
}

}  // namespace

LayerShape shape_of(std::shared_ptr<const BoundProgram> bound, int first, int last) {
  LayerShape shape;
  shape.bound = std::move(bound);
  shape.first = first;
  shape.last = last;
  const ExportedGraph& graph = shape.bound->graph;
  const ProgramCuts& cuts = shape.bound->cuts;
  shape.nodes = cuts.nodes_of(first, last);
  shape.inputs = exported_layer_inputs(*shape.bound, first);
  shape.outputs = exported_layer_outputs(*shape.bound, last);

  std::set<int> made, written, kept(shape.outputs.begin(), shape.outputs.end());
  std::map<int, std::size_t> last_read;  // value to place in `nodes`
  for (std::size_t place = 0; place < shape.nodes.size(); ++place) {
    const int node = shape.nodes[place];
    for (const int read : graph.reads(node)) {
      last_read[read] = place;
      if (shape.value(read).kind != ValueDescription::Kind::tensor && made.count(read) == 0) shape.numbers.push_back(read);
    }
    for (const int value : graph.writes(node)) written.insert(cuts.memory_of(value));
    for (const int value : graph.makes(node)) {
      made.insert(value);
      last_read.try_emplace(value, place);
    }
  }
  std::sort(shape.numbers.begin(), shape.numbers.end());
  shape.numbers.erase(std::unique(shape.numbers.begin(), shape.numbers.end()), shape.numbers.end());
  shape.released.resize(shape.nodes.size());
  for (const auto& [value, place] : last_read)
    if (kept.count(value) == 0 && !cuts.is_state(value)) shape.released[place].push_back(value);
  // All values that may share the memory, since gradients go to the parameter itself.
  std::set<int> state;
  const auto trained = [&](int value) { return shape.value(value).tensor && shape.value(value).tensor->requires_grad; };
  for (const int node : shape.nodes) {
    if (graph.batch_counter(node) >= 0) continue;
    for (const int read : graph.reads(node))
      if (cuts.is_state(read) && written.count(cuts.memory_of(read)) > 0 && !trained(read)) state.insert(read);
  }
  shape.written.assign(state.begin(), state.end());
  for (const int input : shape.inputs) shape.cloned.push_back(written.count(cuts.memory_of(input)) > 0);
  shape.kind = exported_layer_kind(shape.bound->program, first, last);
  shape.flow = flow_of(shape, written);
  return shape;
}

std::set<int> state_of(const LayerShape& shape) {
  const ExportedGraph& graph = shape.bound->graph;
  const ExportedProgram& program = shape.bound->program;
  std::set<int> used;
  std::set<std::string> norms;
  std::map<int, std::string> names;
  for (std::size_t i = 0; i < program.inputs.size(); ++i)
    if (const auto* value = std::get_if<ProgramValue>(&program.graph.inputs[i])) names[value->index] = program.inputs[i].name;
  for (const int node : shape.nodes) {
    if (graph.batch_counter(node) >= 0) continue;
    used.insert(graph.reads(node).begin(), graph.reads(node).end());
    const int mean = graph.running_mean(node);
    if (mean >= 0) norms.insert(names[mean].substr(0, names[mean].rfind('.') + 1));
  }
  for (const int output : shape.outputs)
    if (names.count(output) > 0) used.insert(output);
  for (const auto& [value, name] : names)
    if (name.ends_with("num_batches_tracked") && norms.count(name.substr(0, name.rfind('.') + 1)) > 0) used.insert(value);
  return used;
}

}  // namespace mptune::profiler

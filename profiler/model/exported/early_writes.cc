#include "profiler/model/exported/early_writes.h"

#include <algorithm>
#include <set>
#include <utility>
#include <vector>

#include "profiler/base/index.h"
#include "profiler/model/exported/graph.h"

namespace mptune::profiler {
namespace {

bool is_copy(const ProgramNode& node) {
  return node.target == "torch.ops.aten.copy_.default";
}

std::set<int> buffers_of(const ExportedProgram& program) {
  std::set<int> buffers;
  for (std::size_t i = 0; i < program.inputs.size(); ++i) {
    const auto* value = std::get_if<ProgramValue>(&program.graph.inputs[i]);
    if (value != nullptr && program.inputs[i].kind == ProgramInput::Kind::buffer) buffers.insert(value->index);
  }
  return buffers;
}

/// True if `node` has to come before a copy with these reads, which include the buffer that the copy writes to.
bool comes_before(const ExportedGraph& graph, int node, const std::vector<int>& copied, int buffer) {
  const auto is_buffer = [&](int value) { return graph.memory_of(value) == buffer; };
  const auto is_copied = [&](int value) { return std::ranges::find(copied, value) != copied.end(); };
  const auto shares_copied = [&](int value) {
    return std::ranges::any_of(copied, [&](int read) { return graph.memory_of(read) == graph.memory_of(value); });
  };
  return std::ranges::any_of(graph.reads(node), is_buffer) || std::ranges::any_of(graph.makes(node), is_copied) ||
         std::ranges::any_of(graph.writes(node), shares_copied);
}

/// Returns the number of nodes that stay before the copy.
int earliest_place(const ExportedGraph& graph, int copy, const std::set<int>& buffers) {
  const std::vector<int>& written = graph.writes(copy);
  if (written.size() != 1 || !buffers.contains(written.front())) return copy;
  const int buffer = graph.memory_of(written.front());
  int place = copy;
  while (place > 0 && !comes_before(graph, place - 1, graph.reads(copy), buffer)) --place;
  return place;
}

}  // namespace

ExportedProgram with_early_writes(ExportedProgram program, const std::string& where) {
  std::vector<ProgramNode>& nodes = program.graph.nodes;
  if (std::ranges::none_of(nodes, is_copy)) return program;
  // Ordered by place and by number: a copy comes after the nodes that stay before it, and before the node that stood there.
  std::vector<std::pair<int, int>> order;
  {
    const ExportedGraph graph(program, where);
    const std::set<int> buffers = buffers_of(program);
    for (int node = 0; node < graph.nodes(); ++node)
      order.emplace_back(is_copy(nodes[as_index(node)]) ? 2 * earliest_place(graph, node, buffers) - 1 : 2 * node, node);
  }
  std::ranges::sort(order);
  std::vector<ProgramNode> moved;
  for (const auto& [place, node] : order) moved.push_back(std::move(nodes[as_index(node)]));
  nodes = std::move(moved);
  return program;
}

}  // namespace mptune::profiler

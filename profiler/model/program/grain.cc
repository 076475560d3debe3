#include "profiler/model/program/grain.h"

#include <algorithm>
#include <numeric>
#include <string_view>

#include "profiler/base/index.h"

namespace mptune::profiler {
namespace {

template <class Visit>
void each_region(const ProgramGraph& graph, const ProgramNode& node, const Visit& visit) {
  for (const NamedArgument& input : node.inputs)
    if (const auto* region = std::get_if<ProgramRegion>(&input.argument)) visit(graph.graphs[as_index(region->index)]);
}

class WorkEstimate {
 public:
  WorkEstimate(const ProgramGraph& graph, const SymbolValues& symbols) : graph_(graph), symbols_(symbols) {}

  double of(const ProgramNode& node) const {
    double results = 0, inside = 0;
    each_region(graph_, node, [&](const ProgramGraph& region) {
      for (const double work : node_work(region, symbols_)) inside += work;
    });
    for (const ProgramArgument& output : node.outputs) each_value(output, [&](int value) { results += elements(value); });
    return std::max(1.0, inside > 0 ? inside : results * summed(node));
  }

 private:
  /// Returns the number of products that are summed for each element of the result.
  double summed(const ProgramNode& node) const {
    const std::string_view target = node.target;
    const auto is = [&](std::string_view name) { return target.find(name) != std::string_view::npos; };
    if (is(".conv")) return per_row(tensor(node, "weight"));
    if (is(".linear.")) return last_size(tensor(node, "input"));
    if (is(".addmm.")) return last_size(tensor(node, "mat1"));
    if (is(".baddbmm.")) return last_size(tensor(node, "batch1"));
    if (is(".matmul.") || is(".mm.") || is(".bmm.")) return last_size(tensor(node, "self"));
    // Two products of the same cost: queries by keys, and attention weights by values.
    if (is("scaled_dot_product_attention")) return 2 * size(tensor(node, "key"), 2);
    return 1;
  }

  static int tensor(const ProgramNode& node, std::string_view name) {
    for (const NamedArgument& input : node.inputs)
      if (const auto* value = std::get_if<ProgramValue>(&input.argument); value != nullptr && input.name == name) return value->index;
    return -1;
  }
  const std::vector<SymbolicSize>* sizes(int value) const {
    if (value < 0) return nullptr;
    const auto& about = graph_.values[as_index(value)].tensor;
    return about ? &about->sizes : nullptr;
  }
  double known(const SymbolicSize& size) const { return static_cast<double>(std::max<std::int64_t>(0, size.value(symbols_).value_or(1))); }
  double elements(int value) const {
    const auto* all = sizes(value);
    if (all == nullptr) return 1;
    return std::accumulate(all->begin(), all->end(), 1.0, [&](double product, const SymbolicSize& size) { return product * known(size); });
  }
  /// Returns the dimension counted from the end, 1 for the last.
  double size(int value, std::size_t from_end) const {
    const auto* all = sizes(value);
    return all == nullptr || all->size() < from_end ? 1 : known((*all)[all->size() - from_end]);
  }
  double last_size(int value) const { return size(value, 1); }
  double per_row(int value) const {
    const auto* all = sizes(value);
    return all == nullptr || all->empty() ? 1 : elements(value) / std::max(1.0, known(all->front()));
  }

  const ProgramGraph& graph_;
  const SymbolValues& symbols_;
};

}  // namespace

bool works_hard(const ProgramGraph& graph, const ProgramNode& node) {
  static constexpr std::string_view names[] = {".conv", ".linear.",  ".addmm.",  ".baddbmm.",  ".matmul.",    ".mm.",
                                               ".bmm.", ".einsum.",  ".lstm.",   ".bilinear.", ".tensordot.", ".gru.",
                                               ".rnn_", "attention", ".addbmm.", ".mv.",       ".embedding.", ".embedding_bag."};
  const auto named = [&](std::string_view name) { return node.target.find(name) != std::string::npos; };
  bool inside = false;
  each_region(graph, node, [&](const ProgramGraph& region) {
    for (const ProgramNode& inner : region.nodes) inside = inside || works_hard(region, inner);
  });
  return inside || std::any_of(std::begin(names), std::end(names), named);
}

std::vector<double> node_work(const ProgramGraph& graph, const SymbolValues& symbols) {
  const WorkEstimate estimate(graph, symbols);
  std::vector<double> work;
  for (const ProgramNode& node : graph.nodes) work.push_back(estimate.of(node));
  return work;
}

std::vector<int> coarser_cuts(std::vector<PricedCut> cuts, const std::vector<double>& work, int most) {
  std::vector<double> before(1, 0);  // work of the nodes before each position
  for (const double node : work) before.push_back(before.back() + node);
  const auto worth = [&](std::size_t i) {
    const std::size_t first = i == 0 ? 0 : as_index(cuts[i - 1].position);
    const std::size_t last = i + 1 == cuts.size() ? work.size() : as_index(cuts[i + 1].position);
    return (before[last] - before[first]) / static_cast<double>(std::max<std::int64_t>(1, cuts[i].bytes));
  };
  while (static_cast<int>(cuts.size()) >= most && !cuts.empty()) {
    std::size_t least = 0;
    for (std::size_t i = 1; i < cuts.size(); ++i)
      if (worth(i) < worth(least)) least = i;
    cuts.erase(cuts.begin() + static_cast<std::ptrdiff_t>(least));
  }
  std::vector<int> positions;
  for (const PricedCut& cut : cuts) positions.push_back(cut.position);
  return positions;
}

}  // namespace mptune::profiler

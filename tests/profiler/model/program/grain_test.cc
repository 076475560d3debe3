#include "profiler/model/program/grain.h"

#include <gtest/gtest.h>

namespace mptune::profiler {
namespace {

/// A graph whose values have the sizes given; nodes are added by hand.
struct Graph {
  ProgramGraph graph;
  ProgramValue tensor(std::vector<SymbolicSize> sizes) {
    const TensorDescription about{7, std::move(sizes), {}, SymbolicSize(0), false};
    graph.values.push_back({std::to_string(graph.values.size()), ValueDescription::Kind::tensor, about, {}});
    return {static_cast<int>(graph.values.size()) - 1};
  }
  void node(const std::string& target, std::vector<NamedArgument> inputs, ProgramValue output) {
    graph.nodes.push_back({"torch.ops.aten." + target, std::move(inputs), {output}, "", "", ""});
  }
};

SymbolicSize size(std::int64_t number) {
  return SymbolicSize(number);
}

TEST(NodeWork, IsTheMultiplicationsOfProductsAndTheElementsOfTheRest) {
  Graph g;
  const SymbolicSize batch = SymbolicSize::parse("Symbol('b', positive=True, integer=True)");
  const auto x = g.tensor({batch, size(6)}), weight = g.tensor({size(5), size(6)}), y = g.tensor({batch, size(5)});
  g.node("linear.default", {{"input", x}, {"weight", weight}}, y);
  g.node("relu.default", {{"self", y}}, g.tensor({batch, size(5)}));
  const auto image = g.tensor({batch, size(3), size(8), size(8)}), kernel = g.tensor({size(4), size(3), size(3), size(3)});
  g.node("conv2d.default", {{"input", image}, {"weight", kernel}}, g.tensor({batch, size(4), size(8), size(8)}));
  const auto q = g.tensor({batch, size(2), size(7), size(4)}), k = g.tensor({batch, size(2), size(9), size(4)});
  g.node("scaled_dot_product_attention.default", {{"query", q}, {"key", k}, {"value", k}}, g.tensor({batch, size(2), size(7), size(4)}));
  g.node("sym_size.int", {}, g.tensor({}));
  EXPECT_EQ(node_work(g.graph, {{"b", 10}}), (std::vector<double>{10 * 5 * 6, 10 * 5, 10 * 4 * 8 * 8 * 27, 10 * 2 * 7 * 4 * 2 * 9, 1}));
}

TEST(WorksHard, IsTrueOfProductsAlone) {
  Graph g;
  const auto y = g.tensor({});
  for (const char* target : {"linear.default", "conv2d.default", "convolution.default", "scaled_dot_product_attention.default",
                             "bmm.default", "embedding.default", "lstm.input", "einsum.default"})
    g.node(target, {}, y);
  for (const ProgramNode& node : g.graph.nodes) EXPECT_TRUE(works_hard(g.graph, node)) << node.target;
  g.graph.nodes.clear();
  for (const char* target : {"mul.Tensor", "relu_.default", "batch_norm.default", "slice.Tensor", "sym_size.int", "add.Tensor"})
    g.node(target, {}, y);
  for (const ProgramNode& node : g.graph.nodes) EXPECT_FALSE(works_hard(g.graph, node)) << node.target;
}

TEST(Regions, WorkAsTheirNodesDo) {
  Graph inner;
  const auto x = inner.tensor({size(2), size(6)}), weight = inner.tensor({size(5), size(6)});
  inner.node("linear.default", {{"input", x}, {"weight", weight}}, inner.tensor({size(2), size(5)}));
  Graph g;
  g.graph.graphs.push_back(inner.graph);
  g.node("wrap", {{"", ProgramRegion{0}}}, g.tensor({size(2), size(5)}));
  EXPECT_TRUE(works_hard(g.graph, g.graph.nodes[0]));
  EXPECT_EQ(node_work(g.graph, {}), std::vector<double>{60});
}

TEST(CoarserCuts, KeepCheapCutsAndMergeSmallPieces) {
  const std::vector<double> work{4, 4, 4, 4, 4, 4};
  const std::vector<PricedCut> cuts{{1, 8}, {2, 1}, {3, 8}, {4, 1}, {5, 8}};
  EXPECT_EQ(coarser_cuts(cuts, work, 6), (std::vector<int>{1, 2, 3, 4, 5}));
  EXPECT_EQ(coarser_cuts(cuts, work, 3), (std::vector<int>{2, 4}));
  EXPECT_EQ(coarser_cuts(cuts, work, 1), std::vector<int>{});
  // The same bytes everywhere: the two smallest neighbours go together.
  EXPECT_EQ(coarser_cuts({{1, 2}, {2, 2}, {3, 2}}, {9, 1, 2, 9}, 3), (std::vector<int>{1, 3}));
  EXPECT_EQ(coarser_cuts({}, {1, 1}, 1), std::vector<int>{});
}

}  // namespace
}  // namespace mptune::profiler

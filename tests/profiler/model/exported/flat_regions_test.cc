// Regions without gradients, put into the program node by node: they compute what they did, and may be cut.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "exported_chain.h"
#include "profiler/base/index.h"
#include "profiler/model/exported/flat_regions.h"
#include "profiler/model/exported/layer_ends.h"
#include "small_program.h"

namespace mptune::testing {
using namespace profiler;
namespace {

NamedArgument value(int index) {
  return {"", ProgramValue{index}};
}

/// x w0 w1 in a region, times w2; what else the region returns, too.
class Regions : public ::testing::TestWithParam<bool> {
 protected:
  Regions() {
    at::manual_seed(1);
    const auto weight = [] { return at::eye(4) + 0.1 * at::randn({4, 4}); };
    SmallProgram inner;
    const int inner_x = inner.input("x", {-1, 4}), inner_w0 = inner.parameter("w0", weight()), inner_w1 = inner.parameter("w1", weight());
    const int first = inner.two("aten.matmul.default", inner_x, inner_w0, {-1, 4});
    const int second = inner.two("aten.matmul.default", inner.one("aten.sin.default", first, {-1, 4}), inner_w1, {-1, 4});
    for (const int result : {second, inner_x, second}) inner.output(result);

    const int x = small.input("x", {-1, 4});
    const int w0 = small.parameter("w0", inner.tensors["w0"]), w1 = small.parameter("w1", inner.tensors["w1"]);
    small.program.graph.graphs.push_back(inner.program.graph);
    const int trunk = small.call("higher_order.wrap_with_set_grad_enabled",
                                 {{"", GetParam()}, {"", ProgramRegion{0}}, value(x), value(w0), value(w1)}, {-1, 4});
    // The other results of the region.
    auto& made = small.program.graph.nodes.back().outputs;
    auto& values = small.program.graph.values;
    for (const char* name : {"same", "again"}) {
      values.push_back(values[as_index(trunk)]);
      values.back().name = name;
      made.emplace_back(ProgramValue{static_cast<int>(values.size()) - 1});
    }
    const int same = trunk + 1, again = trunk + 2;
    const int sum = small.two("aten.add.Tensor", small.two("aten.mul.Tensor", trunk, again, {-1, 4}), same, {-1, 4});
    small.output(small.two("aten.matmul.default", sum, small.parameter("w2", weight()), {-1, 4}));
  }

  /// The output and the gradients of x, w0, w1, w2.
  [[nodiscard]] Tensors run(const ExportedProgram& program) const {
    Tensors inputs{at::arange(8, at::kFloat).view({2, 4}) / 8};
    for (const char* name : {"w0", "w1", "w2"}) inputs.push_back(small.tensors.at(name).detach().clone());
    for (at::Tensor& input : inputs) input.requires_grad_();
    const ExportedGraph graph(program, "small");
    Tensors results{graph.run({inputs.begin(), inputs.end()}, {})[0].toTensor()};
    results[0].square().sum().backward();
    for (const at::Tensor& input : inputs) results.push_back(input.grad());
    return results;
  }

  SmallProgram small;
};
INSTANTIATE_TEST_SUITE_P(Gradients, Regions, ::testing::Values(false, true));

TEST_P(Regions, ComputeTheSameNodeByNode) {
  const ExportedProgram flat = with_flat_regions(small.program);
  EXPECT_EQ(flat.graph.nodes.size(), 6U);
  for (std::size_t node = 0; node < flat.graph.nodes.size(); ++node)
    EXPECT_EQ(flat.graph.nodes[node].without_gradients, !GetParam() && node < 3) << node;
  const Tensors expected = run(small.program), found = run(flat);
  for (std::size_t i = 0; i < expected.size(); ++i) {
    ASSERT_EQ(expected[i].defined(), found[i].defined()) << i;
    EXPECT_TRUE(!expected[i].defined() || at::equal(expected[i], found[i])) << i;
  }
  EXPECT_EQ(found[2].defined(), GetParam()) << "the trunk's weights";
}

TEST_P(Regions, AreCutWithin) {
  const auto bound = std::make_shared<const BoundProgram>(small.program, "small", 2);
  const std::vector<int> ends = exported_layer_ends(*bound);
  EXPECT_EQ(ends.size(), 4U) << "a layer for each product";
  ExportedChain whole(bound, small.tensors, {}), layers(bound, small.tensors, {ends.begin() + 1, ends.end() - 1});
  const Tensors inputs{at::randn({2, 4})};
  whole.step(inputs);
  layers.step(inputs);
  EXPECT_EQ(layers.compare({inputs, whole.loss(), whole.gradients(), whole.buffers()}).different, 0);
}

/// A frozen trunk is carried, not computed by every stage behind it.
TEST_P(Regions, ProductsAreComputedOnce) {
  const BoundProgram bound(small.program, "small", 1'000'000);
  for (int cut = 1; cut < bound.graph.nodes(); ++cut)
    for (const int node : bound.cuts.nodes_of(cut, bound.graph.nodes()))
      EXPECT_TRUE(node >= cut || bound.program.graph.nodes[as_index(node)].target != "torch.ops.aten.matmul.default") << cut << " " << node;
}

TEST_P(Regions, OfArgumentsThatAreNoValuesStay) {
  small.program.graph.nodes[0].inputs[2].argument = std::int64_t{1};
  EXPECT_EQ(with_flat_regions(small.program).graph.nodes.size(), small.program.graph.nodes.size());
}

/// Without gradients stays so, whatever a region within says.
TEST_P(Regions, MayBeNested) {
  ProgramGraph outer = small.program.graph;
  SmallProgram program;
  std::vector<NamedArgument> arguments{{"", false}, {"", ProgramRegion{0}}, value(program.input("x", {-1, 4}))};
  for (const char* name : {"w0", "w1", "w2"}) arguments.push_back(value(program.parameter(name, small.tensors.at(name))));
  program.program.graph.graphs.push_back(std::move(outer));
  program.output(program.call("higher_order.wrap_with_set_grad_enabled", std::move(arguments), {-1, 4}));
  const ExportedProgram flat = with_flat_regions(program.program);
  ASSERT_EQ(flat.graph.nodes.size(), 6U);
  for (const ProgramNode& node : flat.graph.nodes) EXPECT_TRUE(node.without_gradients);
}

}  // namespace
}  // namespace mptune::testing

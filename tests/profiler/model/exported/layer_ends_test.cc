// Into which layers a program is cut, and that so many of them train as the whole program does.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "exported_chain.h"
#include "profiler/model/exported/layer_ends.h"
#include "small_program.h"

namespace mptune::testing {
using namespace profiler;
namespace {

/// A chain of products: each takes a tensor of some width to one of the next width.
struct Products {
  explicit Products(const std::vector<std::int64_t>& widths) {
    at::manual_seed(1);
    int x = small.input("x", {-1, widths.front()});
    for (std::size_t i = 1; i < widths.size(); ++i) {
      const at::Tensor weight = at::eye(widths[i - 1], widths[i]) + 0.01 * at::randn({widths[i - 1], widths[i]});
      x = small.two("aten.matmul.default", x, small.parameter("w" + std::to_string(i), weight), {-1, widths[i]});
    }
    small.output(small.one("aten.sin.default", x, {-1, widths.back()}));
  }
  [[nodiscard]] std::shared_ptr<const BoundProgram> bound() const {
    return std::make_shared<const BoundProgram>(small.program, "small", 2);
  }
  SmallProgram small;
};

/// So many narrow products, then so many wide ones.
Products narrow_and_wide(int narrow, int wide) {
  std::vector<std::int64_t> widths(static_cast<std::size_t>(narrow), 2);
  widths.resize(widths.size() + static_cast<std::size_t>(wide) + 1, 8);
  return Products(widths);
}

TEST(LayerEnds, ProgramsOfFewCutsHaveALayerForEachProduct) {
  EXPECT_EQ(exported_layer_ends(*Products({4, 4, 4, 4}).bound()), (std::vector<int>{0, 1, 2, 4}));
  EXPECT_EQ(exported_layer_ends(*Products({4, 4}).bound()), (std::vector<int>{0, 2}));
  EXPECT_EQ(exported_layer_ends(*Products({4}).bound()), (std::vector<int>{0, 1})) << "no product at all";
}

TEST(LayerEnds, FourHundredStayApart) {
  EXPECT_EQ(exported_layer_ends(*narrow_and_wide(1, 399).bound()).size(), 401U);
  EXPECT_EQ(exported_layer_ends(*narrow_and_wide(1, 400).bound()).size(), 401U);
}

TEST(LayerEnds, OfMoreTheSmallestAreJoined) {
  constexpr int kNarrow = 120, kWide = kMostExportedLayers - 70;
  const Products products = narrow_and_wide(kNarrow, kWide);
  const auto program = products.bound();
  const std::vector<int> ends = exported_layer_ends(*program);
  EXPECT_EQ(static_cast<int>(ends.size()), kMostExportedLayers + 1);
  EXPECT_TRUE(std::ranges::is_sorted(ends));
  EXPECT_EQ(ends.front(), 0);
  EXPECT_EQ(ends.back(), program->graph.nodes());
  for (int product = kNarrow + 1; product < kNarrow + kWide; ++product) EXPECT_TRUE(std::ranges::binary_search(ends, product)) << product;
}

TEST(LayerEnds, ManyLayersTrainAsTheWholeProgramDoes) {
  const Products products = narrow_and_wide(60, kMostExportedLayers);
  const auto program = products.bound();
  const std::vector<int> ends = exported_layer_ends(*program);
  ExportedChain whole(program, products.small.tensors, {}), layers(program, products.small.tensors, {ends.begin() + 1, ends.end() - 1});
  ASSERT_EQ(static_cast<int>(layers.size()), kMostExportedLayers);
  const Tensors inputs{at::randn({2, 2})};
  whole.step(inputs);
  layers.step(inputs);
  EXPECT_GT(whole.loss().item<double>(), 0);
  const Agreement agreement = layers.compare({inputs, whole.loss(), whole.gradients(), whole.buffers()});
  EXPECT_EQ(agreement.different, 0) << agreement.worst_name << " " << agreement.worst;
  EXPECT_EQ(agreement.equal, kMostExportedLayers + 60 + 1);
}

}  // namespace
}  // namespace mptune::testing

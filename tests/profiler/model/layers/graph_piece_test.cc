#include "profiler/model/layers/graph_piece.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

namespace mptune::profiler {
namespace {

/// A layer that is asked for its parameters only.
class Described final : public Layer {
 public:
  explicit Described(bool trained) : trained_(trained) {}
  Tensors forward(const Tensors& inputs, const RunContext&) override { return inputs; }
  [[nodiscard]] std::vector<NamedTensor> parameters() const override {
    return trained_ ? std::vector<NamedTensor>{{"w", at::zeros({1}).requires_grad_()}} : std::vector<NamedTensor>{};
  }
  [[nodiscard]] std::vector<NamedTensor> buffers() const override { return {}; }
  [[nodiscard]] std::unique_ptr<Layer> clone() const override { return std::make_unique<Described>(trained_); }
  [[nodiscard]] std::string kind() const override { return "Described"; }

 private:
  bool trained_;
};

at::Tensor numbers(bool requires_grad = false) {
  return at::arange(6, at::kFloat).view({2, 3}).clone().requires_grad_(requires_grad);
}

std::vector<bool> flags_of(const Tensors& tensors) {
  std::vector<bool> flags;
  for (const at::Tensor& tensor : tensors) flags.push_back(tensor.requires_grad());
  return flags;
}

TEST(Leaves, RequireGradientsWhereTheGivenDo) {
  const at::Tensor raw = numbers(), leaf = numbers(true), classes = at::zeros({2}, at::kLong);
  const Tensors given{raw, leaf, leaf * 2, classes};
  const Tensors leaves = as_leaves(given);
  EXPECT_EQ(flags_of(leaves), (std::vector<bool>{false, true, true, false}));
  for (std::size_t i = 0; i < given.size(); ++i) {
    EXPECT_TRUE(leaves[i].is_leaf());
    EXPECT_EQ(leaves[i].data_ptr(), given[i].data_ptr());
  }
}
TEST(Leaves, OfUndefinedTensorsAreUndefined) {
  const Tensors leaves = as_leaves({at::Tensor(), numbers(true)});
  EXPECT_FALSE(leaves.at(0).defined());
  EXPECT_TRUE(leaves.at(1).requires_grad());
}

TEST(MarkedOutputs, AreThoseThatAutogradWouldFindWithGradientsOn) {
  const at::Tensor raw = numbers(), leaf = numbers(true);
  const auto marks = [](bool trained, const Tensors& inputs, const Tensors& outputs) {
    const at::NoGradGuard no_gradients;
    return flags_of(marked_outputs(Described(trained), inputs, outputs));
  };
  const auto outputs = [](const at::Tensor& input) {
    const at::NoGradGuard no_gradients;
    return Tensors{input * 2, input, input.select(0, 1), input > 1};
  };
  EXPECT_EQ(marks(false, {raw}, outputs(raw)), (std::vector<bool>{false, false, false, false}));
  EXPECT_EQ(marks(true, {raw}, outputs(raw)), (std::vector<bool>{true, false, false, false}));
  EXPECT_EQ(marks(false, {leaf}, outputs(leaf)), (std::vector<bool>{true, true, true, false}));
  EXPECT_EQ(marks(false, {leaf, raw}, {raw, leaf}), (std::vector<bool>{false, true}));
  EXPECT_EQ(flags_of(marked_outputs(Described(true), {raw}, {raw * 2})), (std::vector<bool>{false})) << "gradients are on";
}

TEST(GraphPiece, PassesOnUnreadInputsWithoutACopy) {
  GraphPiece piece{as_leaves({numbers(true), numbers(true), numbers()}), {}, {}};
  const at::Tensor gradient = at::ones({2, 3}), other = at::full({2, 3}, 5.0);
  set_roots(piece, {piece.inputs[1], piece.inputs[0] * 3, piece.inputs[2]});
  const Tensors gradients = backward_through(piece, {other, gradient, {}});
  ASSERT_EQ(gradients.size(), 3U);
  EXPECT_TRUE(at::equal(gradients[0], gradient * 3));
  EXPECT_EQ(gradients[1].data_ptr(), other.data_ptr());
  EXPECT_FALSE(gradients[2].defined());
}

TEST(GraphPiece, UndefinedInputsGetNoGradient) {
  for (const bool any : {true, false}) {
    GraphPiece piece{as_leaves({at::Tensor(), numbers(true)}), {}, {}};
    set_roots(piece, {piece.inputs[1] * 3, piece.inputs[0]});
    const Tensors gradients = backward_through(piece, any ? Tensors{at::ones({2, 3}), {}} : Tensors{});
    ASSERT_EQ(gradients.size(), 2U);
    EXPECT_FALSE(gradients[0].defined());
    EXPECT_EQ(gradients[1].defined(), any);
    EXPECT_TRUE(!any || at::equal(gradients[1], at::full({2, 3}, 3.0)));
  }
}

TEST(GraphPiece, AddsUpWhatIsReadAndHandedOn) {
  GraphPiece read{as_leaves({numbers(true)}), {}, {}};
  set_roots(read, {read.inputs[0], read.inputs[0] * 3});
  EXPECT_TRUE(at::equal(backward_through(read, {at::full({2, 3}, 5.0), at::ones({2, 3})})[0], at::full({2, 3}, 8.0)));
  GraphPiece twice{as_leaves({numbers(true)}), {}, {}};
  set_roots(twice, {twice.inputs[0], twice.inputs[0]});
  EXPECT_TRUE(at::equal(backward_through(twice, {at::full({2, 3}, 5.0), at::ones({2, 3})})[0], at::full({2, 3}, 6.0)));
}

TEST(GraphPiece, WithoutParametersBackwardDoesNothing) {
  GraphPiece piece{as_leaves({numbers()}), {}, {}};
  set_roots(piece, {piece.inputs[0] * 2});
  EXPECT_FALSE(backward_through(piece, {at::ones({2, 3})})[0].defined());
}

}  // namespace
}  // namespace mptune::profiler

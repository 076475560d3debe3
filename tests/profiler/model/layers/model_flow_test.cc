#include "profiler/model/layers/model_flow.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/error_of.h"

namespace mptune::profiler {
namespace {

using ::testing::ElementsAre;

/// A layer with a flow and forwards that make a number for each output.
class Flowing final : public Layer {
 public:
  explicit Flowing(std::optional<TensorFlow> flow, Tensors* seen = nullptr) : flow_(std::move(flow)), seen_(seen) {}
  Tensors forward(const Tensors& inputs, const RunContext&) override {
    *seen_ = inputs;
    return Tensors(flow_->passes.size(), at::ones({1}));
  }
  [[nodiscard]] std::optional<TensorFlow> flow() const override { return flow_; }
  [[nodiscard]] std::vector<NamedTensor> parameters() const override { return {}; }
  [[nodiscard]] std::vector<NamedTensor> buffers() const override { return {}; }
  [[nodiscard]] std::unique_ptr<Layer> clone() const override { return std::make_unique<Flowing>(flow_, seen_); }
  [[nodiscard]] std::string kind() const override { return "Flowing"; }

 private:
  std::optional<TensorFlow> flow_;
  Tensors* seen_;
};

/// Layers "layer0", "layer1" ..
ModelFlow flow_of(const std::vector<std::optional<TensorFlow>>& flows) {
  std::vector<ModelLayer> layers;
  for (const auto& flow : flows) layers.push_back({"layer" + std::to_string(layers.size()), {}, std::make_unique<Flowing>(flow)});
  return ModelFlow(layers);
}

/// Makers and readers alone.
std::vector<ModelTensor> read_flow_tensors(const ModelFlow& flow) {
  std::vector<ModelTensor> tensors = flow.tensors();
  for (ModelTensor& tensor : tensors) tensor.several.clear();
  return tensors;
}

constexpr int kWholeFlow = ModelTensor::kAll;
const std::optional<TensorFlow> kUnknown;

TEST(ModelFlow, OfLayersThatSayNothingIsAChain) {
  const ModelFlow flow = flow_of({kUnknown, kUnknown, kUnknown});
  EXPECT_THAT(read_flow_tensors(flow), ElementsAre(ModelTensor{-1, kWholeFlow, {0}}, ModelTensor{0, kWholeFlow, {1}},
                                                   ModelTensor{1, kWholeFlow, {2}}, ModelTensor{2, kWholeFlow, {3}}));
  for (int cut = 0; cut <= 3; ++cut) {
    EXPECT_THAT(flow.at(cut), ElementsAre(cut));
    EXPECT_TRUE(flow.is_unknown(cut));
  }
}

// layer0 makes a and b of the inputs x and y; layer1 reads b and passes x and a on; layer2 reads x and a.
TEST(ModelFlow, FollowsATensorFromItsMakerToAllItsReaders) {
  const ModelFlow flow =
      flow_of({TensorFlow{{true, true}, {-1, 0, -1}}, TensorFlow{{false, false, true}, {1, 0}}, TensorFlow{{true, true}, {-1, 0}}});
  EXPECT_THAT(read_flow_tensors(flow), ElementsAre(ModelTensor{-1, 0, {0, 2, 3}}, ModelTensor{-1, 1, {0}}, ModelTensor{0, 0, {2}},
                                                   ModelTensor{0, 2, {1}}, ModelTensor{2, 0, {3}}));
  EXPECT_THAT(flow.at(0), ElementsAre(0, 1));
  EXPECT_THAT(flow.at(1), ElementsAre(2, 0, 3));
  EXPECT_THAT(flow.at(2), ElementsAre(0, 2));
  EXPECT_THAT(flow.at(3), ElementsAre(4, 0)) << "the loss takes an input of the model";
  for (int cut = 0; cut <= 3; ++cut) EXPECT_FALSE(flow.is_unknown(cut));
}

// What a layer that says nothing takes is known from the layer before it, what it returns from the layer behind it.
TEST(ModelFlow, LayersThatSayNothingReadAllAndMakeAll) {
  const ModelFlow flow = flow_of({kUnknown, TensorFlow{{true, false}, {-1, 1, -1}}, kUnknown, TensorFlow{{false, true}, {0}}, kUnknown});
  EXPECT_THAT(read_flow_tensors(flow),
              ElementsAre(ModelTensor{-1, kWholeFlow, {0}}, ModelTensor{0, 0, {1}}, ModelTensor{0, 1, {2}}, ModelTensor{1, 0, {2}},
                          ModelTensor{1, 2, {2}}, ModelTensor{2, 0, {4}}, ModelTensor{2, 1, {3}}, ModelTensor{4, kWholeFlow, {5}}));
  EXPECT_THAT(flow.at(2), ElementsAre(3, 2, 4));
  EXPECT_THAT(flow.at(3), ElementsAre(5, 6));
  EXPECT_THAT(flow.at(4), ElementsAre(5));
  for (int cut = 0; cut <= 5; ++cut) EXPECT_EQ(flow.is_unknown(cut), cut == 0 || cut == 5) << cut;
}

TEST(ModelFlow, OneOfOneIsNotAll) {
  const ModelFlow flow = flow_of({TensorFlow{{true}, {-1}}, kUnknown});
  EXPECT_FALSE(flow.is_unknown(0));
  EXPECT_FALSE(flow.is_unknown(1));
  EXPECT_TRUE(flow.is_unknown(2));
}

TEST(ModelFlow, ATensorTakenTwiceIsOneWithOneReader) {
  const ModelFlow flow = flow_of({TensorFlow{{true}, {-1, 0, 0}}, TensorFlow{{true, true, true}, {0, 0}}});
  EXPECT_THAT(read_flow_tensors(flow), ElementsAre(ModelTensor{-1, 0, {0, 1}}, ModelTensor{0, 0, {1, 2}}));
  EXPECT_THAT(flow.at(1), ElementsAre(1, 0, 0));
  EXPECT_THAT(flow.at(2), ElementsAre(1, 1));
}

TEST(ModelFlow, SaysWhichLayersMayReadATensorWithSeveralOperators) {
  const ModelFlow flow = flow_of(
      {TensorFlow{{1}, {-1, 0}}, TensorFlow{{1, TensorFlow::kSeveral}, {-1, 0, 0, 1}}, TensorFlow{{0, 1, 1, 1}, {-1, 1, 3}}, kUnknown});
  ASSERT_EQ(flow.tensors().size(), 5U);
  EXPECT_EQ(flow.tensors()[0], (ModelTensor{-1, 0, {0, 1, 2, 3}, {1, 3}})) << "a layer that says nothing may read it several times";
  EXPECT_EQ(flow.tensors()[1], (ModelTensor{0, 0, {1, 2, 3}, {2, 3}})) << "taken at two places";
  EXPECT_EQ(flow.tensors()[2], (ModelTensor{1, 0, {}, {}}));
  EXPECT_EQ(flow.tensors()[3], (ModelTensor{2, 0, {3}, {3}}));
  EXPECT_EQ(flow.tensors()[4], (ModelTensor{3, kWholeFlow, {4}, {4}})) << "the loss";
}

TEST(ModelFlow, ATensorThatNobodyReadsHasNoReaders) {
  const ModelFlow flow = flow_of({TensorFlow{{false}, {-1, -1}}, TensorFlow{{true, false}, {-1}}});
  EXPECT_THAT(read_flow_tensors(flow),
              ElementsAre(ModelTensor{-1, 0, {}}, ModelTensor{0, 0, {1}}, ModelTensor{0, 1, {}}, ModelTensor{1, 0, {2}}));
}

TEST(ModelFlow, UnreadTensorsThatAreNotThereAreEmptyToTheLayerAndStayUndefined) {
  const at::Tensor there = at::ones({2, 3}, at::kDouble);
  for (const Tensors& inputs : {Tensors{at::Tensor(), there}, Tensors{at::Tensor(), at::Tensor()}}) {
    Tensors seen;
    const ModelLayer layer{"layer", {}, std::make_unique<Flowing>(TensorFlow{{false, inputs[1].defined()}, {0, -1, 1}}, &seen)};
    const Tensors outputs = run_layer(layer, 0, inputs, {});
    ASSERT_EQ(seen.size(), 2U);
    EXPECT_TRUE(seen[0].defined() && seen[0].numel() == 0);
    EXPECT_EQ(seen[1].defined() && seen[1].is_same(there), inputs[1].defined());
    EXPECT_FALSE(outputs.at(0).defined());
    EXPECT_TRUE(outputs.at(1).defined()) << "it is computed";
    EXPECT_EQ(outputs.at(2).defined(), inputs[1].defined());
  }
}

std::string wrong_flow(const std::vector<std::optional<TensorFlow>>& flows) {
  return testing::refusal_of([&] { (void)flow_of(flows); });
}

TEST(ModelFlow, ForwardsThatDoOtherwiseThanTheyFlowAreRefused) {
  Tensors seen;
  const ModelLayer layer{"pair", {}, std::make_unique<Flowing>(TensorFlow{{true, true}, {-1}}, &seen)};
  const std::string refusal = testing::refusal_of([&] { (void)run_layer(layer, 0, {at::ones({1})}, {}); });
  EXPECT_EQ(refusal, "pair: the layer's flow takes 2 tensors, forward got 1");
}

/// Its code refuses what it is given.
class Throwing final : public Layer {
 public:
  Tensors forward(const Tensors&, const RunContext&) override { TORCH_CHECK(false, "sizes do not match"); }
  [[nodiscard]] std::vector<NamedTensor> parameters() const override { return {}; }
  [[nodiscard]] std::vector<NamedTensor> buffers() const override { return {}; }
  [[nodiscard]] std::unique_ptr<Layer> clone() const override { return std::make_unique<Throwing>(); }
  [[nodiscard]] std::string kind() const override { return "Throwing"; }
};

TEST(RunLayer, ErrorsOfLibTorchNameTheLayer) {
  const ModelLayer layer{"block3", {}, std::make_unique<Throwing>()};
  try {
    (void)run_layer(layer, 0, {at::ones({1})}, {});
    ADD_FAILURE() << "nothing was thrown";
  } catch (const c10::Error& error) {
    EXPECT_STREQ(error.what_without_backtrace(), "sizes do not match (in layer block3)");
  }
}

TEST(ModelFlow, FlowsThatDoNotFitAreRefusedByTheLayersName) {
  const TensorFlow one{{true}, {-1}};
  EXPECT_EQ(wrong_flow({one, TensorFlow{{true, true}, {-1}}}), "layer1: the layer takes 2 tensors, and there are 1");
  EXPECT_EQ(wrong_flow({TensorFlow{{true}, {-1, 0}}, one}), "layer1: the layer takes 1 tensors, and there are 2");
  EXPECT_EQ(wrong_flow({one, one, TensorFlow{{true}, {-1, 1}}}), "layer2: the layer passes on input 1 of 1");
  EXPECT_EQ(wrong_flow({TensorFlow{{true}, {-2}}, one}), "layer0: the layer passes on input -2 of 1");
  EXPECT_EQ(wrong_flow({kUnknown, TensorFlow{{true, false}, {2}}}), "layer1: the layer passes on input 2 of 2");
}

}  // namespace
}  // namespace mptune::profiler

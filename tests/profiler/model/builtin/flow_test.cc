// What the layers of built-in models read and pass on.
#include <ATen/Parallel.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "profiler/model/layers/model_flow.h"
#include "profiler/model/loading/load_model.h"
#include "tests/support/declared_flow.h"

namespace mptune::profiler {
namespace {

using ::testing::ElementsAre;

constexpr int kAll = ModelTensor::kAll;

/// Makers and readers alone.
std::vector<ModelTensor> read_tensors(const ModelFlow& flow) {
  std::vector<ModelTensor> tensors = flow.tensors();
  for (ModelTensor& tensor : tensors) tensor.several.clear();
  return tensors;
}

ModelFlow flow_of(const std::string& model) {
  return ModelFlow(load_model(model, "", std::nullopt).model.layers());
}

// The second stem reads the images, the head the first branch's feature: nothing else of one branch is read in the other.
TEST(BuiltinFlow, BranchesOfLateFusionDoNotReadEachOther) {
  const ModelFlow flow = flow_of("late-fusion:width=4");
  std::vector<ModelTensor> expected{{-1, 0, {0, 9}}};
  for (int layer = 0; layer < 18; ++layer) expected.push_back({layer, 0, {layer == 8 ? 18 : layer + 1}});
  expected.push_back({18, kAll, {19}});
  EXPECT_EQ(read_tensors(flow), expected);
  EXPECT_THAT(flow.at(5), ElementsAre(5, 0));
  EXPECT_THAT(flow.at(9), ElementsAre(9, 0));
  EXPECT_THAT(flow.at(10), ElementsAre(10, 9));
  EXPECT_THAT(flow.at(18), ElementsAre(18, 9));
}

TEST(BuiltinFlow, SkipsOfUnetAreReadByTheLayersThatGoUp) {
  const ModelFlow flow = flow_of("unet:base=2,depth=3");
  EXPECT_THAT(read_tensors(flow), ElementsAre(ModelTensor{-1, kAll, {0}}, ModelTensor{0, 0, {1, 6}}, ModelTensor{1, 0, {2, 5}},
                                              ModelTensor{2, 0, {3, 4}}, ModelTensor{3, 0, {4}}, ModelTensor{4, 0, {5}},
                                              ModelTensor{5, 0, {6}}, ModelTensor{6, 0, {7}}, ModelTensor{7, kAll, {8}}));
  EXPECT_THAT(flow.at(4), ElementsAre(4, 3, 2, 1));
  EXPECT_THAT(flow.at(6), ElementsAre(6, 1));
}

TEST(BuiltinFlow, TheLossOfTheThreePartsReadsTheImage) {
  const ModelFlow flow = flow_of("encoder-decoder-classifier:width=4,hidden=8");
  EXPECT_THAT(read_tensors(flow), ElementsAre(ModelTensor{-1, 0, {0, 8}}, ModelTensor{0, 0, {1}}, ModelTensor{1, 0, {2}},
                                              ModelTensor{2, 0, {3, 6}}, ModelTensor{3, 0, {4}}, ModelTensor{4, 0, {5}},
                                              ModelTensor{5, 0, {8}}, ModelTensor{6, 0, {7}}, ModelTensor{7, 0, {8}}));
  EXPECT_THAT(flow.at(5), ElementsAre(5, 3, 0));
  EXPECT_THAT(flow.at(8), ElementsAre(8, 6, 0));
}

// The mask is made by the embeddings and read by every encoder layer.
TEST(BuiltinFlow, TheMaskOfBertIsReadByEveryEncoderLayer) {
  const ModelFlow flow = flow_of("bert:d=8,layers=3,heads=2,seq=4,vocab=9");
  EXPECT_THAT(read_tensors(flow),
              ElementsAre(ModelTensor{-1, kAll, {0}}, ModelTensor{0, 0, {1}}, ModelTensor{0, 1, {1, 2, 3}}, ModelTensor{1, 0, {2}},
                          ModelTensor{2, 0, {3}}, ModelTensor{3, 0, {4}}, ModelTensor{4, kAll, {5}}, ModelTensor{5, kAll, {6}}));
}

TEST(BuiltinFlow, IsTrue) {
  at::set_num_threads(1);
  const std::map<std::string, std::string> inputs{{"late-fusion:width=4,classes=5", "2x3x32x32"},
                                                  {"unet:base=2,depth=3,classes=3", "3x16x16"},
                                                  {"encoder-decoder-classifier:width=4,hidden=8,classes=4", "3x16x16"},
                                                  {"bert:d=8,layers=3,heads=2,seq=6,vocab=5,classes=3", ""}};
  for (const auto& [text, input] : inputs) {
    SCOPED_TRACE(text);
    const Model model = load_model(text, input, 0).model;
    const RunContext context{.seed = 1, .samples = 3};
    Tensors values = synthetic_batch(model.sample(), 3, 1).inputs;
    int declared = 0;
    for (int i = 0; i < model.size(); ++i) {
      const ModelLayer& layer = model.layers()[as_index(i)];
      if (layer.layer->flow()) {
        ++declared;
        for (const bool gradients : {false, true}) testing::expect_true_flow(layer, i, values, context, gradients);
        testing::expect_read(layer, i, values, context);
      }
      values = run_layer(layer, i, values, context);
    }
    EXPECT_GE(declared, 3);
  }
}

}  // namespace
}  // namespace mptune::profiler

#include "tuner/runtime/graph/stage_links.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "profiler/model/loading/load_model.h"

namespace mptune::testing {
namespace {

using ::testing::ElementsAre;
using tuner::StageLink;
using tuner::StageTensors;

/// Links and tensors of a model that is cut before these layers.
struct CutModel {
  CutModel(const std::string& text, const std::vector<int>& cuts) {
    const Model model = load_model(text, "", std::nullopt).model;
    std::vector<Stage> stages;
    int first = 0;
    for (const int cut : cuts) stages.push_back({std::exchange(first, cut), cut, {}, {}});
    stages.push_back({first, model.size(), {}, {}});
    const profiler::ModelFlow flow(model.layers());
    links = tuner::stage_links(flow, stages);
    tensors = tuner::stage_tensors(flow, stages);
  }

  std::vector<StageLink> links;
  std::vector<StageTensors> tensors;
};

// Layers 0 to 8 are the first branch, which takes { images } and returns { feature, images }; 9 to 17 the second, which returns
// { its feature, the first feature }.
TEST(StageLinks, BranchesSendTheirFeaturesToTheHead) {
  const CutModel cut("late-fusion:width=4", {9, 18});
  EXPECT_THAT(cut.links, ElementsAre(StageLink{0, 2, false, {{0, 1}}}, StageLink{1, 2, false, {{0, 0}}}));
  EXPECT_THAT(cut.tensors, ElementsAre(StageTensors{true, {}, 1, 2}, StageTensors{false, {{0, 1}}, 2, 2}, StageTensors{false, {}, 2, 0}));
}

TEST(StageLinks, APieceOfABranchIsSentWhatIsComputedBeforeIt) {
  const CutModel cut("late-fusion:width=4", {4, 12});
  EXPECT_THAT(cut.links, ElementsAre(StageLink{0, 1, false, {{0, 0}}}, StageLink{1, 2, false, {{0, 0}, {1, 1}}}));
  EXPECT_THAT(cut.tensors, ElementsAre(StageTensors{true, {}, 1, 2}, StageTensors{false, {{0, 1}}, 2, 2}, StageTensors{false, {}, 2, 0}));
}

// inc | down1 down2 | up1 up2 | outc: inc's output is read by down1 and, in the third stage, by up2.
TEST(StageLinks, SkipsAreSentToWhereTheyAreRead) {
  const CutModel cut("unet:base=2,depth=2", {1, 3, 5});
  EXPECT_THAT(cut.links, ElementsAre(StageLink{0, 1, false, {{0, 0}}}, StageLink{0, 2, false, {{0, 2}}},
                                     StageLink{1, 2, false, {{0, 0}, {1, 1}}}, StageLink{2, 3, false, {{0, 0}}}));
  EXPECT_THAT(cut.tensors, ElementsAre(StageTensors{true, {}, 0, 1}, StageTensors{false, {}, 1, 3}, StageTensors{false, {}, 3, 1},
                                       StageTensors{false, {}, 1, 0}));
}

// inc down1 | down2 up1 | up2 outc
TEST(StageLinks, AStageThatOnlyHandsATensorOnIsNotSentIt) {
  const CutModel cut("unet:base=2,depth=2", {2, 4});
  EXPECT_THAT(cut.links, ElementsAre(StageLink{0, 1, false, {{0, 0}}}, StageLink{0, 2, false, {{1, 1}}}, StageLink{1, 2, false, {{0, 0}}}));
}

// The loss reads the reconstruction, which decoder.2 computes, and the image.
TEST(StageLinks, TheLastStageIsSentWhatTheLossReads) {
  const CutModel cut("encoder-decoder-classifier:width=4,hidden=8", {3, 6, 7});
  EXPECT_THAT(cut.links, ElementsAre(StageLink{0, 1, false, {{0, 0}}}, StageLink{0, 2, false, {{0, 1}}}, StageLink{1, 3, false, {{0, 1}}},
                                     StageLink{2, 3, false, {{0, 0}}}));
  EXPECT_THAT(cut.tensors, ElementsAre(StageTensors{true, {}, 1, 2}, StageTensors{false, {}, 2, 3}, StageTensors{false, {}, 3, 3},
                                       StageTensors{false, {{0, 2}}, 3, 3}));
}

TEST(StageLinks, WhereNothingIsKnownEverythingIsSent) {
  const CutModel cut("mlp:layers=5", {2, 3});
  EXPECT_THAT(cut.links, ElementsAre(StageLink{0, 1, true, {}}, StageLink{1, 2, true, {}}));
  EXPECT_THAT(cut.tensors, ElementsAre(StageTensors{true, {}, 0, 0}, StageTensors{false, {}, 0, 0}, StageTensors{false, {}, 0, 0}));
}

TEST(StageLinks, OneStageHasNone) {
  const CutModel cut("late-fusion:width=4", {});
  EXPECT_TRUE(cut.links.empty());
  EXPECT_THAT(cut.tensors, ElementsAre(StageTensors{true, {}, 1, 0}));
}

}  // namespace
}  // namespace mptune::testing

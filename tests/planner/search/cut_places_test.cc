// Stages that begin with modules of given names: which cuts are allowed, and that nothing else is searched.
#include "planner/search/cut_places.h"

#include <gmock/gmock.h>

#include <numeric>

#include "planner/search/search.h"
#include "planner/search/search_result.h"
#include "planner/search/space/given_choices.h"
#include "profiler/base/index.h"
#include "tests/planner/search/spaces.h"
#include "tests/support/error_of.h"

namespace mptune::planner {
namespace {

std::vector<ProfileLayer> layers_of(const std::vector<std::vector<std::string>>& modules) {
  std::vector<ProfileLayer> layers;
  for (const auto& of_layer : modules) layers.push_back({"layer" + std::to_string(layers.size()), "", of_layer});
  return layers;
}

/// Two layers in each block, as an exported transformer has them, whose middle layer is of both.
const std::vector<ProfileLayer> kTransformer = layers_of({{"embed"},
                                                          {"layers.0.attn"},
                                                          {"layers.0.mlp"},
                                                          {"layers.1.attn"},
                                                          {"layers.1.mlp", "layers.2.attn"},
                                                          {"layers.2.mlp"},
                                                          {"layers.3.attn"},
                                                          {"layers.3.mlp"},
                                                          {"norm", "head"}});

TEST(CutPlaces, BeginModulesThatTheyDoNotDivide) {
  EXPECT_EQ(cut_places("layers.*", kTransformer), (std::vector<int>{1, 3, 6})) << "layers.2 begins in a layer of layers.1";
  EXPECT_EQ(cut_places("layers.*,norm", kTransformer), (std::vector<int>{1, 3, 6, 8}));
  EXPECT_EQ(cut_places("layers.*,head", kTransformer), (std::vector<int>{1, 3, 6})) << "norm comes before the head";
  EXPECT_EQ(cut_places("layers.?.mlp", kTransformer), (std::vector<int>{2, 4, 5, 7}));
  EXPECT_EQ(cut_places("layers.[01]", kTransformer), (std::vector<int>{1, 3}));
  EXPECT_EQ(cut_places("*", kTransformer), (std::vector<int>{1, 8})) << "layers, norm and head";
}

TEST(CutPlaces, NamesOfNoModuleAreRefused) {
  EXPECT_THAT(testing::refusal_of([] { (void)cut_places("blocks.*", kTransformer); }),
              ::testing::HasSubstr("no module is named by 'blocks.*'"));
  EXPECT_THAT(testing::error_of([] { (void)cut_places("blocks.*", kTransformer); }).remedy(), ::testing::HasSubstr("embed, layers.0.attn"));
  EXPECT_THAT(testing::refusal_of([] { (void)cut_places("embed", kTransformer); }), ::testing::HasSubstr("no cut is possible"));
  for (const char* pattern : {"layers..0", ".layers", "layers.*,", ","})
    EXPECT_THAT(testing::refusal_of([&] { (void)cut_places(pattern, kTransformer); }), ::testing::HasSubstr("is not a path of modules"));
  EXPECT_THAT(testing::error_of([] { (void)cut_places("a", layers_of({{}, {}})); }).remedy(), ::testing::HasSubstr("names no modules"));
}

/// Against the rule, word by word, on random models whose layers have parts of several modules.
TEST(CutPlaces, AgreeWithTheRuleOnRandomModels) {
  std::mt19937 random(5);
  for (int test = 0; test < 500; ++test) {
    std::vector<std::vector<std::string>> modules(2 + random() % 9);
    int block = 0;
    for (auto& of_layer : modules)
      for (int parts = static_cast<int>(random() % 3); parts >= 0; --parts) {
        of_layer.push_back((random() % 4 == 0 ? "other." : "blocks.") + std::to_string(block) + ".fc");
        block += random() % 2 == 0 ? 1 : 0;
      }
    const auto has = [&](std::size_t layer, const std::string& name) {
      return std::ranges::any_of(modules[layer], [&](const std::string& module) { return module.starts_with(name + "."); });
    };
    std::vector<int> expected;
    for (std::size_t cut = 1; cut < modules.size(); ++cut) {
      bool begins = false, divides = false;
      for (int b = 0; b <= block; ++b) {
        const std::string name = "blocks." + std::to_string(b);
        bool before = false, behind = false;
        for (std::size_t layer = 0; layer < modules.size(); ++layer) (layer < cut ? before : behind) |= has(layer, name);
        divides |= before && behind;
        begins |= !before && modules[cut].front().starts_with(name + ".");
      }
      if (begins && !divides) expected.push_back(static_cast<int>(cut));
    }
    std::vector<int> found;
    try {
      found = cut_places("blocks.*", layers_of(modules));
    } catch (const Error&) {
      found.clear();
    }
    EXPECT_EQ(found, expected) << test;
  }
}

TEST(CutPlaces, NearlyEqualCutsAreEqualWhereTheyCanBe) {
  EXPECT_EQ(nearly_equal_cuts({1, 2, 3, 4, 5, 6, 7}, 8, 4), (std::vector<int>{2, 4, 6}));
  EXPECT_EQ(nearly_equal_cuts({1, 3, 6}, 9, 3), (std::vector<int>{3, 6}));
  for (int layers = 2; layers < 20; ++layers) {
    std::vector<int> all(as_index(layers - 1));
    std::iota(all.begin(), all.end(), 1);
    for (int stages = 1; stages <= layers; ++stages) EXPECT_EQ(nearly_equal_cuts(all, layers, stages), equal_cuts(layers, stages));
  }
  EXPECT_EQ(nearly_equal_cuts({1, 3, 6}, 9, 4), (std::vector<int>{1, 3, 6}));
  EXPECT_EQ(nearly_equal_cuts({7, 8}, 9, 3), (std::vector<int>{7, 8}));
  EXPECT_TRUE(nearly_equal_cuts({7}, 9, 1).empty());
}

/// Searches with places against searches that list all sets of these cuts.
TEST(CutPlaces, NoOtherPlanIsFound) {
  std::mt19937 random(9);
  for (int test = 0; test < 40; ++test) {
    Profile profile = testing::with_names(testing::make_profile(testing::random_shape(random, 6, 2), testing::random_factors(random, 6)),
                                          testing::names(2));
    std::vector<int> places;
    for (int layer = 1; layer < 6; ++layer)
      if (random() % 2 == 0) places.push_back(layer);
    if (places.empty()) continue;
    SearchSpace space;
    space.devices = testing::names(2);
    space.batch = 8;
    space.virtual_counts = {1};
    space.keep = 10'000;
    SearchSpace listed = space;
    for (const int place : places) listed.cuts.push_back({place});
    listed.cuts.emplace_back();
    space.cut_places = places;
    const SearchResult found = search_plans(space, profile), expected = search_plans(listed, profile);
    ASSERT_FALSE(found.ranked.empty());
    EXPECT_EQ(found.ranked.front().prediction.step_s, expected.ranked.front().prediction.step_s);
    for (const Candidate& candidate : found.ranked)
      for (std::size_t s = 1; s < candidate.plan.stages.size(); ++s)
        EXPECT_TRUE(std::ranges::binary_search(places, candidate.plan.stages[s].first_layer));
  }
}

TEST(CutPlaces, GivenCutsAndStagesHaveToFit) {
  PlanOptions options;
  options.devices = testing::names(2);
  options.batch = 8;
  options.layers = 9;
  options.cut_places = {1, 3, 6};
  EXPECT_EQ(make_plan(options).stages[1].first_layer, 6) << "5 would be even";
  options.cuts = {3};
  EXPECT_EQ(make_plan(options).stages[1].first_layer, 3);
  options.cuts = {4};
  for (const auto& ask : {std::function([&] { (void)make_plan(options); }), std::function([&] { (void)search_space(options); })})
    EXPECT_EQ(testing::error_of(ask).problem(), "cut 4 is not before a module that `cut_at` names");
  options.cuts.clear();
  options.cut_places = {3};
  options.stages = 3;
  options.devices = testing::names(3);
  PlanOptions replicas = options;
  replicas.stages = 0;
  replicas.replicas = {1, 1, 1};
  EXPECT_THAT(testing::refusal_of([&] { (void)search_space(replicas); }), ::testing::HasSubstr("3 stages"));
  EXPECT_EQ(testing::error_of([&] { (void)make_plan(options); }).problem(), "3 stages, but `cut_at` names 1 place for a cut");
}

}  // namespace
}  // namespace mptune::planner

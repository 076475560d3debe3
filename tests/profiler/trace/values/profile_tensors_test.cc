#include "profiler/trace/values/profile_tensors.h"

#include <gtest/gtest.h>

#include <random>
#include <vector>

#include "profiler/base/error.h"
#include "profiler/base/index.h"

namespace mptune {
namespace {

Profile graph_of(int layers, std::vector<LayerEdge> edges) {
  Profile profile;
  profile.layers.resize(as_index(layers));
  profile.edges = std::move(edges);
  return profile;
}

TEST(ProfileTensors, EdgesOfOneMakerAndSizeAreOneTensor) {
  const Profile profile = graph_of(4, {{0, 1, 8, 0, true, true}, {0, 3, 8, 0, false}, {0, 3, 8, 0, true}, {0, 2, 9, 1, false}});
  const std::vector<ProfileTensor> expected = {{0, 8, 0, {1, 3}, {1}, {1}}, {0, 8, 0, {3}, {}, {3}}, {0, 9, 1, {2}, {}, {}}};
  EXPECT_EQ(profile_tensors(profile), expected) << "a layer that reads two of one size reads two tensors";
}

TEST(ProfileTensors, EdgesLeadForward) {
  for (const LayerEdge& edge :
       {LayerEdge{-1, 1, 8, 0, true}, LayerEdge{1, 1, 8, 0, true}, LayerEdge{2, 1, 8, 0, true}, LayerEdge{1, 4, 8, 0, true}})
    EXPECT_THROW((void)profile_tensors(graph_of(4, {edge})), Error);
}

TEST(ProfileTensors, ChainsAreRecognised) {
  EXPECT_TRUE(is_chain(graph_of(1, {})));
  EXPECT_TRUE(is_chain(graph_of(3, {{0, 1, 8, 0, true}, {1, 2, 8, 0, true}, {1, 2, 4, 0, false}})));
  EXPECT_FALSE(is_chain(graph_of(3, {{0, 1, 8, 0, true}, {1, 2, 8, 0, true}, {0, 2, 4, 0, false}}))) << "a skip";
  EXPECT_FALSE(is_chain(graph_of(3, {{0, 1, 8, 0, true}}))) << "the last layer reads nothing";
}

TEST(ProfileTensors, ABackboneIsTheEdgesToTheNextLayer) {
  const Profile skips = graph_of(3, {{0, 1, 8, 0, true}, {1, 2, 8, 0, true}, {0, 2, 4, 0, true}});
  ASSERT_TRUE(backbone(skips));
  EXPECT_EQ(backbone(skips)->edges, (std::vector<LayerEdge>{{0, 1, 8, 0, true}, {1, 2, 8, 0, true}}));
  EXPECT_FALSE(backbone(graph_of(3, {{0, 2, 8, 0, true}, {1, 2, 8, 0, true}}))) << "layer 1 does not read layer 0";
  EXPECT_FALSE(backbone(graph_of(3, {{0, 1, 8, 0, false}, {1, 2, 8, 0, true}}))) << "no gradient comes back to layer 0";
}

// What crosses each cut, counted tensor by tensor.
TEST(ProfileTensors, AChainCarriesWhatLaterLayersRead) {
  std::mt19937 random(9);
  const auto draw = [&](int low, int high) { return std::uniform_int_distribution<int>(low, high)(random); };
  for (int round = 0; round < 500; ++round) {
    Profile profile = graph_of(7, {});
    for (int from = 0; from < 6; ++from)
      for (int to = from + 1; to < 7; ++to)
        if (draw(0, 2) == 0) profile.edges.push_back({from, to, draw(0, 3), draw(0, 1), draw(0, 1) == 0});
    const Profile chain = as_chain(profile);
    ASSERT_TRUE(is_chain(chain));
    ASSERT_EQ(as_chain(chain).edges, chain.edges);
    for (int cut = 1; cut < 7; ++cut) {
      std::int64_t bytes = 0, gradients = 0;
      for (const ProfileTensor& tensor : profile_tensors(profile)) {
        const bool crosses = tensor.maker < cut && cut <= tensor.readers.back();
        bytes += crosses ? tensor.bytes_per_sample + tensor.fixed_bytes : 0;
        const bool comes_back = crosses && !tensor.gradient_readers.empty() && cut <= tensor.gradient_readers.back();
        gradients += comes_back ? tensor.bytes_per_sample + tensor.fixed_bytes : 0;
      }
      for (const LayerEdge& edge : chain.edges) {
        if (edge.to != cut) continue;
        bytes -= edge.bytes_per_sample + edge.fixed_bytes;
        gradients -= edge.needs_gradient ? edge.bytes_per_sample + edge.fixed_bytes : 0;
      }
      ASSERT_EQ(bytes, 0) << round << " cut " << cut;
      ASSERT_EQ(gradients, 0) << round << " cut " << cut;
    }
  }
}

}  // namespace
}  // namespace mptune

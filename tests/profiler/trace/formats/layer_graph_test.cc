#include "profiler/trace/formats/layer_graph.h"
#include "profiler/base/index.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <set>

#include "tests/profiler/trace/formats/files.h"
#include "tests/profiler/trace/formats/refusals.h"
#include "tests/support/layer_chain.h"

namespace mptune::profiler {
namespace {

Profile graph_of(const std::string& text) {
  TextInput input = text_in_memory(text.data(), text.size());
  return read_layer_graph(input);
}

std::string node_line(const std::string& name, const std::string& description, const std::string& activation = "8.0",
                      const std::string& parameters = "4.000") {
  return name + " -- " + description + " -- forward_compute_time=1.500, backward_compute_time=2.25, activation_size=" + activation +
         ", parameter_size=" + parameters + "\n";
}

std::vector<std::string> names_of(const Profile& profile) {
  std::vector<std::string> names;
  for (const ProfileLayer& layer : profile.layers) names.push_back(layer.name);
  return names;
}

TEST(LayerGraph, MillisecondsAndBytes) {
  const Profile profile =
      graph_of(node_line("node1", "Conv2d(3, 64)", "1024.000", "512.000") + node_line("node2", "ReLU", "96", "0") + "\tnode1 -- node2\n");
  ASSERT_EQ(profile.layers.size(), 2U);
  EXPECT_EQ(profile.layers[0].kind, "Conv2d");
  EXPECT_EQ(profile.layers[0].parameters_bytes, 512);
  EXPECT_EQ(profile.layers[0].parameters, 128);
  ASSERT_EQ(profile.classes.size(), 1U);
  const LayerCost& cost = profile.classes[0].layers[0].by_samples.at(0);
  EXPECT_EQ(cost.samples, 1);
  EXPECT_DOUBLE_EQ(median(cost.forward), 1.5e-3);
  EXPECT_DOUBLE_EQ(median(cost.backward), 2.25e-3);
  EXPECT_EQ(cost.output_bytes, 1024);
  EXPECT_EQ(cost.saved_activation_bytes, 1024);
  EXPECT_EQ(profile.edges, (std::vector<LayerEdge>{{0, 1, 1024, 0, true}}));
  EXPECT_TRUE(profile.devices.empty() && profile.links.empty() && profile.forbidden_cuts.empty());
}

TEST(LayerGraph, OrderIsTopologicalAndByNumber) {
  const std::string edges = "\tnode10 -- node9\n\tnode2 -- node10\n\tnode2 -- node3\n\tnode3 -- node9\n";
  const std::string nodes = node_line("node9", "d") + node_line("node10", "b") + node_line("node3", "c") + node_line("node2", "a");
  const Profile profile = graph_of(nodes + edges);
  EXPECT_EQ(names_of(profile), (std::vector<std::string>{"node2", "node3", "node10", "node9"}));
  EXPECT_EQ(graph_of(edges + nodes), profile);
  for (const LayerEdge& edge : profile.edges) EXPECT_LT(edge.from, edge.to);
  EXPECT_EQ(profile.edges.size(), 4U);
}

TEST(LayerGraph, SeveralTensorsAreLiveTogether) {
  const Profile profile =
      graph_of(node_line("node1", "LSTM(2, 1)", "[100.0; 20.0;3]") + node_line("node2", "__getitem__(0)", "100.0", "0") +
               node_line("node3", "Linear") + "\tnode1 -- node2\n\tnode2 -- node3\n\tnode1 -- node3\n\tnode1 -- node3\n");
  EXPECT_EQ(profile.classes[0].layers[0].by_samples[0].saved_activation_bytes, 123);
  EXPECT_EQ(profile.classes[0].layers[1].by_samples[0].saved_activation_bytes, 0) << "a view keeps nothing";
  EXPECT_EQ(profile.classes[0].layers[1].by_samples[0].output_bytes, 100);
  EXPECT_EQ(profile.edges, (std::vector<LayerEdge>{{0, 1, 123, 0, true}, {0, 2, 123, 0, true}, {1, 2, 100, 0, true}}));
}

TEST(LayerGraph, InputNodesAreLeftOut) {
  const Profile profile = graph_of(node_line("node1", "Input") + node_line("node2", "mask", "6", "0") + node_line("node3", "Conv2d") +
                                   node_line("node4", "Add") + "\tnode1 -- node2\n\tnode1 -- node3\n\tnode2 -- node4\n\tnode3 -- node4\n");
  EXPECT_EQ(names_of(profile), (std::vector<std::string>{"node2", "node3", "node4"}));
  EXPECT_EQ(profile.edges, (std::vector<LayerEdge>{{0, 2, 6, 0, false}, {1, 2, 8, 0, true}})) << "nothing trains the mask";
}

TEST(LayerGraph, InPlaceLayersStayWithWhatTheyOverwrite) {
  const Profile profile = graph_of(node_line("node1", "Conv2d") + node_line("node2", "ReLU(inplace)") + node_line("node3", "Conv2d") +
                                   node_line("node4", "Add(inplace)") + node_line("node5", "Dropout(p=0.5, inplace=False)") +
                                   "\tnode1 -- node2\n\tnode2 -- node3\n\tnode2 -- node4\n\tnode3 -- node4\n\tnode4 -- node5\n");
  EXPECT_EQ(profile.forbidden_cuts, (std::vector<ForbiddenCut>{{1, "node2 works in place on the output of node1"},
                                                               {3, "node4 works in place on the output of node3"}}));
  std::vector<std::int64_t> kept;
  for (const LayerCosts& costs : profile.classes[0].layers) kept.push_back(costs.by_samples[0].saved_activation_bytes);
  EXPECT_EQ(kept, (std::vector<std::int64_t>{8, 0, 8, 0, 8}));
}

// Every node overwrites the output of the first one: node n alone forbids the n - 1 cuts before it.
TEST(LayerGraph, ForbiddenCutsAreAsManyAsCuts) {
  constexpr int kNodes = 2000;
  const std::string last(300, 'x');
  std::string text = node_line("node1", "Conv2d");
  for (int n = 2; n <= kNodes; ++n) {
    const std::string name = n < kNodes ? std::string("node").append(std::to_string(n)) : last;
    text += node_line(name, "ReLU(inplace)") + "\tnode1 -- " + name + "\n";
  }
  const Profile profile = graph_of(text);
  ASSERT_EQ(profile.forbidden_cuts.size(), as_index(kNodes - 1));
  for (int cut = 1; cut < kNodes - 1; ++cut) {
    const std::string name = std::string("node").append(std::to_string(cut + 1));
    EXPECT_EQ(profile.forbidden_cuts[as_index(cut - 1)], (ForbiddenCut{cut, name + " works in place on the output of node1"}));
  }
  EXPECT_EQ(profile.forbidden_cuts.back().reason, std::string(80, 'x') + "... works in place on the output of node1");
}

std::string graph_refusal(const std::string& text) {
  return testing::refusal_of_text([](TextInput& input) { (void)read_layer_graph(input); }, text);
}

void expect_graph_refusal(const std::string& text, int line, const std::string& part) {
  const std::string refusal = graph_refusal(text);
  EXPECT_TRUE(refusal.starts_with("memory:" + std::to_string(line) + ": ")) << refusal;
  EXPECT_NE(refusal.find(part), std::string::npos) << refusal;
}

TEST(HostileGraph, NotThisFormat) {
  expect_graph_refusal("", 1, "no node");
  expect_graph_refusal("\n\n", 2, "no node");
  expect_graph_refusal("hello\n", 1, "the node is not of the form");
  expect_graph_refusal("{\"nodes\": []}", 1, "the node is not of the form");
  expect_graph_refusal(std::string("\0\1\2\xff\xfe", 5), 1, "control character");
  expect_graph_refusal(std::string(100000, 'a'), 1, "64 KiB");
  expect_graph_refusal("\tnode1 -- node2\n", 1, "no node");
  EXPECT_NE(graph_refusal(node_line("node1", "Input")).find("no layer"), std::string::npos);
}

TEST(HostileGraph, BrokenNodes) {
  const std::string good = node_line("node1", "a");
  expect_graph_refusal(good + node_line("node1", "b"), 2, "duplicate node node1");
  expect_graph_refusal(good + "node2 -- b -- forward_compute_time=1", 2, "the node needs");
  expect_graph_refusal(good + "\nnode2 -- b -- forward_compute", 3, "NAME=NUMBER");
  expect_graph_refusal(good + "node2 -- b -- forward_compute_time=1, forward_compute_time=1", 2, "duplicate forward_compute_time");
  for (const char* value : {"", "x", "1x", "0x10", "--1", "[1]"})
    expect_graph_refusal(good + "node2 -- b -- forward_compute_time=" + value + ", backward_compute_time=1", 2,
                         "forward_compute_time is not a number");
  for (const char* value : {"nan", "inf", "-1", "1e400", "1e9"})
    expect_graph_refusal(good + "node2 -- b -- forward_compute_time=" + value, 2, "forward_compute_time is out of range");
  for (const char* value : {"-1", "1e30", "99999999999999999999", "nan", "[1; -2]", "[inf]"})
    expect_graph_refusal(good + node_line("node2", "b", value), 2, "activation_size is out of range");
  for (const char* value : {"[1; 2", "[", "[]", "[;]", "1; 2", "[a]"})
    EXPECT_TRUE(graph_refusal(good + node_line("node2", "b", value)).starts_with("memory:2: ")) << value;
}

TEST(HostileGraph, BrokenEdges) {
  const std::string nodes = node_line("node1", "a") + node_line("node2", "b") + node_line("node3", "c");
  expect_graph_refusal(nodes + "\tnode1 -- node4\n", 4, "unknown node");
  expect_graph_refusal("\tnode4 -- node1\n" + nodes, 1, "unknown node");
  expect_graph_refusal(nodes + "\tnode1\n", 4, "FROM -- TO");
  expect_graph_refusal(nodes + "\tnode1 -- node2 -- node3\n", 4, "FROM -- TO");
  expect_graph_refusal(nodes + "\tnode1 -- node1\n", 4, "from a node to itself");
  expect_graph_refusal(nodes + "\tnode1 -- node2\n\tnode2 -- node1\n\tnode2 -- node3\n", 4, "cycle through node2");
  expect_graph_refusal(nodes + "\tnode2 -- node3\n\tnode1 -- node2\n\tnode3 -- node2\n", 4, "cycle through node3");
}

TEST(HostileGraph, TooLarge) {
  std::string large;
  for (int i = 0; i < 5000; ++i) large += node_line("node" + std::to_string(i), "a", "1e9");
  expect_graph_refusal(large, 4399, "4 TiB");
  std::string slow;
  for (int i = 0; i < 5; ++i)
    slow +=
        "node" + std::to_string(i) + " -- a -- forward_compute_time=1e6, backward_compute_time=0, activation_size=1, parameter_size=1\n";
  expect_graph_refusal(slow, 4, "an hour");
  std::string many;
  for (int i = 0; i < 10001; ++i) many += node_line("node" + std::to_string(i), "a");
  expect_graph_refusal(many, 10001, "10,000 nodes");
  std::string edges;
  for (int i = 0; i < 100001; ++i) edges += "\ta -- b\n";
  expect_graph_refusal(edges, 100001, "100,000 edges");
}

// A graph of `layers` nodes in order, every one but the first with one to three producers.
Profile random_graph(std::mt19937& random, int layers) {
  Profile graph;
  graph.classes.emplace_back();
  for (int l = 0; l < layers; ++l) {
    graph.layers.emplace_back().name = std::to_string(l);
    LayerCost cost;
    cost.samples = 1;
    cost.forward = exactly(1.0 + l);
    cost.backward = exactly(2.0 + l);
    cost.saved_activation_bytes = 1 << l;
    graph.classes[0].layers.push_back({{cost}});
    std::set<int> from;
    for (std::uint32_t i = 0; l > 0 && i < 1 + random() % 3; ++i) from.insert(std::max(0, l - 1 - static_cast<int>(random() % 3)));
    for (const int producer : from) graph.edges.push_back({producer, l, 10 + producer, producer % 2, true});
  }
  return graph;
}

TEST(LayerChain, CutsWhereOneTensorIsLive) {
  std::mt19937 random(7);
  for (int round = 0; round < 500; ++round) {
    const int layers = 1 + static_cast<int>(random() % 12);
    const Profile graph = random_graph(random, layers);
    std::vector<std::vector<int>> expected{{0}};
    std::vector<std::int64_t> crossing;
    for (int cut = 1; cut < layers; ++cut) {
      std::set<int> live;
      for (const LayerEdge& edge : graph.edges)
        if (edge.from < cut && edge.to >= cut) live.insert(edge.from);
      if (live.size() <= 1) {
        expected.emplace_back();
        crossing.push_back(live.empty() ? 0 : 10 + *live.begin());
      }
      expected.back().push_back(cut);
    }
    const Profile chain = testing::layer_chain(graph);
    ASSERT_EQ(chain.layers.size(), expected.size());
    ASSERT_EQ(chain.edges.size(), crossing.size());
    for (std::size_t i = 0; i < expected.size(); ++i) {
      double forward = 0;
      std::int64_t kept = 0;
      for (const int layer : expected[i]) {
        forward += 1.0 + layer;
        kept += 1 << layer;
      }
      EXPECT_DOUBLE_EQ(median(chain.classes[0].layers[i].by_samples[0].forward), forward);
      EXPECT_EQ(chain.classes[0].layers[i].by_samples[0].saved_activation_bytes, kept);
    }
    for (std::size_t i = 0; i < crossing.size(); ++i) EXPECT_EQ(chain.edges[i].bytes_per_sample, crossing[i]);
    EXPECT_EQ(testing::layer_chain(chain), chain);
  }
}

TEST(LayerChain, KeepsForbiddenCutsBetweenItsLayers) {
  std::mt19937 random(1);
  Profile graph = random_graph(random, 1);
  for (int l = 1; l < 4; ++l) {
    graph.layers.push_back(graph.layers[0]);
    graph.classes[0].layers.push_back(graph.classes[0].layers[0]);
  }
  graph.edges = {{0, 1, 1, 0, true}, {0, 2, 1, 0, true}, {1, 2, 1, 0, true}, {2, 3, 1, 0, true}};
  graph.forbidden_cuts = {{1, "a"}, {2, "inside"}, {3, "b"}};
  EXPECT_EQ(testing::layer_chain(graph).forbidden_cuts, (std::vector<ForbiddenCut>{{1, "a"}, {2, "b"}}));
}

struct Published {
  const char* file;
  std::size_t layers;
  std::size_t chain;
};

// Counted by another program, too.
class PublishedGraphs : public ::testing::TestWithParam<Published> {};

TEST_P(PublishedGraphs, AreRead) {
  const std::string path = testing::shared_data(GetParam().file);
  if (path.empty()) {
    GTEST_SKIP() << "needs " << GetParam().file;
  }
  const Profile profile = read_layer_graph(path);
  EXPECT_EQ(profile.layers.size(), GetParam().layers) << profile.model;
  EXPECT_EQ(testing::layer_chain(profile).layers.size(), GetParam().chain) << profile.model;
}

INSTANTIATE_TEST_SUITE_P(
    Files, PublishedGraphs,
    ::testing::Values(Published{"pipedream/alexnet.graph.txt", 22, 21}, Published{"pipedream/vgg16.graph.txt", 40, 39},
                      Published{"pipedream/resnet18.graph.txt", 70, 23}, Published{"pipedream/resnet50.graph.txt", 176, 39},
                      Published{"pipedream/resnet101.graph.txt", 346, 73}, Published{"pipedream/squeezenet1_0.graph.txt", 67, 34},
                      Published{"pipedream/inception_v3.graph.txt", 325, 33}, Published{"pipedream/gnmt.graph.txt", 45, 9},
                      Published{"dapple/vgg-19-pbs-32.txt", 25, 25}, Published{"dapple/bert-48-pbs-2.txt", 53, 3},
                      Published{"dapple/xlnet-36-pbs-1.txt", 42, 3}, Published{"dapple/gnmt-16-pbs-64.txt", 93, 13}));

}  // namespace
}  // namespace mptune::profiler

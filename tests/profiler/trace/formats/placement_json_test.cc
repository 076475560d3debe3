#include "profiler/trace/formats/placement_json.h"

#include <gtest/gtest.h>

#include <numeric>

#include "profiler/trace/formats/any_profile.h"
#include "tests/profiler/trace/formats/files.h"
#include "tests/profiler/trace/formats/refusals.h"

namespace mptune::profiler {
namespace {

std::string placement_node(const std::string& id, const std::string& more = "") {
  return R"({"id":)" + id + R"(,"fpgaLatency":1.5,"cpuLatency":15,"size":1000)" + more + "}";
}

std::string placement_edge(const std::string& from, const std::string& to, const std::string& cost = "0.25") {
  return R"({"sourceId":)" + from + R"(,"destId":)" + to + R"(,"cost":)" + cost + R"(,"size":7})";
}

std::string placement(const std::string& nodes, const std::string& edges,
                      const std::string& rest = R"("maxFPGAs":2,"maxCPUs":1,"maxSizePerFPGA":5000.0)") {
  return R"({"nodes":[)" + nodes + R"(],"edges":[)" + edges + "]," + rest + "}";
}

TEST(PlacementJson, NodesTensorsAndMachine) {
  const std::string text = placement(
      placement_node("7", R"(,"name":"conv","colorClass":3,"isBackwardNode":0)") + "," + placement_node("9") + "," +
          placement_node("2", R"(,"colorClass":3,"isBackwardNode":true,"supportedOnFpga":0)"),
      placement_edge("7", "9") + "," + placement_edge("7", "2") + "," + placement_edge("7", "2") + "," + placement_edge("9", "2", "0.5"));
  TextInput input = text_in_memory(text.data(), text.size());
  const PlacementGraph graph = read_placement_json(input);
  EXPECT_EQ(graph.nodes, (std::vector<PlacementNode>{{"conv", 1'500'000, 15'000'000, 1000, false, true, 3},
                                                     {"node9", 1'500'000, 15'000'000, 1000, false, true, -1},
                                                     {"node2", 1'500'000, 15'000'000, 1000, true, false, 3}}));
  EXPECT_EQ(graph.tensors, (std::vector<PlacementTensor>{{0, {1, 2}, 250'000}, {1, {2}, 500'000}}));
  EXPECT_EQ(graph.devices, 2);
  EXPECT_EQ(graph.hosts, 1);
  EXPECT_EQ(graph.memory_bytes, 5000);
}

std::string placement_refusal(const std::string& text) {
  return testing::refusal_of_text([](TextInput& input) { (void)read_placement_json(input); }, text);
}

TEST(HostilePlacement, NotJson) {
  EXPECT_EQ(placement_refusal(""), "memory:byte 1: it is not valid JSON");
  EXPECT_EQ(placement_refusal("{\"nodes\": [1, "), "memory:byte 15: it is not valid JSON");
  EXPECT_EQ(placement_refusal(std::string("\xff\0\1", 3)), "memory:byte 1: it is not valid JSON");
  EXPECT_EQ(placement_refusal(placement(placement_node("NaN"), "")), "memory:byte 17: it is not valid JSON");
  EXPECT_NE(placement_refusal(placement(placement_node("1e999"), "")).find("a number is out of range"), std::string::npos);
  EXPECT_NE(placement_refusal(std::string(100000, '[')).find("deeper than 8"), std::string::npos);
  EXPECT_NE(placement_refusal("{\"name\": \"" + std::string(17 << 20, 'a') + "\"}").find("16 MiB"), std::string::npos);
}

TEST(HostilePlacement, NotAPlacement) {
  EXPECT_EQ(placement_refusal("[]"), "memory: the JSON is not a placement graph");
  EXPECT_EQ(placement_refusal("{}"), "memory:/nodes: the JSON is not a placement graph: the list is missing");
  EXPECT_EQ(placement_refusal(R"({"nodes":5})"), "memory:/nodes: the JSON is not a placement graph: the list is missing");
  EXPECT_EQ(placement_refusal(placement("", "")), "memory:/nodes: the graph has no nodes");
  EXPECT_EQ(placement_refusal(placement("1", "")), "memory:/nodes/0: the node is not an object");
  EXPECT_EQ(placement_refusal(placement("{}", "")), "memory:/nodes/0/id: the value is missing");
  EXPECT_EQ(placement_refusal(placement(placement_node("1"), "[]")), "memory:/edges/0: the edge is not an object");
  EXPECT_EQ(placement_refusal(placement(placement_node("1"), "", R"("maxCPUs":0)")), "memory:/maxFPGAs: the value is missing");
  EXPECT_EQ(placement_refusal(placement(placement_node("1"), "", R"("maxFPGAs":0,"maxCPUs":0,"maxSizePerFPGA":1)")),
            "memory:/maxFPGAs: the graph has no device");
  std::string many = placement_node("0");
  for (int i = 1; i <= 10000; ++i) many += "," + placement_node(std::to_string(i));
  EXPECT_EQ(placement_refusal(placement(many, "")), "memory:/nodes: the list has more than 10000 entries");
}

TEST(HostilePlacement, BrokenValues) {
  const auto with = [](const std::string& name, const std::string& value) {
    return placement_refusal(placement("{\"id\":1,\"fpgaLatency\":1,\"cpuLatency\":1,\"size\":1,\"" + name + "\":" + value + "}", ""));
  };
  for (const char* value : {"-1", "1e300", "99999999999999999999"}) {
    EXPECT_EQ(with("size", value), "memory:/nodes/0/size: the value is out of range") << value;
    EXPECT_EQ(with("fpgaLatency", value), "memory:/nodes/0/fpgaLatency: the value is out of range") << value;
    EXPECT_EQ(with("id", value), "memory:/nodes/0/id: the value is out of range") << value;
  }
  for (const char* value : {"\"1\"", "null", "[1]", "{}"})
    EXPECT_EQ(with("size", value), "memory:/nodes/0/size: the value is not a number") << value;
  EXPECT_EQ(with("id", "1.5"), "memory:/nodes/0/id: the value is not a whole number");
  EXPECT_EQ(with("isBackwardNode", "2"), "memory:/nodes/0/isBackwardNode: the value is out of range");
  EXPECT_EQ(with("colorClass", "-3"), "memory:/nodes/0/colorClass: the value is out of range");
  std::string large = placement_node("0");
  for (int i = 1; i < 5000; ++i) large += R"(,{"id":)" + std::to_string(i) + R"(,"fpgaLatency":1,"cpuLatency":1,"size":1e9})";
  EXPECT_EQ(placement_refusal(placement(large, "")), "memory:/nodes/4399: the nodes have more than 4 TiB");
  EXPECT_EQ(with("fpgaLatency", "3.6e6"), "memory:/nodes/0: the nodes take more than an hour");
}

TEST(HostilePlacement, BrokenEdges) {
  const std::string nodes = placement_node("1") + "," + placement_node("2") + "," + placement_node("3", R"(,"isBackwardNode":1)");
  const auto with = [&](const std::string& edges) { return placement_refusal(placement(nodes, edges)); };
  EXPECT_EQ(placement_refusal(placement(placement_node("1") + "," + placement_node("1"), "")), "memory:/nodes/1/id: duplicate node id");
  EXPECT_EQ(with(placement_edge("1", "9")), "memory:/edges/0/destId: the edge names an unknown node");
  EXPECT_EQ(with(placement_edge("\"1\"", "2")), "memory:/edges/0/sourceId: the value is not a number");
  EXPECT_EQ(with(placement_edge("1", "2", "-1")), "memory:/edges/0/cost: the value is out of range");
  EXPECT_EQ(with(placement_edge("1", "2") + "," + placement_edge("3", "2")),
            "memory:/edges/1: the edge leads from a backward node to a forward one");
  EXPECT_EQ(with(placement_edge("1", "2") + "," + placement_edge("2", "1")), "memory:/edges: the edges form a cycle");
  EXPECT_EQ(with(placement_edge("1", "1")), "memory:/edges: the edges form a cycle");
}

TEST(PublishedPlacements, AreRead) {
  const std::vector<std::tuple<const char*, std::size_t, std::size_t>> expected = {
      {"bert24", 64, 110}, {"gnmt", 192, 244}, {"resnet50", 354, 386}, {"inceptionv3", 652, 726}};
  for (const auto& [name, nodes, edges] : expected) {
    const std::string path = testing::shared_data(std::string("placement/") + name + "_training.json");
    if (path.empty()) {
      GTEST_SKIP() << "needs the placement workloads";
    }
    const PlacementGraph graph = read_placement_json(path);
    EXPECT_EQ(graph.name, std::string(name) + "_training");
    EXPECT_EQ(graph.nodes.size(), nodes);
    const auto consumers = [](std::size_t sum, const PlacementTensor& tensor) { return sum + tensor.consumers.size(); };
    EXPECT_EQ(std::accumulate(graph.tensors.begin(), graph.tensors.end(), std::size_t{0}, consumers), edges) << "every edge once";
    EXPECT_EQ(graph.devices, 6);
    EXPECT_EQ(graph.memory_bytes, 17'185'374'208);
    for (std::size_t t = 1; t < graph.tensors.size(); ++t) EXPECT_LE(graph.tensors[t].consumers.size(), nodes);
  }
}

class AnyProfile : public testing::Files {
 protected:
  static std::string refusal_of(const std::string& path) {
    const Error error = testing::error_of([&] { (void)profile_format(path); });
    EXPECT_EQ(error.where(), path);
    return error.problem();
  }
};

TEST_F(AnyProfile, FormatsByContent) {
  EXPECT_EQ(profile_format(put("a", "\n\tnode1 -- node2\n")), ProfileFormat::layer_graph);
  EXPECT_EQ(profile_format(put_gz("b", "node1 -- Input -- x=1\n")), ProfileFormat::layer_graph);
  EXPECT_EQ(profile_format(put("c", " \n{\"nodes\"")), ProfileFormat::placement);
  EXPECT_EQ(profile_format(put("d", std::string("SQLite format 3\0rest", 20))), ProfileFormat::sqlite);
  (void)put("e_mbs4_tp1_algo0.csv", "op_name,");
  EXPECT_EQ(profile_format(path("e")), ProfileFormat::operator_tables);
}

TEST_F(AnyProfile, OtherFiles) {
  EXPECT_NE(refusal_of(path("absent")).find("can't be opened"), std::string::npos);
  EXPECT_NE(refusal_of(std::filesystem::path(path("x")).parent_path().string()).find("folder"), std::string::npos);
  EXPECT_NE(refusal_of(put("empty", "")).find("known format"), std::string::npos);
  EXPECT_NE(refusal_of(put("binary", std::string("\0\1\2\xff", 4))).find("known format"), std::string::npos);
  EXPECT_NE(refusal_of(put("text", "hello\nnode1 -- node2\n")).find("known format"), std::string::npos);
  EXPECT_NE(refusal_of(put("table", "op_name,forward-compute\n")).find("operator tables"), std::string::npos);
}

}  // namespace
}  // namespace mptune::profiler

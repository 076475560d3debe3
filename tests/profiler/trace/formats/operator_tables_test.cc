#include "profiler/trace/formats/operator_tables.h"

#include <gtest/gtest.h>

#include "profiler/trace/formats/bandwidth_table.h"
#include "tests/profiler/trace/formats/files.h"
#include "tests/profiler/trace/formats/refusals.h"

namespace mptune::profiler {
namespace {

const std::string kOperatorHeader =
    "op_name,forward-compute,backward-compute,input_size,output_size,weights,activations,fwd_reserved,bwd_reserved\n";

std::vector<OperatorRow> operators_of(const std::string& text) {
  TextInput input = text_in_memory(text.data(), text.size());
  return read_operator_table(input);
}

TEST(OperatorTables, MicrosecondsAndMebibytes) {
  const std::vector<OperatorRow> rows = operators_of(kOperatorHeader + "embedding,100.5,200,0.5,2,3,4,5,6\r\n\nhead,1,2,3,4,5,6,7,8\n");
  ASSERT_EQ(rows.size(), 2U);
  EXPECT_EQ(rows[0].name, "embedding");
  EXPECT_DOUBLE_EQ(rows[0].forward_s, 100.5e-6);
  EXPECT_DOUBLE_EQ(rows[0].backward_s, 200e-6);
  EXPECT_EQ(rows[0].input_bytes, 512 * 1024);
  EXPECT_EQ(rows[0].weights_bytes, 3 << 20);
  EXPECT_EQ(rows[0].backward_reserved_bytes, 6 << 20);
}

TEST(OperatorTables, EncoderRowsRepeat) {
  const std::string rest = "enc-a,1,2,8,16.5,2,4,5,6\nenc-b,1,2,16,8,0,1,7,6\nhead,1,2,8,0,1,1,1,1\n";
  const std::string larger = "enc-a,3,4,16,32.5,2,8,9,9\nenc-b,3,4,32,16,0,2,9,9\nhead,3,4,16,0,1,2,2,2\n";
  const Profile profile = profile_of_operators({{1, operators_of(kOperatorHeader + "embedding,1,2,0,8,3,1,1,1\n" + rest)},
                                                {2, operators_of(kOperatorHeader + "embedding,3,4,0,16,3,2,2,2\n" + larger)}},
                                               "here");
  ASSERT_EQ(profile.layers.size(), 1U + 24 * 2 + 1);
  EXPECT_EQ(profile.layers[1].name, "0.enc-a");
  EXPECT_EQ(profile.layers[2].name, "0.enc-b");
  EXPECT_EQ(profile.layers[47].name, "23.enc-a");
  EXPECT_EQ(profile.layers.back().name, "head");
  EXPECT_EQ(profile.layers[1].parameters_bytes, 2 << 20);
  EXPECT_EQ(profile.layers[1].parameters, 1 << 20);
  EXPECT_EQ(profile.optimizer_state_factor, 6);
  const std::vector<LayerCost>& costs = profile.classes.at(0).layers[1].by_samples;
  ASSERT_EQ(costs.size(), 2U);
  EXPECT_EQ(costs[1].samples, 2);
  EXPECT_DOUBLE_EQ(median(costs[1].backward), 4e-6);
  EXPECT_EQ(costs[0].saved_activation_bytes, 4 << 20);
  EXPECT_EQ(costs[0].workspace_bytes, 6 << 20);
  ASSERT_EQ(profile.edges.size(), profile.layers.size() - 1);
  EXPECT_EQ(profile.edges[1], (LayerEdge{1, 2, 16 << 20, 1 << 19, true})) << "16 MiB a sample, and half a MiB with each micro-batch";
}

TEST(OperatorTables, OneSizeIsInProportion) {
  const Profile profile = profile_of_operators({{4, operators_of(kOperatorHeader + "a,1,2,0,8,3,1,1,1\nb,1,2,0,0,3,1,1,1\n")}}, "here");
  EXPECT_EQ(profile.edges, (std::vector<LayerEdge>{{0, 1, 2 << 20, 0, true}}));
}

std::string table_refusal(const std::string& text) {
  return testing::refusal_of_text([](TextInput& input) { (void)read_operator_table(input); }, text);
}

TEST(HostileTables, BrokenTables) {
  const std::string good = kOperatorHeader + "a,1,2,3,4,5,6,7,8\n";
  EXPECT_EQ(table_refusal(""), "memory:1: the operator table is empty");
  EXPECT_EQ(table_refusal(kOperatorHeader), "memory:1: the table has no operators");
  EXPECT_EQ(table_refusal(std::string("\0\1\2", 3)), "memory:1: the line holds a control character");
  for (const char* header : {"hello\n", "op_name,forward-compute\n", "{}", "a,1,2,3,4,5,6,7,8\n"})
    EXPECT_TRUE(table_refusal(header).starts_with("memory:1: the columns are not")) << header;
  EXPECT_EQ(table_refusal(good + "b,1,2,3,4,5,6,7\n"), "memory:3: the row has 8 cells instead of 9");
  EXPECT_EQ(table_refusal(good + "b,1,2,3,4,5,6,7,8,9\n"), "memory:3: the row has 10 cells instead of 9");
  EXPECT_EQ(table_refusal(good + ",1,2,3,4,5,6,7,8\n"), "memory:3: the operator has no name");
  EXPECT_EQ(table_refusal(good + "a,1,2,3,4,5,6,7,8\n"), "memory:3: duplicate operator");
  for (const char* value : {"x", "", "1 2", "0x1"})
    EXPECT_EQ(table_refusal(good + "b," + value + ",2,3,4,5,6,7,8\n"), "memory:3: forward-compute is not a number") << value;
  for (const char* value : {"nan", "inf", "-1", "1e99", "1e400"})
    EXPECT_EQ(table_refusal(good + "b,1,2,3," + value + ",5,6,7,8\n"), "memory:3: output_size is out of range") << value;
  EXPECT_EQ(table_refusal(good + "enc-b,1,2,3,4,5,4000000,7,8\n"), "memory:3: the operators have more than 4 TiB") << "24 times";
  EXPECT_EQ(table_refusal(good + "enc-b,3e9,2,3,4,5,4,7,8\n"), "memory:3: the operators take more than an hour") << "24 times";
  std::string many = kOperatorHeader;
  for (int i = 0; i < 417; ++i) many += "enc-" + std::to_string(i) + ",1,2,3,4,5,6,7,8\n";
  EXPECT_EQ(table_refusal(many), "memory:418: with 24 layers the model has more than 10000 operators");
}

// Rows as a T5's tables have them; the norm behind the last encoder layer is no part of a layer.
TEST(OperatorTables, RepeatTheLayersOfEncoderAndDecoder) {
  const std::string values = ",1,2,0,8,3,1,1,1\n";
  std::string text = kOperatorHeader;
  for (const char* name : {"encoder-embedding", "enc-1st-layernorm", "enc-post-MLP-dropout", "enc-final-layernorm", "decoder-embedding",
                           "dec-1st-layernorm", "t5-post-process"})
    text += name + values;
  const Profile profile = profile_of_operators({{1, operators_of(text)}}, "here", {.layers = 2});
  std::vector<std::string> names;
  for (const ProfileLayer& layer : profile.layers) names.push_back(layer.name);
  EXPECT_EQ(names, (std::vector<std::string>{"encoder-embedding", "0.enc-1st-layernorm", "0.enc-post-MLP-dropout", "1.enc-1st-layernorm",
                                             "1.enc-post-MLP-dropout", "enc-final-layernorm", "decoder-embedding", "0.dec-1st-layernorm",
                                             "1.dec-1st-layernorm", "t5-post-process"}));
}

TEST(OperatorTables, SinglePrecisionHoldsLessPerWeight) {
  const std::string text = kOperatorHeader + "conv,1,2,0,8,3,1,1,1\n";
  const Profile half = profile_of_operators({{1, operators_of(text)}}, "here"),
                single = profile_of_operators({{1, operators_of(text)}}, "here", {.bytes_per_weight = 4});
  EXPECT_EQ(half.optimizer_state_factor, 6) << "a copy and two moments of 4 bytes for a weight of 2";
  EXPECT_EQ(single.optimizer_state_factor, 2) << "two moments";
  EXPECT_EQ(half.layers.at(0).parameters_bytes, single.layers.at(0).parameters_bytes);
  EXPECT_EQ(half.layers.at(0).parameters, 2 * single.layers.at(0).parameters);
}

using TableFiles = testing::Files;

TEST_F(TableFiles, AreFoundByTheirPrefix) {
  (void)put("net_mbs1_tp1_algo0.csv", kOperatorHeader + "a,1,2,3,4,5,6,7,8\n");
  (void)put("net_mbs16_tp1_algo0.csv", kOperatorHeader + "a,1,2,3,4,5,6,7,8\n");
  for (const char* other : {"net_mbs2_tp2_algo0.csv", "net_mbs_tp1_algo0.csv", "net_mbsx_tp1_algo0.csv", "net_mbs0_tp1_algo0.csv",
                            "net_mbs99999999999999999999_tp1_algo0.csv", "other_mbs2_tp1_algo0.csv"})
    (void)put(other, "");
  const Profile profile = read_operator_tables(path("net"), {});
  EXPECT_EQ(profile.model, "net");
  EXPECT_EQ(profile.classes.at(0).layers.at(0).by_samples.size(), 2U);
  EXPECT_THROW((void)read_operator_tables(path("absent"), {}), Error);
  EXPECT_THROW((void)read_operator_tables("/absent/net", {}), Error);
  const std::string broken = put("net_mbs2_tp1_algo0.csv", kOperatorHeader + "b,1,2,3,4,5,6,7,8\n");
  EXPECT_THROW((void)read_operator_tables(path("net"), {}), Error) << "other operators";
  (void)put("net_mbs2_tp1_algo0.csv", "hello");
  EXPECT_EQ(testing::error_of([&] { (void)read_operator_tables(path("net"), {}); }).where(), broken + ":1");
}

TEST(PublishedTables, AreRead) {
  const std::string folder = testing::shared_data("aceso");
  if (folder.empty()) {
    GTEST_SKIP() << "needs the tables of Aceso";
  }
  for (const char* name : {"gpt_350M", "gpt_1_3B"}) {
    const Profile profile = read_operator_tables(folder + "/" + name, {});
    EXPECT_EQ(profile.layers.size(), 315U);
    EXPECT_EQ(profile.edges.size(), 314U);
    std::vector<int> sizes;
    for (const LayerCost& cost : profile.classes.at(0).layers.at(2).by_samples) sizes.push_back(cost.samples);
    EXPECT_EQ(sizes, (std::vector<int>{1, 2, 4, 8}));
  }
  const Profile large = read_operator_tables(folder + "/gpt_1_3B", {});
  EXPECT_EQ(large.layers[2].parameters, 3 * 2048 * 2048) << "queries, keys and values of 2048 features: MB is MiB, two bytes each";
}

std::string bandwidth_refusal(const std::string& text) {
  return testing::refusal_of_text([](TextInput& input) { (void)read_bandwidth_table(input); }, text);
}

TEST(BandwidthTable, SecondsBySize) {
  const std::string text = "1,2,1024\n0.5, 1,2\n";
  TextInput input = text_in_memory(text.data(), text.size());
  EXPECT_EQ(read_bandwidth_table(input), (std::vector<LinkPoint>{{1 << 20, 2.0 / 1024}, {2 << 20, 2.0 / 1024}, {1 << 30, 0.5}}));
}

TEST(HostileTables, BrokenBandwidths) {
  EXPECT_EQ(bandwidth_refusal(""), "memory:1: the line of the message size is missing");
  EXPECT_EQ(bandwidth_refusal("1,2\n"), "memory:1: the line of the bandwidth is missing");
  EXPECT_EQ(bandwidth_refusal("1,2\n1\n"), "memory:2: 1 bandwidths for 2 message sizes");
  EXPECT_EQ(bandwidth_refusal("1\n1\n1\n"), "memory:3: the table has more than two lines");
  EXPECT_EQ(bandwidth_refusal("1,1\n1,1\n"), "memory:1: the message sizes are not ascending");
  for (const char* value : {"0", "-1", "nan", "inf", "1e99"}) {
    EXPECT_EQ(bandwidth_refusal(std::string(value) + "\n1\n"), "memory:1: the message size is out of range") << value;
    EXPECT_EQ(bandwidth_refusal(std::string("1\n") + value + "\n"), "memory:2: the bandwidth is out of range") << value;
  }
  EXPECT_EQ(bandwidth_refusal("op_name\n1\n"), "memory:1: the message size is not a number");
}

}  // namespace
}  // namespace mptune::profiler

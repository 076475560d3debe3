#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "profiler/base/error.h"
#include "profiler/model/program/exported_program.h"
#include "tests/support/error_of.h"

namespace mptune::profiler {
namespace {

using nlohmann::json;

json tensor(const char* name) {
  return {{"as_tensor", {{"name", name}}}};
}

json description(std::initializer_list<json> sizes, bool gradient = false) {
  json strides = json::array();
  for (std::size_t i = 0; i < sizes.size(); ++i) strides.push_back({{"as_int", 1}});
  return {{"dtype", 7},
          {"sizes", sizes},
          {"requires_grad", gradient},
          {"device", {{"type", "cpu"}, {"index", nullptr}}},
          {"strides", strides},
          {"storage_offset", {{"as_int", 0}}},
          {"layout", 7}};
}

const json kBatchSize = {{"as_expr", {{"expr_str", "Symbol('s1', positive=True, integer=True)"}, {"hint", {{"as_int", 3}}}}}};

/// y = linear(x, weight) in a module "fc".
json small_program() {
  const json node = {
      {"target", "torch.ops.aten.linear.default"},
      {"inputs", {{{"name", "input"}, {"arg", tensor("x")}, {"kind", 1}}, {{"name", "weight"}, {"arg", tensor("p_w")}, {"kind", 1}}}},
      {"outputs", {tensor("y")}},
      {"metadata",
       {{"stack_trace", "File \"/home/me/net.py\", line 12, in forward\n    return self.fc(x)\n  File \"linear.py\", line 9"},
        {"nn_module_stack", "L__self__,,net.Net;L__self__fc,fc,torch.nn.modules.linear.Linear"}}}};
  const json graph = {{"inputs", {tensor("p_w"), tensor("x")}},
                      {"outputs", {tensor("y")}},
                      {"nodes", {node}},
                      {"tensor_values",
                       {{"p_w", description({{{"as_int", 2}}, {{"as_int", 8}}}, true)},
                        {"x", description({kBatchSize, {{"as_int", 8}}})},
                        {"y", description({kBatchSize, {{"as_int", 2}}})}}},
                      {"sym_int_values", json::object()},
                      {"sym_bool_values", json::object()}};
  const json signature = {
      {"input_specs",
       {{{"parameter", {{"arg", {{"name", "p_w"}}}, {"parameter_name", "fc.weight"}}}}, {{"user_input", {{"arg", tensor("x")}}}}}},
      {"output_specs", {{{"user_output", {{"arg", tensor("y")}}}}}}};
  return {
      {"graph_module",
       {{"graph", graph}, {"signature", signature}, {"module_call_graph", {{{"fqn", ""}, {"signature", {{"forward_arg_names", {"x"}}}}}}}}},
      {"range_constraints", {{"s1", {{"min_val", 1}, {"max_val", nullptr}}}}},
      {"schema_version", {{"major", 8}, {"minor", 17}}},
      {"verifiers", {"TRAINING"}},
      {"torch_version", "2.11.0"},
      {"guards_code", {"L['x'].size()[0] == 3"}}};
}

std::string refusal(const json& program) {
  return testing::refusal_of([&] { (void)read_program(program.dump(), "net.pt2"); });
}

TEST(ReadProgram, KeepsWhatTheFileSays) {
  const ExportedProgram program = read_program(small_program().dump(), "net.pt2");
  ASSERT_EQ(program.graph.nodes.size(), 1U);
  const ProgramNode& node = program.graph.nodes[0];
  EXPECT_EQ(node.target, "torch.ops.aten.linear.default");
  EXPECT_EQ(node.module, "fc");
  EXPECT_EQ(node.module_class, "torch.nn.modules.linear.Linear");
  EXPECT_EQ(node.source, "net.py:12, return self.fc(x)");
  const auto source_of = [](const std::string& stack) {
    json document = small_program();
    document["graph_module"]["graph"]["nodes"][0]["metadata"]["stack_trace"] = stack;
    return read_program(document.dump(), "net.pt2").graph.nodes[0].source;
  };
  const std::string exporter = "File \"/env/mptune/mptune_export.py\", line 325, in forward\n    value = loss(output)";
  const std::string torch = "\n  File \"/env/torch/nn/modules/linear.py\", line 134, in forward\n    return F.linear(x)";
  EXPECT_EQ(source_of(exporter + "\n  File \"/me/net.py\", line 7, in forward\n    x = self.block(x)" +
                      "\n  File \"/me/block.py\", line 3, in forward\n    return self.fc(x)" + torch),
            "block.py:3, return self.fc(x)");
  EXPECT_EQ(source_of(exporter), "mptune_export.py:325, value = loss(output)") << "a loss has no line of its own";
  EXPECT_EQ(source_of("no stack"), "");
  EXPECT_EQ(node.inputs[1].name, "weight");
  EXPECT_EQ(std::get<ProgramValue>(node.inputs[1].argument).index, 0);
  EXPECT_EQ(program.graph.values[2].name, "y");
  EXPECT_EQ(program.graph.values[2].tensor->sizes[0].value({{"s1", 4}}), 4);
  EXPECT_EQ(program.inputs[0].name, "fc.weight");
  EXPECT_EQ(program.inputs[1].kind, ProgramInput::Kind::user);
  EXPECT_EQ(program.symbols.at("s1").least, 1);
  EXPECT_FALSE(program.symbols.at("s1").most);
  EXPECT_EQ(program.input_names, std::vector<std::string>{"x"});
  EXPECT_EQ(program.schema_minor, 17);
  EXPECT_FALSE(program.decomposed);
}

TEST(ReadProgram, WhatTheExportAddedLiesInNoModule) {
  json program = small_program();
  const std::string placeholder = "_empty_nn_module_stack_from_metadata_hook";
  program["graph_module"]["graph"]["nodes"][0]["metadata"]["nn_module_stack"] = placeholder + "," + placeholder + "," + placeholder;
  EXPECT_EQ(read_program(program.dump(), "net.pt2").graph.nodes[0].module, "");
}

TEST(ReadProgram, NewerMinorVersionsAndUnknownKeysAreTaken) {
  json program = small_program();
  program["schema_version"]["minor"] = 99;
  program["something_new"] = {1, 2, 3};
  program["graph_module"]["graph"]["nodes"][0]["something_new"] = true;
  EXPECT_EQ(read_program(program.dump(), "net.pt2").schema_minor, 99);
}

TEST(ReadProgram, AnotherMajorVersionIsRefusedWithTheTorchThatWroteIt) {
  json program = small_program();
  program["schema_version"]["major"] = 9;
  const std::string error = refusal(program);
  EXPECT_NE(error.find("schema 9"), std::string::npos) << error;
  EXPECT_NE(error.find("2.11.0"), std::string::npos) << error;
}

TEST(ReadProgram, DanglingAndDoubleNamesAreRefused) {
  json program = small_program();
  json& node = program["graph_module"]["graph"]["nodes"][0];
  node["inputs"][0]["arg"] = tensor("y");  // its own output
  EXPECT_NE(refusal(program).find("'y' is used before anything makes it"), std::string::npos) << refusal(program);
  program = small_program();
  program["graph_module"]["graph"]["nodes"][0]["outputs"][0] = tensor("x");
  EXPECT_NE(refusal(program).find("'x' is made twice"), std::string::npos) << refusal(program);
  program = small_program();
  program["graph_module"]["graph"]["outputs"][0] = tensor("nothing");
  EXPECT_NE(refusal(program).find("'nothing' is used before"), std::string::npos) << refusal(program);
}

TEST(ReadProgram, KindsThatCannotRunAreRefused) {
  json program = small_program();
  program["graph_module"]["graph"]["nodes"][0]["inputs"][0]["arg"] = {{"as_custom_obj", {{"name", "x"}, {"class_fqn", "C"}}}};
  EXPECT_NE(refusal(program).find("'as_custom_obj' can't be run"), std::string::npos) << refusal(program);
  program = small_program();
  program["graph_module"]["signature"]["input_specs"][0] = {{"token", {{"arg", {{"name", "p_w"}}}}}};
  EXPECT_NE(refusal(program).find("'token' can't be run"), std::string::npos) << refusal(program);
}

TEST(ReadProgram, SignatureAndGraphMustAgree) {
  json program = small_program();
  program["graph_module"]["signature"]["input_specs"].erase(0);
  EXPECT_NE(refusal(program).find("another number of inputs"), std::string::npos) << refusal(program);
}

TEST(ReadProgram, EveryCutAndEveryWrongTypeEndsInOneLine) {
  const std::string whole = small_program().dump();
  for (std::size_t size = 0; size < whole.size(); ++size)
    EXPECT_NE(testing::refusal_of([&] { (void)read_program(whole.substr(0, size), "net.pt2"); }), "") << size;
  // Every value in turn becomes a string, a number and an object: read or refused, never worse.
  const json flat = small_program().flatten();
  for (const auto& [path, value] : flat.items())
    for (const json& wrong : {json("text"), json(-7), json(1e300), json::object(), json::array({1}), json(nullptr), json(true)}) {
      json program = small_program();
      program[json::json_pointer(path)] = wrong;
      try {
        (void)read_program(program.dump(), "net.pt2");
      } catch (const Error& error) {
        EXPECT_EQ(error.problem().find('\n'), std::string::npos);
      }
    }
}

TEST(ReadProgram, RegionsNestAtMostSixteenDeep) {
  json program = small_program();
  const json graph = program["graph_module"]["graph"];
  json inner = graph;
  for (int depth = 0; depth < 20; ++depth) {
    json outer = graph;
    outer["nodes"][0]["inputs"].push_back({{"name", ""}, {"arg", {{"as_graph", {{"name", "g"}, {"graph", inner}}}}}, {"kind", 1}});
    inner = outer;
  }
  program["graph_module"]["graph"] = inner;
  EXPECT_NE(refusal(program).find("nested more than 16 deep"), std::string::npos) << refusal(program);
}

TEST(ReadProgram, HugeCountsAreRefused) {
  const auto with_nodes = [](int count, const std::string& node) {
    json program = small_program();
    program["graph_module"]["graph"]["nodes"] = json::array();
    std::string text = program.dump();
    std::string nodes;
    for (int i = 0; i < count; ++i) nodes += (i > 0 ? "," : "") + node;
    return text.replace(text.find("\"nodes\":[]"), 10, "\"nodes\":[" + nodes + "]");
  };
  const auto refused = [](const std::string& text) { return testing::refusal_of([&] { (void)read_program(text, "net.pt2"); }); };
  const std::string idle = R"({"target":"t","inputs":[],"outputs":[]})";
  EXPECT_NE(refused(with_nodes(100'001, idle)).find("more than 100000 nodes"), std::string::npos);
  std::string many;
  for (int i = 0; i < 200'001; ++i) many += (i > 0 ? "," : "") + std::string(R"({"name":"v)") + std::to_string(i) + "\"}";
  const std::string splits = R"({"target":"t","inputs":[],"outputs":[{"as_tensors":[)" + many + "]}]}";
  EXPECT_NE(refused(with_nodes(1, splits)).find("more than 200000 values"), std::string::npos);
  EXPECT_NE(refused(std::string(1'000'000, '[')), "");
  EXPECT_NE(refused(std::string(500'000, '[') + std::string(500'000, ']')), "");
}

TEST(ReadStoredTensors, RecordsStayInTheirFolder) {
  const auto stored = [](const std::string& record) {
    return json({{"config",
                  {{"w",
                    {{"path_name", record}, {"is_param", true}, {"use_pickle", false}, {"tensor_meta", description({{{"as_int", 2}}})}}}}}})
        .dump();
  };
  const auto tensors = read_stored_tensors(stored("weight_0"), "net.pt2");
  EXPECT_EQ(tensors.at("w").record, "weight_0");
  EXPECT_TRUE(tensors.at("w").parameter);
  for (const char* record : {"", "..", "../x", "a/b", "a\\b"})
    EXPECT_NE(testing::refusal_of([&] { (void)read_stored_tensors(stored(record), "net.pt2"); }), "") << record;
}

}  // namespace
}  // namespace mptune::profiler

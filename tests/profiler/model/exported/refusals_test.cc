// Files that can't be loaded, or not as they are: each ends in one line that says why and what to do.
#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "edited_archive.h"
#include "exported_chain.h"
#include "profiler/model/exported/load_exported.h"
#include "small_program.h"
#include "tests/support/error_of.h"
#include "tests/support/files.h"

namespace mptune::testing {
using namespace profiler;
namespace {

using nlohmann::json;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

class Refusals : public ::testing::Test {
 protected:
  std::string archive_refusal(const EditedArchive& archive) const {
    const std::string path = archive.write(folder.path("model.pt2"));
    return refusal_of([&] { (void)read_exported_archive(path); });
  }
  std::string model_refusal(const EditedArchive& archive) const {
    const std::string path = archive.write(folder.path("model.pt2"));
    return refusal_of([&] { (void)profiler::load_exported(path); });
  }
  LoadedModel load(const EditedArchive& archive) const { return profiler::load_exported(archive.write(folder.path("model.pt2"))); }

  /// What a layer's forward says; whoever tries several sizes leaves out those that fail so.
  static std::string failure_of(const std::function<void()>& action) {
    try {
      action();
    } catch (const c10::Error& error) {
      const std::string text = error.what_without_backtrace();
      EXPECT_EQ(text.find('\n'), std::string::npos) << text;
      return text;
    }
    ADD_FAILURE() << "no error";
    return "";
  }

  /// The golden model with its program changed.
  static EditedArchive changed(const std::string& name, const std::function<void(json&)>& change) {
    EditedArchive archive(name);
    json program = archive.program();
    change(program);
    archive.set_program(program);
    return archive;
  }
  static json& graph(json& program) { return program["graph_module"]["graph"]; }
  static json& node(json& program, const std::string& target) {
    for (json& one : graph(program)["nodes"])
      if (one["target"] == "torch.ops." + target) return one;
    throw std::out_of_range(target);
  }
  static json& argument(json& node, const std::string& name) {
    for (json& input : node["inputs"])
      if (input["name"] == name) return input["arg"];
    throw std::out_of_range(name);
  }

  TestFolder folder{"refusals"};
};

TEST_F(Refusals, OtherKindsOfArchivesAreCalledByTheirNames) {
  EditedArchive archive;
  const auto refused = [&](std::initializer_list<const char*> records) {
    archive.records.clear();
    for (const char* record : records) archive.records.emplace(record, std::string(1, 'x'));
    return archive_refusal(archive);
  };
  EXPECT_THAT(refused({"constants.pkl", "data.pkl"}), HasSubstr("a TorchScript archive"));
  EXPECT_THAT(refused({"data.pkl", "data/0"}), HasSubstr("a checkpoint of torch.save"));
  EXPECT_THAT(refused({"archive_format", "data/aotinductor/model/model.so"}), HasSubstr("AOTInductor"));
  EXPECT_THAT(refused({"archive_format", "models/a.json", "models/b.json"}), HasSubstr("2 programs"));
  EXPECT_THAT(refused({"serialized_exported_program.json"}), HasSubstr("layout of an older torch"));
  EXPECT_THAT(refused({"pictures/cat"}), HasSubstr("not an exported program"));
  std::ofstream(folder.path("text.pt2")) << "no archive at all, though it is long enough to be looked into";
  EXPECT_THAT(refusal_of([&] { (void)read_exported_archive(folder.path("text.pt2")); }), HasSubstr("not a readable archive"));
}

TEST_F(Refusals, OfAnotherSchemaAreThoseOfAnotherMajorVersion) {
  const std::string refused = archive_refusal(changed("residual", [](json& program) { program["schema_version"]["major"] = 7; }));
  EXPECT_THAT(refused, HasSubstr("schema 7, made by torch 2.11"));
}

TEST_F(Refusals, MissingWeights) {
  EditedArchive archive("residual");
  archive.records.erase("data/weights/weight_0");
  EXPECT_THAT(archive_refusal(archive), HasSubstr("record 'data/weights/weight_0' is missing"));
  archive = EditedArchive("residual");
  json weights = archive.weights();
  weights["config"].erase("head.weight");
  archive.set_weights(weights);
  EXPECT_THAT(archive_refusal(archive), HasSubstr("'head.weight' has no weights in it"));
  archive = EditedArchive("residual");
  weights = archive.weights();
  weights["config"]["head.weight"]["use_pickle"] = true;
  archive.set_weights(weights);
  EXPECT_THAT(archive_refusal(archive), HasSubstr("'head.weight' is pickled"));
  archive = EditedArchive("residual");
  archive.records["data/weights/weight_0"].clear();
  EXPECT_THAT(archive_refusal(archive), HasSubstr("some of its weights are empty"));
}

TEST_F(Refusals, InvalidShapes) {
  const json huge = {{"as_int", std::int64_t{1} << 40}}, negative = {{"as_int", -4}},
             symbol = {{"as_expr", {{"expr_str", "Symbol('s1')"}}}};
  const auto refused = [&](const std::function<void(json&)>& change) {
    EditedArchive archive("residual");
    json weights = archive.weights();
    change(weights["config"]["head.weight"]["tensor_meta"]);
    archive.set_weights(weights);
    return archive_refusal(archive);
  };
  EXPECT_THAT(refused([&](json& meta) { meta["sizes"][0] = huge; }), HasSubstr("'head.weight' is larger than its record"));
  EXPECT_THAT(refused([&](json& meta) { meta["strides"][0] = huge; }), HasSubstr("'head.weight' is larger than its record"));
  EXPECT_THAT(refused([&](json& meta) { meta["storage_offset"] = huge; }), HasSubstr("'head.weight' is larger than its record"));
  EXPECT_THAT(refused([&](json& meta) {
                meta["sizes"][0] = huge;
                meta["strides"][0] = json{{"as_int", 0}};
              }),
              HasSubstr("'head.weight' is larger than its record"));
  EXPECT_THAT(refused([&](json& meta) {
                meta["storage_offset"] = json{{"as_int", 1}};
              }),
              HasSubstr("'head.weight' is larger than its record"));
  for (const json& wrong : {negative, symbol}) {
    EXPECT_THAT(refused([&](json& meta) { meta["sizes"][0] = wrong; }), HasSubstr("the shape of 'head.weight' is not valid"));
    EXPECT_THAT(refused([&](json& meta) { meta["strides"][1] = wrong; }), HasSubstr("the shape of 'head.weight' is not valid"));
  }
  EXPECT_THAT(refused([&](json& meta) {
                meta["sizes"] = json::array({huge, huge});
                meta["strides"] = json::array({huge, huge});
              }),
              HasSubstr("the shape of 'head.weight' is not valid"));
  EXPECT_THAT(refused([&](json& meta) { meta["dtype"] = 99; }), HasSubstr("unknown element type 99"));
}

/// Made from a model on the meta device: one empty record for all.
EditedArchive without_weights() {
  EditedArchive archive("residual");
  json weights = archive.weights();
  for (auto& [name, weight] : weights["config"].items()) weight["path_name"] = "weight_0";
  archive.set_weights(weights);
  archive.records["data/weights/weight_0"].clear();
  return archive;
}

TEST_F(Refusals, NoneOfMetaModelsThatFitIntoMemory) {
  EditedArchive archive = without_weights();
  EXPECT_THAT(load(archive).warnings, ElementsAre(HasSubstr("random initialisation")));
  const auto first = [&](std::uint64_t seed) {
    return profiler::load_exported(folder.path("model.pt2"), seed).model.parameters().front().tensor;
  };
  EXPECT_TRUE(at::equal(first(1), first(1)));
  EXPECT_FALSE(at::equal(first(1), first(2)));
  json weights = archive.weights();
  weights["config"]["head.weight"]["tensor_meta"]["sizes"] = json::array({{{"as_int", 1 << 30}}, {{"as_int", 1 << 19}}});
  archive.set_weights(weights);
  EXPECT_THAT(archive_refusal(archive), HasSubstr("larger than this machine's memory"));
}

TEST_F(Refusals, EvaluationForm) {
  const auto evaluates = [](json& program) {
    for (json& one : graph(program)["nodes"])
      for (json& input : one["inputs"])
        if (input["name"] == "train" || input["name"] == "training") input["arg"] = {{"as_bool", false}};
  };
  for (const std::string name : {"residual", "language"}) {
    EditedArchive archive = changed(name, evaluates);
    EXPECT_THAT(load(archive).model.layers(), Not(IsEmpty())) << "mptune_export.py exports in training form: what is frozen is meant so";
    archive.records.erase("extra/mptune.json");
    EXPECT_THAT(model_refusal(archive), HasSubstr("exported in evaluation form"));
  }
}

TEST_F(Refusals, DecomposedProgramsAreTakenUnlessTheyHandOutBuffers) {
  const auto decomposed = [](json& program) { program["verifiers"] = {"ATEN"}; };
  EXPECT_THAT(load(EditedArchive("residual")).warnings, IsEmpty());
  EXPECT_THAT(load(changed("residual", decomposed)).warnings, ElementsAre(HasSubstr("decomposed")));
  const std::string refused = archive_refusal(changed("residual", [](json& program) {
    json& outputs = program["graph_module"]["signature"]["output_specs"];
    const json user = outputs[0]["user_output"];
    outputs.push_back({{"buffer_mutation", {{"arg", user["arg"]["as_tensor"]}, {"buffer_name", "norm1.running_mean"}}}});
    graph(program)["outputs"].push_back(graph(program)["outputs"][0]);
  }));
  EXPECT_THAT(refused, HasSubstr("'norm1.running_mean'"));
}

TEST_F(Refusals, AFixedBatch) {
  EXPECT_THAT(model_refusal(changed("residual",
                                    [](json& program) {
                                      graph(program)["tensor_values"]["image"]["sizes"][0] = {{"as_int", 3}};
                                    })),
              HasSubstr("fixed batch of 3 samples"));
}

TEST_F(Refusals, SizesOutsideRangesAndGuards) {
  const auto run = [&](const Model& model, std::int64_t samples) {
    (void)run_layer(model.layers()[0], 0, {at::ones({samples, 3, 6, 6})}, {});
  };
  const LoadedModel narrow = load(changed("residual", [](json& program) {
    for (auto& [symbol, range] : program["range_constraints"].items()) range = {{"min_val", 2}, {"max_val", 4}};
    program["guards_code"] = {"L['image'].size()[0] != 3", "type(L['image']) is Tensor"};
  }));
  for (const std::int64_t samples : {2, 4, 2}) run(narrow.model, samples);
  EXPECT_THAT(failure_of([&] { run(narrow.model, 5); }), HasSubstr("'image' is 5, the program was exported for 2 to 4"));
  EXPECT_THAT(failure_of([&] { run(narrow.model, 1); }), HasSubstr("2 to 4"));
  EXPECT_THAT(failure_of([&] { run(narrow.model, 3); }), HasSubstr("L['image'].size()[0] != 3, but image is 3x3x6x6"));
  EXPECT_THAT(narrow.warnings, IsEmpty());
  const LoadedModel odd = load(changed("residual", [](json& program) { program["guards_code"] = {"f(L['image'].size()[0]) == 3"}; }));
  EXPECT_THAT(odd.warnings, ElementsAre(HasSubstr("f(L['image'].size()[0]) == 3")));
}

TEST_F(Refusals, OperatorsAndArgumentsThatThisTorchDoesNotHave) {
  const auto refused = [&](const std::function<void(json&)>& change) { return model_refusal(changed("residual", change)); };
  const std::string unknown =
      refused([](json& program) { node(program, "aten.conv2d.default")["target"] = "torch.ops.torchvision.roi_align.default"; });
  EXPECT_THAT(unknown, HasSubstr("torchvision.roi_align.default in stem (make_files.py:"));
  EXPECT_THAT(unknown, HasSubstr("made with torch 2.11"));
  EXPECT_THAT(refused([](json& program) { node(program, "aten.conv2d.default")["inputs"][0]["name"] = "surprise"; }),
              HasSubstr("no argument 'surprise'"));
  EXPECT_THAT(refused([](json& program) { node(program, "aten.conv2d.default")["inputs"].erase(0); }), HasSubstr("'input' is missing"));
  EXPECT_THAT(refused([](json& program) { node(program, "aten.conv2d.default")["target"] = "torch.ops.higher_order.scan"; }),
              HasSubstr("higher-order operators other than"));
  EXPECT_THAT(refused([](json& program) {
                argument(node(program, "aten.batch_norm.default"), "momentum") = {{"as_string", "much"}};
              }),
              HasSubstr("its momentum is not a number"));
  EXPECT_THAT(refused([](json& program) {
                json& outputs = node(program, "aten.conv2d.default")["outputs"];
                outputs = json::array({{{"as_tensors", {outputs[0]["as_tensor"]}}}});
              }),
              HasSubstr("does not return what the file says"));
  EXPECT_THAT(refused([](json& program) {
                node(program, "aten.conv2d.default")["outputs"].push_back({{"as_tensor", {{"name", "more"}}}});
              }),
              HasSubstr("does not return what the file says"));
  EXPECT_THAT(refused([](json& program) { graph(program)["tensor_values"]["image"]["dtype"] = 77; }), HasSubstr("unknown element type 77"));
}

TEST_F(Refusals, ElementTypesAreNoNumbers) {
  SmallProgram small;
  const int x = small.input("x", {-1, 4});
  small.output(small.call("aten.to.dtype", {{"self", profiler::ProgramValue{x}}, {"dtype", std::int64_t{12345}}}, {-1, 4}));
  EXPECT_THAT(refusal_of([&] { const profiler::ExportedGraph bound(small.program, "model.pt2"); }), HasSubstr("where an element type"));
}

TEST_F(Refusals, RecurrentNetworksWithDropout) {
  SmallProgram small;
  const int x = small.input("x", {-1, 4});
  const int state = small.buffer("state", at::zeros({1, 1, 4}));
  const int lstm = small.call("aten.gru.input",
                              {{"input", profiler::ProgramValue{x}},
                               {"hx", profiler::ProgramValue{state}},
                               {"params", profiler::ProgramTensors{{state}}},
                               {"has_biases", true},
                               {"num_layers", std::int64_t{2}},
                               {"dropout", 0.5},
                               {"train", true},
                               {"bidirectional", false},
                               {"batch_first", true}},
                              {-1, 4});
  small.output(lstm);
  const std::string refused = refusal_of([&] { profiler::ExportedGraph(small.program, "model.pt2").check_draws(); });
  EXPECT_THAT(refused, HasSubstr("aten.gru.input in block (net.py:1, a line): dropout between the layers"));
  small.program.graph.nodes[0].inputs[5].argument = 0.0;
  profiler::ExportedGraph(small.program, "model.pt2").check_draws();
}

TEST_F(Refusals, OfOperatorsThatFailNameThemWithModuleAndLine) {
  SmallProgram small;
  const int x = small.input("x", {-1, 4});
  const int w = small.parameter("w", at::ones({5}));
  small.output(small.two("aten.mul.Tensor", x, w, {-1, 4}));
  ExportedChain chain(std::make_shared<const profiler::BoundProgram>(small.program, "small.pt2", 2), small.tensors, {});
  const std::string failure = failure_of([&] { chain.step({at::ones({2, 4})}); });
  EXPECT_THAT(failure, HasSubstr("aten.mul.Tensor in block (net.py:1, a line) failed: The size of tensor a (4)"));
}

// Another kernel than that of the export may have left it in another order.
TEST_F(Refusals, AViewOfATensorInAnotherOrderIsACopyUnlessItIsWrittenTo) {
  for (const bool writes : {false, true}) {
    SmallProgram small;
    const int x = small.input("x", {-1, 4});
    const int w = small.parameter("w", at::arange(4.0));
    const int product = small.two("aten.mul.Tensor", x, w, {-1, 4});
    const int turned = small.one("aten.t.default", product, {4, -1});
    const int view =
        small.call("aten.view.default", {{"self", profiler::ProgramValue{turned}}, {"size", profiler::ProgramInts{{-1, {}}}}}, {-1});
    if (writes) (void)small.number("aten.add_.Tensor", view, 1, {-1});
    small.output(small.one("aten.sum.default", view, {}));
    ExportedChain chain(std::make_shared<const profiler::BoundProgram>(small.program, "small.pt2", 2), small.tensors, {});
    const auto step = [&] { chain.step({at::ones({2, 4})}); };
    if (writes)
      EXPECT_THAT(failure_of(step), HasSubstr("aten.view.default in block (net.py:3, a line) failed: view size is not compatible"));
    else
      step();
  }
}

TEST_F(Refusals, ForbiddenCuts) {
  SmallProgram small;
  const int x = small.input("x", {-1, 4});
  const int w = small.parameter("w", at::ones({4}));
  const int a = small.two("aten.mul.Tensor", x, w, {-1, 4});
  const int view =
      small.call("aten.view.default", {{"self", profiler::ProgramValue{a}}, {"size", profiler::ProgramInts{{-1, {}}, {4, {}}}}}, {-1, 4});
  (void)small.number("aten.add_.Tensor", view, 1, {-1, 4});
  small.output(small.two("aten.mul.Tensor", a, view, {-1, 4}));
  const auto program = std::make_shared<const profiler::BoundProgram>(small.program, "small.pt2", 2);
  EXPECT_THAT(refusal_of([&] { ExportedChain(program, small.tensors, {2}); }),
              HasSubstr("aten.add_.Tensor in block (net.py:3, a line): no cut may be before it: two tensors that cross it share memory"));
}

}  // namespace
}  // namespace mptune::testing

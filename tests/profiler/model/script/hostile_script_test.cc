#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <caffe2/serialize/inline_container.h>
#include <torch/csrc/jit/api/function_impl.h>

#include <fstream>
#include <functional>
#include <iterator>

#include "profiler/model/layers/model.h"
#include "profiler/model/layers/permitted_operators.h"
#include "profiler/model/loading/load_model.h"
#include "tests/support/error_of.h"
#include "tests/support/files.h"
#include "tests/support/script_modules.h"

namespace mptune::profiler {
namespace {

using namespace mptune::testing;
using ::testing::HasSubstr;

using Records = std::map<std::string, std::string>;

Records records_of(const std::string& path) {
  caffe2::serialize::PyTorchStreamReader reader(path);
  Records records;
  for (const auto& name : reader.getAllRecords()) {
    const auto [data, bytes] = reader.getRecord(name);
    if (!name.ends_with("debug_pkl") && name != ".data/serialization_id" && name != "version")
      records[name] = std::string(static_cast<const char*>(data.get()), bytes);
  }
  return records;
}

class HostileScript : public ::testing::Test {
 protected:
  std::string write(const Records& records) const {
    caffe2::serialize::PyTorchStreamWriter writer(folder_.path("net.pt"));
    for (const auto& [name, content] : records) writer.writeRecord(name, content.data(), content.size());
    writer.writeEndOfFile();
    return folder_.path("net.pt");
  }
  std::string save(const torch::jit::Module& layer) const {
    script_sequential({{"layer", layer}}).save(folder_.path("net.pt"));
    return folder_.path("net.pt");
  }
  std::string with_body(const std::string& body) const {
    return save(
        script_module("Mine", {{"weight", at::ones({4})}}, {}, {}, "def forward(self, x):\n" + body + "\n  return x * self.weight\n"));
  }
  /// The records of a scaling layer, in whose code `from` is replaced.
  std::string with_code(const std::string& from, const std::string& to) const {
    Records records = records_of(with_body("  y = x + 1.5\n  x = y"));
    bool found = false;
    for (auto& [name, content] : records) {
      const auto place = name.ends_with(".py") ? content.find(from) : std::string::npos;
      if (place == std::string::npos) continue;
      content.replace(place, from.size(), to);
      found = true;
    }
    EXPECT_TRUE(found) << from;
    return write(records);
  }
  static void load(const std::string& path) { (void)load_model(path, "4", 0, {.loss = "mse"}); }
  static std::string refusal(const std::string& path) {
    return refusal_of([&] { load(path); });
  }
  /// Text of a file that programs try to overwrite.
  std::string victim() const {
    std::ifstream file(folder_.path("victim"));
    return {std::istreambuf_iterator<char>(file), {}};
  }

  testing::TestFolder folder_{"hostile_script"};
};

TEST_F(HostileScript, ProgramsMayOnlyCompute) {
  std::ofstream(folder_.path("victim")) << "a text of the user's";
  const std::string file = "\"" + folder_.path("victim") + "\"";
  for (const std::string& body : {"  x = x + torch.fill_(torch.from_file(" + file + ", True, 4), 0)", "  torch.save(x, " + file + ")",
                                  std::string("  torch.manual_seed(3)"), std::string("  x.resize_([100])"), std::string("  x.set_(x)"),
                                  std::string("  if bool(x.sum() > 0):\n    torch.manual_seed(3)")})
    EXPECT_THAT(refusal(with_body(body)), HasSubstr("programs may only compute")) << body;
  EXPECT_THAT(refusal(with_code("torch.add(x, 1.5)", "ops.profiler._record_function_enter(\"a\", None)")), HasSubstr("may call"));
  EXPECT_THAT(refusal(with_code("torch.add(x, 1.5)", "fork(torch.add, x, 1.5)")), HasSubstr("can"));
  EXPECT_EQ(victim(), "a text of the user's");
}

// LibTorch evaluates these while it compiles a class, before anything is called.
TEST_F(HostileScript, NothingRunsWhileAFileIsRead) {
  std::ofstream(folder_.path("victim")) << "a text of the user's";
  const std::string call = "float(torch.sum(torch.fill_(torch.from_file(\"" + folder_.path("victim") + "\", True, 4), 0)))";
  const std::string only_constants = "where only a constant may stand";
  EXPECT_THAT(refusal(with_code("x: Tensor)", "x: Tensor, y: float=" + call + ")")), HasSubstr(only_constants));
  EXPECT_THAT(refusal(with_code("  weight : Tensor", "  weight : Tensor\n  c : Final[float] = " + call)), HasSubstr(only_constants));
  EXPECT_THAT(refusal(with_code("  weight : Tensor", "  weight : Tensor\n  c : Final[List[int]] = [0] * 1000000000000")),
              HasSubstr(only_constants));
  const auto set_state = script_module("Mine", {{"weight", at::ones({4})}}, {}, {},
                                       "def forward(self, x):\n  return x * self.weight\n"
                                       "def __getstate__(self):\n  return self.weight\n"
                                       "def __setstate__(self, state: Tensor):\n  self.weight = state\n");
  EXPECT_THAT(refusal(save(set_state)), HasSubstr("code that runs while the file is read"));
  EXPECT_EQ(victim(), "a text of the user's");
  EXPECT_NO_THROW(load(with_code("x: Tensor)", "x: Tensor, y: float=-1.5, z: List[int]=[1, 2], w: float=inf)")));
}

TEST_F(HostileScript, WhatIsPrintedReachesNoTerminal) {
  auto model = load_model(with_body("  print(\"printed\")\n  torch.warn(\"warned\", 2)"), "4", 0, {.loss = "mse"}).model;
  ::testing::internal::CaptureStdout();
  ::testing::internal::CaptureStderr();
  EXPECT_TRUE(at::equal(model.layers()[0].layer->forward({at::ones({2, 4})}, {})[0], at::ones({2, 4})));
  EXPECT_EQ(::testing::internal::GetCapturedStdout() + ::testing::internal::GetCapturedStderr(), "");
}

TEST_F(HostileScript, RecordsShorterThanTheirTensorsAreRefused) {
  auto module = script_module("Mine", {{"weight", at::ones({400})}}, {}, {}, "");
  const auto graph = std::make_shared<torch::jit::Graph>();
  graph->addInput("self")->setType(module.type());
  auto* x = graph->addInput("x");
  graph->registerOutput(graph->insert(at::aten::add, {x, graph->insertConstant(at::ones({300}))}));
  auto* forward = module._ivalue()->compilation_unit()->create_function(c10::QualifiedName(*module.type()->name(), "forward"), graph);
  module.type()->addMethod(forward);
  const Records whole = records_of(save(module));
  int shortened = 0;
  for (const auto& [name, content] : whole) {
    if (content.size() != 1600 && content.size() != 1200) continue;
    ++shortened;
    for (const std::size_t bytes : {content.size() - 1, std::size_t{4}, std::size_t{0}}) {
      Records records = whole;
      records[name].resize(bytes);
      EXPECT_THAT(refusal(write(records)), HasSubstr("shorter than its tensor")) << name << " " << bytes;
    }
    Records records = whole;
    records.erase(name);
    EXPECT_NE(refusal(write(records)), "") << name;
  }
  EXPECT_EQ(shortened, 2) << "the parameter and the constant";
}

// The code says that an attribute is a tensor, the data that it is a number.
TEST_F(HostileScript, AttributesOfAnotherTypeAreRefused) {
  Records records = records_of(with_body("  y = x"));
  torch::jit::Module other("__torch__.Mine");
  other.register_attribute("training", c10::BoolType::get(), true);
  other.register_attribute("weight", c10::IntType::get(), std::int64_t{3});
  const Records numbers = records_of(save(other));
  records["data.pkl"] = numbers.at("data.pkl");
  EXPECT_THAT(refusal(write(records)), HasSubstr("of another type"));
}

// Each would overflow the stack of LibTorch's parser or compiler.
TEST_F(HostileScript, CodeOfAnyDepthIsRefusedOrRead) {
  const auto repeated = [](const std::string& text, int times) {
    std::string all;
    for (int i = 0; i < times; ++i) all += text;
    return all;
  };
  for (const std::string& code :
       {repeated("-", 500'000) + "x", "x" + repeated(" + x", 500'000), repeated("not ", 500'000) + "True", "x" + repeated(" ** x", 500'000),
        "x" + repeated(".data", 500'000), "x" + repeated("[0]", 500'000), "x" + repeated(" if True else x", 500'000),
        repeated("torch.neg(", 500'000) + "x" + repeated(")", 500'000)})
    EXPECT_THAT(refusal(with_code("torch.add(x, 1.5)", code)), HasSubstr("nested too deeply")) << code.substr(0, 40);
  EXPECT_NO_THROW(load(with_code("torch.add(x, 1.5)", "x" + repeated(" + x", 100))));
  std::string many;
  for (int i = 0; i < 3000; ++i) many += (i == 0 ? "" : ", ") + ("-" + std::to_string(i));
  EXPECT_NO_THROW(load(with_code("torch.add(x, 1.5)", "torch.add(x, [" + many + "][1])")));
}

// What decides is the schema: new operators of later versions are covered.
TEST(PermittedOperators, ComputeOnValuesAlone) {
  const auto refused = [](const char* name, const char* overload = "") {
    const auto found = c10::Dispatcher::singleton().findSchema({name, overload});
    return !found || !refusal_of_operator(found->schema()).empty();
  };
  for (const char* name :
       {"aten::relu", "aten::relu_", "aten::linear", "aten::batch_norm", "aten::gelu", "aten::einsum", "aten::_unsafe_view",
        "aten::scaled_dot_product_attention", "aten::_softmax", "aten::dropout", "aten::__and__"}) {
    const bool scalar = std::string(name) == "aten::__and__";
    EXPECT_FALSE(refused(name, scalar ? "Tensor" : "")) << name;
  }
  for (const char* name : {"aten::from_file", "aten::set_", "aten::resize_", "aten::record_stream", "aten::_nested_tensor_size",
                           "aten::_sparse_coo_tensor_unsafe", "aten::_cudnn_rnn", "c10d::send", "quantized::add", "prim::PythonOp"})
    EXPECT_TRUE(refused(name)) << name;
}

}  // namespace
}  // namespace mptune::profiler

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <thread>

#include "profiler/base/error.h"
#include "profiler/device/cpu_allocator.h"
#include "profiler/model/files/batch_file.h"
#include "profiler/model/files/torch_file.h"
#include "profiler/model/layers/model.h"
#include "profiler/model/loading/load_model.h"
#include "profiler/model/nn/nn.h"
#include "profiler/model/script/layer.h"
#include "tests/support/error_of.h"
#include "tests/support/files.h"
#include "tests/support/script_modules.h"

#include <caffe2/serialize/inline_container.h>

namespace mptune::profiler {
namespace {

using namespace mptune::testing;
using torch::jit::Module;

Module small_net() {
  return script_sequential(
      {{"0", script_convolution(3, 6, 3, 1)},
       {"1", script_batch_norm(6)},
       {"2", script_relu(true)},
       {"3", script_sequential({{"pool", script_module("Pool", {}, {}, {}, "def forward(self, x):\n  return x.mean([2, 3])\n")},
                                {"fc", script_linear(6, 5)}})}});
}

class Script : public ::testing::Test {
 protected:
  std::string save(const Module& module, const std::string& name = "net.pt") {
    module.save(folder_.path(name));
    return folder_.path(name);
  }
  std::string write(const std::string& name, const std::string& bytes) {
    std::ofstream(folder_.path(name), std::ios::binary) << bytes;
    return folder_.path(name);
  }
  // An archive as LibTorch writes them, of these records.
  std::string archive(const std::string& name, const std::vector<std::pair<std::string, std::string>>& records) {
    caffe2::serialize::PyTorchStreamWriter writer(folder_.path(name));
    for (const auto& [record, content] : records) writer.writeRecord(record, content.data(), content.size());
    writer.writeEndOfFile();
    return folder_.path(name);
  }
  static std::string refusal(const std::string& text, const std::string& input = "", const StepSource& source = {}) {
    return refusal_of([&] { (void)load_model(text, input, 0, source); });
  }

  testing::TestFolder folder_{"script"};
};

TEST_F(Script, ChildrenOfASequentialAreLayers) {
  const auto loaded = load_model(save(small_net()), "3x8x8", 0);
  const auto& model = loaded.model;
  ASSERT_EQ(model.size(), 5);
  std::vector<std::string> names, kinds;
  for (const auto& layer : model.layers()) {
    names.push_back(layer.name);
    kinds.push_back(layer.layer->kind());
  }
  EXPECT_EQ(names, (std::vector<std::string>{"0", "1", "2", "3.pool", "3.fc"}));
  EXPECT_EQ(kinds, (std::vector<std::string>{"Conv2d", "BatchNorm2d", "ReLU", "Pool", "Linear"}));
  EXPECT_EQ(model.name(), "net");
  EXPECT_EQ(model.parameters()[4].name, "3.fc.bias");
  EXPECT_EQ(model.buffers()[0].name, "1.running_mean");
  EXPECT_TRUE(model.layers()[1].layer->has_batch_statistics());
  EXPECT_FALSE(model.layers()[0].layer->has_batch_statistics());
  EXPECT_THAT(loaded.warnings, ::testing::ElementsAre(::testing::HasSubstr("deprecated")));
  EXPECT_EQ(model.sample().target.classes, 5);
  EXPECT_EQ(load_model(save(small_net()), "3x8x8", 0, {.loss = "mse", .data = ""}).model.sample().target.shape,
            std::vector<std::int64_t>{5});
  EXPECT_EQ(load_model(save(small_net()), "", 0).model.input_text(), "");
}

TEST_F(Script, AContainerInsideTheFileIsNamedByItsPath) {
  const auto blocks = script_sequential({{"0", script_linear(4, 4)}, {"1", script_linear(4, 3)}}, "ModuleList");
  const auto backbone = script_module("Backbone", {}, {}, {{"blocks", blocks}}, "");
  const auto path = save(script_module("Net", {{"scale", at::ones({1})}}, {}, {{"backbone", backbone}}, ""));
  const auto loaded = load_model(path + ":container=backbone.blocks", "4", 0);
  const auto& model = loaded.model;
  EXPECT_EQ(model.size(), 2);
  EXPECT_EQ(model.parameters()[0].name, "backbone.blocks.0.weight");
  EXPECT_THAT(loaded.warnings, ::testing::Contains(::testing::HasSubstr("1 parameter outside of 'backbone.blocks'")));
  const auto error = error_of([&] { (void)load_model(path, "4", 0); });
  EXPECT_EQ(error.problem(), "the model is not a container but a Net");
  EXPECT_NE(error.remedy().find("container=backbone.blocks; there are backbone.blocks (ModuleList)"), std::string::npos) << error.remedy();
  EXPECT_NE(refusal(path + ":container=neck").find("no container 'neck'"), std::string::npos);
  EXPECT_NE(refusal(path + ":container=backbone").find("is not a container but a Backbone"), std::string::npos);
  EXPECT_NE(refusal(path + ":layers=3").find("is not an option"), std::string::npos);
}

TEST_F(Script, ClonesShareNothingAndInputsStayAsTheyWere) {
  auto model = load_model(save(small_net()), "3x8x8", 0).model;
  auto& norm = *model.layers()[1].layer;
  const auto copy = norm.clone();
  for (std::size_t i = 0; i < 2; ++i) {
    EXPECT_TRUE(at::equal(norm.parameters()[i].tensor, copy->parameters()[i].tensor));
    EXPECT_FALSE(norm.parameters()[i].tensor.is_alias_of(copy->parameters()[i].tensor));
    EXPECT_TRUE(copy->parameters()[i].tensor.requires_grad() && copy->parameters()[i].tensor.is_leaf());
  }
  EXPECT_FALSE(norm.buffers()[0].tensor.is_alias_of(copy->buffers()[0].tensor));
  auto& relu = *model.layers()[2].layer;
  for (const bool gradients : {true, false}) {
    auto input = at::randn({2, 3});
    const auto before = input.clone();
    EXPECT_TRUE(at::equal(relu.forward({input.requires_grad_(gradients)}, {})[0], before.clamp_min(0)));
    EXPECT_TRUE(at::equal(input, before));
  }
}

// One forward over the whole batch leaves what the micro-batches leave together; recomputing leaves nothing.
TEST_F(Script, BatchNormsAreCommittedOncePerBatch) {
  for (const char* factor : {"0.1", "0.25"}) {
    auto model = load_model(save(script_sequential({{"norm", script_batch_norm(4, factor)}})), "4x3x3", 0).model;
    auto& layer = *model.layers()[0].layer;
    torch::nn::BatchNorm2d whole(torch::nn::BatchNorm2dOptions(4).momentum(std::stod(factor)));
    for (int batch = 0; batch < 2; ++batch) {
      const auto input = at::randn({7, 4, 3, 3}) * 2 + 1;
      (void)whole(input);
      std::vector<BatchStatistics> parts;
      for (const auto& part : input.split_with_sizes({4, 3})) {
        const auto fresh = layer.forward({part}, {});
        auto taken = layer.take_statistics();
        ASSERT_EQ(taken.size(), 1U);
        EXPECT_EQ(taken[0].count, part.size(0) * 9);
        parts.push_back(taken[0]);
        const auto again = layer.forward({part}, {.recomputing = true});
        EXPECT_TRUE(at::equal(fresh[0], again[0]));
        EXPECT_TRUE(layer.take_statistics().empty());
        EXPECT_EQ(layer.buffers()[2].tensor.item<std::int64_t>(), batch) << "not counted before the commit";
      }
      layer.commit_statistics({parts});
    }
    EXPECT_TRUE(at::allclose(layer.buffers()[0].tensor, whole->running_mean, 1e-5, 1e-6));
    EXPECT_TRUE(at::allclose(layer.buffers()[1].tensor, whole->running_var, 1e-5, 1e-6));
    EXPECT_EQ(layer.buffers()[2].tensor.item<std::int64_t>(), 2);
  }
}

TEST_F(Script, OtherBatchNormsGoOnAsBefore) {
  auto model = load_model(save(script_sequential({{"norm", script_batch_norm(4)}})), "4x3x3", 0).model;
  (void)model.layers()[0].layer->forward({at::randn({2, 4, 3, 3})}, {});
  torch::nn::BatchNorm2d plain(4);
  const auto before = plain->running_mean.clone();
  (void)plain(at::randn({5, 4, 2, 2}));
  EXPECT_FALSE(at::equal(plain->running_mean, before));
  EXPECT_EQ(plain->num_batches_tracked.item<std::int64_t>(), 1);
}

TEST_F(Script, SeveralTensorsCrossFromChildToChild) {
  const auto fork = script_module("Fork", {{"weight", at::ones({4})}}, {}, {},
                                  "def forward(self, x: Tensor) -> Tuple[Tensor, Tensor]:\n  return (x * self.weight, x + 1)\n");
  const auto pair = script_module(
      "Pair", {}, {}, {}, "def forward(self, both: Tuple[Tensor, Tensor]) -> List[Tensor]:\n  a, b = both\n  return [a, b, a + b]\n");
  const auto join =
      script_module("Join", {}, {}, {}, "def forward(self, all: List[Tensor]) -> Tensor:\n  return torch.stack(all, 1).sum(1)\n");
  const auto add = script_module("Add", {}, {}, {}, "def forward(self, a, b):\n  return a + b\n");
  auto packed = load_model(save(script_sequential({{"a", fork}, {"b", pair}, {"c", join}})), "4", 0).model;
  auto one_by_one = load_model(save(script_sequential({{"a", fork}, {"b", add}}), "two.pt"), "4", 0).model;
  const auto x = at::arange(-6, 6, at::kFloat).view({3, 4}) / 4;  // no sum is rounded, in whatever order
  EXPECT_TRUE(at::equal(forward_all(packed, {x}, {})[0], 2 * (x + x + 1)));
  EXPECT_TRUE(at::equal(forward_all(one_by_one, {x}, {})[0], x + x + 1));
}

TEST_F(Script, ChildrenThatDoNotFitTogetherAreRefused) {
  const auto add = script_module("Add", {}, {}, {}, "def forward(self, a, b):\n  return a + b\n");
  const auto number = script_module("Number", {}, {}, {}, "def forward(self, x: int) -> Tensor:\n  return torch.ones([x])\n");
  const auto dict = script_module("Names", {}, {}, {}, "def forward(self, x) -> Dict[str, Tensor]:\n  return {\"x\": x}\n");
  const auto linear = script_linear(4, 4);
  EXPECT_NE(refusal(save(script_sequential({{"a", linear}, {"b", add}}))).find("layer b takes 2 tensors, and the layer before it gives 1"),
            std::string::npos);
  EXPECT_NE(refusal(save(script_sequential({{"a", add}}))).find("layer a takes 2 tensors, and a batch gives 1"), std::string::npos);
  EXPECT_NE(refusal(save(script_sequential({{"a", number}}))).find("input 'x' is a int"), std::string::npos);
  EXPECT_NE(refusal(save(script_sequential({{"a", dict}}))).find("result is a Dict(str, Tensor)"), std::string::npos);
  EXPECT_NE(refusal(save(script_sequential({{"a", script_sequential({}, "ModuleList")}}))).find("has no forward"), std::string::npos);
  EXPECT_NE(refusal(save(script_sequential({}))).find("no children"), std::string::npos);
  EXPECT_NE(refusal(save(script_sequential({{"a", script_relu(false)}}))).find("no parameters"), std::string::npos);
}

TEST_F(Script, WhatFailsInsideIsAnErrorOfLibTorch) {
  auto model = load_model(save(small_net()), "", 0).model;
  try {
    (void)model.layers()[0].layer->forward({at::ones({2, 5, 4, 4})}, {});
    FAIL() << "no error";
  } catch (const c10::Error& error) {
    const std::string text = error.what_without_backtrace();
    EXPECT_EQ(text.find('\n'), std::string::npos) << text;
    EXPECT_NE(text.find("to have 3 channels"), std::string::npos) << text;
  }
}

TEST_F(Script, OutOfMemoryInsideKeepsItsType) {
  install_cpu_accounting();
  auto model = load_model(save(small_net()), "", 0).model;
  MemoryAccount& account = new_memory_account("script");
  account.set_cap_bytes(1000);
  const at::Tensor input = at::ones({2, 3, 16, 16});
  const AccountScope scope(account);
  EXPECT_THROW((void)model.layers()[0].layer->forward({input}, {}), c10::OutOfMemoryError);
  EXPECT_GT(account.refused_bytes(), 1000);
}

TEST_F(Script, DataGivesShapesAndIntegersNeedIt) {
  const auto embed =
      script_module("Embed", {{"weight", at::randn({20, 8})}}, {}, {}, "def forward(self, x):\n  return torch.embedding(self.weight, x)\n");
  const auto path = save(script_sequential({{"embed", embed}, {"out", script_linear(8, 20)}}));
  EXPECT_NE(refusal(path, "16:int64").find("integers"), std::string::npos);
  EXPECT_NE(refusal(path, "16:int7").find("int7"), std::string::npos);
  const auto data = folder_.path("data.pt");
  write_torch_file(data, {{"input", at::randint(20, {6, 16}, at::kLong)}, {"target", at::randint(20, {6, 16}, at::kLong)}});
  const auto model = load_model(path, "", 0, {.loss = "", .data = data}).model;
  EXPECT_EQ(model.input_text(), "16:int64");
  const auto batch = load_batch(data, model.sample());
  EXPECT_EQ(batch.target.sizes(), (std::vector<std::int64_t>{6, 16}));
}

TEST_F(Script, ThreadsRunClonesAtTheSameTime) {
  auto model = load_model(save(small_net()), "3x8x8", 0).model;
  const auto input = at::randn({4, 3, 8, 8});
  const auto expected = forward_all(model, {input}, {})[0];
  std::vector<std::thread> threads;
  for (int t = 0; t < 3; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 5; ++i) {
        Tensors values{input};
        for (const auto& layer : model.layers()) values = layer.layer->clone()->forward(values, {});
        EXPECT_TRUE(at::allclose(values[0], expected));
      }
    });
  }
  for (auto& thread : threads) thread.join();
}

TEST_F(Script, OtherArchivesAreCalledByTheirNames) {
  EXPECT_NE(refusal(archive("x.pt2", {{"archive_format", "pt2"}, {"models/model.json", "{}"}})).find("schema_version"), std::string::npos);
  write_torch_file(folder_.path("state.pt"), {{"weight", at::ones({2})}});
  EXPECT_NE(refusal(folder_.path("state.pt")).find("checkpoint"), std::string::npos);
  EXPECT_NE(refusal(archive("odd.pt", {{"picture.png", "x"}})).find("holds no TorchScript"), std::string::npos);
  EXPECT_NE(refusal(write("old.pt", "\x80\x02}q")).find("pickle"), std::string::npos);
  EXPECT_NE(refusal(write("zip.pt", "PK\x03\x04 and nothing")).find("damaged"), std::string::npos);
}

TEST_F(Script, DamagedAndHostileFilesAreRefusedInOneLine) {
  const auto path = save(small_net());
  std::ifstream file(path, std::ios::binary);
  const std::string whole{std::istreambuf_iterator<char>(file), {}};
  for (const double part : {0.1, 0.5, 0.9, 0.99})
    EXPECT_NE(
        refusal(write("short.pt", whole.substr(0, static_cast<std::size_t>(part * static_cast<double>(whole.size()))))).find("damaged"),
        std::string::npos);
  const auto with_code = [&](const std::string& code) {
    return archive("code.pt", {{"data.pkl", ""}, {"constants.pkl", ""}, {"version", "3"}, {"code/__torch__.py", code}});
  };
  EXPECT_NE(refusal(with_code("x = " + std::string(100000, '(') + std::string(100000, ')'))).find("nested too deeply"), std::string::npos);
  EXPECT_NE(refusal(with_code("class M(Module):\n  def forward(self")).find("cannot read it"), std::string::npos);
}

// A saved Linear whose code is replaced: what torch.jit.save would write for operators that are not there, and for Python.
TEST_F(Script, UnknownOperatorsAndPythonAreRefused) {
  const auto path = save(script_sequential({{"a", script_linear(4, 4)}}));
  const auto with = [&](const std::string& call) {
    caffe2::serialize::PyTorchStreamReader reader(path);
    std::vector<std::pair<std::string, std::string>> records;
    for (const auto& name : reader.getAllRecords()) {
      const auto [data, bytes] = reader.getRecord(name);
      std::string content(static_cast<const char*>(data.get()), bytes);
      if (const auto at = content.find("torch.linear("); at != std::string::npos) content.replace(at, 13, call);
      if (!name.ends_with("debug_pkl") && name != ".data/serialization_id" && name != "version") records.emplace_back(name, content);
    }
    return archive("changed.pt", records);
  };
  EXPECT_NE(refusal(with("ops.mine.linear(")).find("operators that LibTorch does not have"), std::string::npos)
      << refusal(with("ops.mine.linear("));
  EXPECT_NE(refusal(with("^python_function()(")).find("needs Python"), std::string::npos) << refusal(with("^python_function()("));
}

}  // namespace
}  // namespace mptune::profiler

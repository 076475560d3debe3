#include "profiler/model/files/state.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <random>

#include "profiler/base/error.h"
#include "profiler/model/files/batch_file.h"
#include "profiler/model/files/pickle.h"
#include "profiler/model/files/torch_file.h"
#include "profiler/model/loading/load_model.h"
#include "tests/support/error_of.h"
#include "tests/support/every_type.h"
#include "tests/support/model_formula.h"

namespace mptune::profiler {
namespace {

using testing::error_of;
using testing::every_type;
using ::testing::HasSubstr;

class TorchFile : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = std::filesystem::temp_directory_path() / ("mptune-model-" + std::to_string(::getpid()));
    std::filesystem::create_directories(folder_);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }
  std::string path(const std::string& name) const { return (folder_ / name).string(); }

  static std::string read(const std::string& file) {
    std::ifstream in(file, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
  }
  static void write(const std::string& file, const std::string& bytes) { std::ofstream(file, std::ios::binary) << bytes; }

  std::filesystem::path folder_;
};

TEST_F(TorchFile, RoundTripOfEveryType) {
  const auto before = every_type();
  write_torch_file(path("a.pt"), before);
  const auto after = read_torch_file(path("a.pt"));
  ASSERT_EQ(after.size(), before.size());
  for (std::size_t i = 0; i < after.size(); ++i) {
    EXPECT_EQ(after[i].first, before[i].first);
    EXPECT_EQ(after[i].second.scalar_type(), before[i].second.scalar_type());
    EXPECT_TRUE(at::equal(after[i].second, before[i].second)) << after[i].first;
  }
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder_), {}), 1) << "no temporary file is left";
}

TEST_F(TorchFile, StateRoundTrip) {
  auto model = load_model("resnet18", "3x64x64", 1).model;
  (void)forward_all(model, synthetic_batch(model.sample(), 2, 1).inputs, {});
  testing::commit_single(model);
  save_state(model, path("state.pt"));
  auto other = load_model("resnet18", "3x64x64", 2).model;
  load_state(other, path("state.pt"));
  const auto expected = state_of(model);
  const auto loaded = state_of(other);
  for (std::size_t i = 0; i < expected.size(); ++i) EXPECT_TRUE(at::equal(loaded[i].tensor, expected[i].tensor)) << expected[i].name;
  EXPECT_TRUE(other.parameters()[0].tensor.requires_grad());
}

TEST_F(TorchFile, StatesThatDoNotFit) {
  auto model = load_model("mlp", "", 0).model;
  const auto refuse = [&](const TensorDict& dict) {
    write_torch_file(path("bad.pt"), dict);
    const auto error = error_of([&] { load_state(model, path("bad.pt")); });
    EXPECT_EQ(error.code(), ExitCode::usage);
    EXPECT_EQ(error.where(), path("bad.pt"));
    return error.problem();
  };
  TensorDict good;
  for (const auto& [name, tensor] : state_of(model)) good.emplace_back(name, tensor.detach() + 1);
  auto dict = good;
  dict.pop_back();
  EXPECT_EQ(refuse(dict), "'net2.bias' is missing");
  dict = good;
  dict.emplace_back("net3.bias", at::zeros({5}));
  EXPECT_EQ(refuse(dict), "'net3.bias' is not in the model");
  dict = good;
  dict[2].second = at::zeros({10, 5});
  EXPECT_EQ(refuse(dict), "'net2.weight' is 10x5:float32, the model's is 5x10:float32");
  dict[2].second = at::zeros({5, 10}, at::kDouble);
  EXPECT_EQ(refuse(dict), "'net2.weight' is 5x10:float64, the model's is 5x10:float32");
  const auto fresh = load_model("mlp", "", 0).model;
  EXPECT_TRUE(at::equal(model.parameters()[0].tensor, fresh.parameters()[0].tensor)) << "a refused file changes nothing";
}

TEST_F(TorchFile, Batches) {
  SampleDescription sample;
  sample.inputs = {{.shape = {2, 3}}};
  sample.target.classes = 4;
  const auto load = [&](const TensorDict& dict) {
    write_torch_file(path("batch.pt"), dict);
    return load_batch(path("batch.pt"), sample);
  };
  const auto input = testing::fill({5, 2, 3}, 1, 1.0);
  const auto target = at::tensor(std::vector<std::int64_t>{0, 1, 2, 3, 0});
  const auto batch = load({{"input", input}, {"target", target}});
  EXPECT_TRUE(at::equal(batch.inputs[0], input));
  EXPECT_TRUE(at::equal(batch.target, target));
  const auto message = [&](const TensorDict& dict) { return error_of([&] { (void)load(dict); }).problem(); };
  EXPECT_EQ(message({{"input", input}}), "there is no 'target'");
  EXPECT_EQ(message({{"input", input.view({5, 3, 2})}, {"target", target}}),
            "'input' is 5x3x2:float32, each sample of it must be 2x3:float32");
  EXPECT_EQ(message({{"input", input.to(at::kDouble)}, {"target", target}}),
            "'input' is 5x2x3:float64, each sample of it must be 2x3:float32");
  EXPECT_EQ(message({{"input", input}, {"target", target.narrow(0, 0, 4)}}), "'input' has 5 samples, 'target' 4");
  EXPECT_EQ(message({{"input", input}, {"target", target + 1}}), "'target' has the value 4");
  EXPECT_EQ(message({{"input", input}, {"target", target - 1}}), "'target' has the value -1");
  EXPECT_EQ(message({{"input", input}, {"target", target}, {"lengths", target}}), "the model takes no 'lengths'");
  EXPECT_TRUE(
      at::equal(load({{"input", input}, {"target", target.masked_fill(target == 2, -100)}}).target, target.masked_fill(target == 2, -100)));
  sample.inputs[0].name = "x";
  EXPECT_TRUE(at::equal(load({{"x", input}, {"target", target}}).inputs[0], input));
  EXPECT_EQ(message({{"inputs", input}, {"target", target}}), "there is no 'x'");
  EXPECT_EQ(message({{"input", input.narrow(0, 0, 0)}, {"target", target}}),
            "'input' is 0x2x3:float32, each sample of it must be 2x3:float32");
}

/// Holds one tensor.
class Holder final : public Layer {
 public:
  explicit Holder(at::Tensor tensor) : tensor_(std::move(tensor)) {}
  Tensors forward(const Tensors& inputs, const RunContext&) override { return inputs; }
  [[nodiscard]] std::vector<NamedTensor> parameters() const override { return {{"weight", tensor_}}; }
  [[nodiscard]] std::vector<NamedTensor> buffers() const override { return {}; }
  [[nodiscard]] std::unique_ptr<Layer> clone() const override { return std::make_unique<Holder>(tensor_.clone()); }
  [[nodiscard]] std::string kind() const override { return "Holder"; }

 private:
  at::Tensor tensor_;
};

TEST_F(TorchFile, WhatCannotBeSavedIsKnownBefore) {
  const auto model_of_type = [](at::ScalarType type) {
    std::vector<ModelLayer> layers;
    layers.push_back({"holder", {}, std::make_unique<Holder>(at::ones({2}, type))});
    return Model("holder", std::move(layers), Loss::mean_square(), {}, 1);
  };
  for (const char* file : {"a.pt", "a.safetensors"}) {
    check_can_save(model_of_type(at::kFloat), path(file));
    check_can_save(model_of_type(at::kBFloat16), path(file));
    EXPECT_EQ(error_of([&] { check_can_save(model_of_type(at::kComplexFloat), path(file)); }).problem(),
              "'weight' is ComplexFloat, which the file can't hold");
  }
}

TEST_F(TorchFile, OtherFiles) {
  const auto message = [&](const std::string& file) {
    const auto error = error_of([&] { (void)read_torch_file(file); });
    EXPECT_EQ(error.code(), ExitCode::usage);
    EXPECT_EQ(error.where(), file);
    return error.problem();
  };
  EXPECT_EQ(message(path("absent.pt")), "no such file, or it cannot be read");
  EXPECT_EQ(message(folder_.string()), "no such file, or it cannot be read");
  write(path("empty.pt"), "");
  EXPECT_THAT(message(path("empty.pt")), HasSubstr("cut short"));
  write(path("text.pt"), "hello, world\n");
  EXPECT_THAT(message(path("text.pt")), HasSubstr("not a file of torch.save"));
}

TEST_F(TorchFile, EveryTruncationIsRefused) {
  write_torch_file(path("whole.pt"), {{"input", at::arange(6.0)}});
  const auto whole = read(path("whole.pt"));
  for (std::size_t bytes = 0; bytes < whole.size(); bytes += 13) {
    write(path("cut.pt"), whole.substr(0, bytes));
    EXPECT_THROW((void)read_torch_file(path("cut.pt")), Error) << bytes;
  }
}

// Whatever the damage, the answer is a dict or an Error: no crash, no other exception.
TEST_F(TorchFile, DamagedBytes) {
  write_torch_file(path("whole.pt"), {{"input", at::arange(6.0)}, {"target", at::arange(6)}});
  const auto whole = read(path("whole.pt"));
  std::mt19937 random(5);
  int refused = 0;
  for (int round = 0; round < 2000; ++round) {
    auto bytes = whole;
    for (int i = 0; i < 1 + round % 4; ++i) bytes[random() % bytes.size()] = static_cast<char>(random());
    write(path("bad.pt"), bytes);
    try {
      (void)read_torch_file(path("bad.pt"));
    } catch (const Error&) {
      ++refused;
    }
  }
  EXPECT_GT(refused, 200);
}

TEST(Pickle, DamagedPrograms) {
  const auto whole = write_pickle({{"input", at::arange(6.0)}, {"target", at::arange(6)}});
  const auto storage = [](const PickleStorage& wanted) { return at::zeros({std::min<std::int64_t>(wanted.numel, 1000)}, wanted.type); };
  std::mt19937 random(7);
  int refused = 0;
  for (int round = 0; round < 20000; ++round) {
    auto bytes = whole;
    for (int i = 0; i < 1 + round % 3; ++i) bytes[random() % bytes.size()] = static_cast<char>(random());
    try {
      (void)read_pickle(bytes, [&](const PickleStorage& wanted) {
        if (wanted.numel < 0 || wanted.numel > 6) throw PickleError("storage");
        return storage(wanted);
      });
    } catch (const PickleError&) {
      ++refused;
    }
  }
  EXPECT_GT(refused, 5000);
}

std::string refused(const std::string& program) {
  try {
    (void)read_pickle(program, [](const PickleStorage& wanted) { return at::zeros({wanted.numel}, wanted.type); });
  } catch (const PickleError& error) {
    return error.what();
  }
  return "";
}

TEST(Pickle, RunsNothing) {
  using namespace std::string_literals;
  EXPECT_THAT(refused("cos\nsystem\n(X\x02\0\0\0idtR."s), HasSubstr("Python objects (os.system)"));
  EXPECT_THAT(refused("\x80\x02\x8c\x08"s + "builtins\x8c\x04" + "eval\x93)R."), HasSubstr("Python objects (builtins.eval)"));
  EXPECT_THAT(refused("i"), HasSubstr("Python objects that are not tensors (operation 105)"));
  EXPECT_THAT(refused("}q\0h\0h\0s."s), HasSubstr("holds itself"));
  EXPECT_THAT(refused(")R."), HasSubstr("malformed"));
  const std::string deep = std::string(300'000, ']') + std::string(299'999, 'a');
  EXPECT_EQ(refused(deep + "."), "");
  EXPECT_THAT(refused(deep + "i"), HasSubstr("Python objects"));
  EXPECT_THAT(refused("X\xff\xff\xff\x7f"s + "short"), HasSubstr("too early"));
  EXPECT_THAT(refused(""), HasSubstr("too early"));
}

TEST(Pickle, NestedTensorsComeInTheOrderOfTheirItems) {
  using namespace std::string_literals;
  const auto read = [](const std::string& program) {
    return read_pickled_tensors(program, [](const PickleStorage& wanted) { return at::full({wanted.numel}, wanted.numel, wanted.type); });
  };
  const auto tensor = [](char size) {
    return "ctorch._utils\n_rebuild_tensor_v2\n((X\x07\0\0\0storagectorch\nFloatStorage\nX\x01\0\0\0"s + "0X\x03\0\0\0cpuK"s + size +
           "tQK\0(K"s + size + "t(K\x01t\x89}tR"s;
  };
  // ((a, [b, a]), {"k": c}), where a is one object
  const std::string program = "(("s + tensor(1) + "q\x07](" + tensor(2) + "h\x07" + "et}(X\x01\0\0\0k"s + tensor(3) + "ut.";
  std::vector<std::int64_t> sizes;
  for (const at::Tensor& found : read(program)) sizes.push_back(found.numel());
  EXPECT_EQ(sizes, (std::vector<std::int64_t>{1, 2, 1, 3}));
  EXPECT_TRUE(read("N.").empty());

  // Each list holds the one before twice: 2^40 items of forty objects.
  std::string doubled = "]q\x01";
  for (int i = 0; i < 40; ++i)
    doubled +=
        "](h\x01h\x01"
        "eq\x01";
  EXPECT_THROW((void)read(doubled + "."), PickleError);
}

TEST(Pickle, TensorsStayInsideTheirStorage) {
  const auto tensor = [](std::int64_t offset, std::int64_t size, std::int64_t stride) {
    const auto number = [](std::int64_t value) {
      std::string text = "\x8a\x08";
      for (int i = 0; i < 8; ++i) text += static_cast<char>(static_cast<std::uint64_t>(value) >> (8 * i) & 0xff);
      return text;
    };
    const std::string storage = std::string(
                                    "((X\x07\0\0\0storagectorch\nFloatStorage\nX\x01\0\0\0"
                                    "0X\x03\0\0\0cpu",
                                    48) +
                                number(10) + "tQ";
    return "ctorch._utils\n_rebuild_tensor_v2\n" + storage + number(offset) + "(" + number(size) + "t(" + number(stride) + "t\x89}tR.";
  };
  EXPECT_EQ(refused(tensor(0, 10, 1)), "");
  EXPECT_EQ(refused(tensor(4, 2, 5)), "");
  EXPECT_THAT(refused(tensor(1, 10, 1)), HasSubstr("outside its storage"));
  EXPECT_THAT(refused(tensor(0, 3, 5)), HasSubstr("outside its storage"));
  EXPECT_THAT(refused(tensor(0, std::int64_t{1} << 40, 0)), HasSubstr("outside its storage"));
  EXPECT_THAT(refused(tensor(-1, 2, 1)), HasSubstr("malformed tensor"));
  EXPECT_THAT(refused(tensor(0, -2, 1)), HasSubstr("malformed tensor"));
  EXPECT_THAT(refused(tensor(0, 2, std::int64_t{1} << 62)), HasSubstr("outside its storage"));
  EXPECT_THAT(refused(tensor(0, 4, std::int64_t{1} << 62)), HasSubstr("malformed tensor"));
}

TEST_F(TorchFile, UnwritablePlaces) {
  const auto error = error_of([&] { write_torch_file(path("no/such/folder.pt"), {}); });
  EXPECT_EQ(error.code(), ExitCode::environment);
  EXPECT_EQ(error.where(), path("no/such/folder.pt"));
  write(path("old.pt"), "precious");
  EXPECT_THROW(write_torch_file(path("old.pt"), {{"complex", at::zeros({2}, at::kComplexFloat)}}), Error);
  EXPECT_EQ(read(path("old.pt")), "precious");
  if (std::filesystem::exists("/dev/full")) {
    const auto full = error_of([&] { write_torch_file("/dev/full/x.pt", {}); });
    EXPECT_EQ(full.code(), ExitCode::environment);
  }
}

class Python : public TorchFile {
 protected:
  void SetUp() override {
    TorchFile::SetUp();
    const char* named = std::getenv("MPTUNE_TEST_PYTHON");
    python_ = named != nullptr ? named : MPTUNE_PYTHON;
    if (run("import torch") != 0) {
      GTEST_SKIP() << python_ << " cannot import torch; name one that can in MPTUNE_TEST_PYTHON";
    }
  }
  int run(const std::string& program) const {
    write(path("program.py"), program);
    // Its torch must not meet the libraries of ours.
    const auto command = "env -u LD_LIBRARY_PATH -u PYTHONPATH '" + python_ + "' '" + path("program.py") + "' '" + folder_.string() +
                         "' > '" + path("log") + "' 2>&1";
    return std::system(command.c_str());
  }
  std::string log() const { return read(path("log")); }

  std::string python_;
};

TEST_F(Python, LoadsWhatWeSave) {
  write_torch_file(path("types.pt"), every_type());
  auto model = load_model("resnet18", "", 4).model;
  save_state(model, path("state.pt"));
  const int failed = run(R"(
import sys, torch
folder = sys.argv[1]
types = torch.load(folder + "/types.pt", weights_only=True)
assert list(types)[:2] == ["Float", "Double"], list(types)
for name in ("Float", "Double", "Half", "BFloat16", "Long", "Int", "Short", "Char", "Byte"):
    assert types[name].tolist() == [[0, 1, 2], [3, 4, 5]], name
assert types["Bool"].dtype == torch.bool and types["Half"].dtype == torch.float16
assert types["scalar"].item() == 5 and types["scalar"].shape == () and types["empty"].shape == (0, 3)
assert torch.equal(types["strided"], torch.arange(12.0).view(3, 4).t())
state = torch.load(folder + "/state.pt", weights_only=True)
assert state["bn1.num_batches_tracked"].dtype == torch.int64
torch.save({name: value.double().sum() for name, value in state.items()}, folder + "/sums.pt")
try:
    import torchvision
except ImportError:
    sys.exit(0)
model = torchvision.models.resnet18()
assert list(model.state_dict()) == list(state)
model.load_state_dict(state)
)");
  ASSERT_EQ(failed, 0) << log();
  const auto sums = read_torch_file(path("sums.pt"));
  const auto state = state_of(model);
  ASSERT_EQ(sums.size(), state.size());
  for (std::size_t i = 0; i < sums.size(); ++i)
    EXPECT_NEAR(sums[i].second.item<double>(), state[i].tensor.to(at::kDouble).sum().item<double>(), 1e-6) << state[i].name;
}

TEST_F(Python, WeLoadWhatItSaves) {
  const int failed = run(R"(
import sys, torch
folder = sys.argv[1]
whole = torch.arange(24.0).view(4, 6)
net = torch.nn.Sequential()
net.add_module("net1", torch.nn.Linear(10, 10))
net.add_module("net2", torch.nn.Linear(10, 5))
with torch.no_grad():
    net.net1.weight.copy_(torch.arange(100.0).view(10, 10))
torch.save(net.state_dict(), folder + "/state.pt")
torch.save(dict(net.named_parameters()), folder + "/parameters.pt")
torch.save({"part": whole[1:3, ::2], "turned": whole.t(), "whole": whole, "half": whole.half(), "flag": whole > 3}, folder + "/views.pt")
torch.save({"input": torch.arange(20.0).view(2, 10), "target": torch.ones(2, 5)}, folder + "/batch.pt")
torch.save(net, folder + "/module.pt")
torch.save([whole], folder + "/list.pt")
torch.save({"whole": whole, "epoch": 3}, folder + "/mixed.pt")
torch.save(net.state_dict(), folder + "/legacy.pt", _use_new_zipfile_serialization=False)
torch.save({"wide": torch.zeros(1).expand(1 << 40)}, folder + "/wide.pt")
try:
    import torchvision
    resnet = torchvision.models.resnet18()
    resnet.bn1.num_batches_tracked.fill_(7)
    torch.save(resnet.state_dict(), folder + "/resnet18.pt")
except ImportError:
    pass
)");
  ASSERT_EQ(failed, 0) << log();
  auto model = load_model("mlp", "", 0).model;
  load_state(model, path("state.pt"));
  EXPECT_TRUE(at::equal(model.parameters()[0].tensor, at::arange(100.0).view({10, 10})));
  load_state(model, path("parameters.pt"));

  const auto views = read_torch_file(path("views.pt"));
  const auto whole = at::arange(24.0).view({4, 6});
  EXPECT_TRUE(at::equal(views.at(0).second, whole.slice(0, 1, 3).slice(1, 0, 6, 2)));
  EXPECT_TRUE(at::equal(views.at(1).second, whole.t()));
  EXPECT_EQ(views.at(1).second.const_data_ptr(), views.at(2).second.const_data_ptr());
  EXPECT_TRUE(at::equal(views.at(3).second, whole.to(at::kHalf)));
  EXPECT_TRUE(at::equal(views.at(4).second, whole > 3));
  EXPECT_EQ(load_batch(path("batch.pt"), model.sample()).inputs[0][1][9].item<float>(), 19.0F);

  for (const auto& [file, hint] : std::vector<std::pair<std::string, std::string>>{{"module.pt", "Python objects"},
                                                                                   {"list.pt", "holds no dict"},
                                                                                   {"mixed.pt", "'epoch' is not a tensor"},
                                                                                   {"legacy.pt", "not a file of torch.save (PyTorch 1.6"},
                                                                                   {"wide.pt", "outside its storage"}})
    EXPECT_THAT(error_of([&] { (void)read_torch_file(path(file)); }).problem(), HasSubstr(hint)) << file;
  if (std::filesystem::exists(path("resnet18.pt"))) {
    auto resnet = load_model("resnet18", "3x64x64", 0).model;
    load_state(resnet, path("resnet18.pt"));
    EXPECT_EQ(resnet.buffers()[2].name, "bn1.num_batches_tracked");
    EXPECT_EQ(resnet.buffers()[2].tensor.item<std::int64_t>(), 7);
  }
}

}  // namespace
}  // namespace mptune::profiler

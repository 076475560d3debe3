#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <fstream>
#include <map>
#include <set>
#include <sstream>

#include "profiler/base/error.h"
#include "profiler/base/index.h"
#include "profiler/base/text.h"
#include "profiler/model/builtin/builtin_models.h"
#include "profiler/model/files/state.h"
#include "profiler/model/layers/model.h"
#include "profiler/model/layers/scalar_types.h"
#include "profiler/model/loading/load_model.h"
#include "tests/support/model_formula.h"

namespace mptune::profiler {
namespace {

using ::testing::HasSubstr;

std::string golden(const std::string& file) {
  return std::string(MPTUNE_SOURCE_DIR) + "/tests/golden/" + file;
}

std::int64_t parameter_count(const Model& model) {
  std::int64_t count = 0;
  for (const auto& named : model.parameters()) count += named.tensor.numel();
  return count;
}

std::string state_line(const NamedTensor& named) {
  return named.name + " " + scalar_type_name(named.tensor.scalar_type()) + " " + shape_text(named.tensor.sizes());
}

std::map<std::string, std::vector<double>> golden_numbers(const std::string& file) {
  std::ifstream in(golden(file));
  std::map<std::string, std::vector<double>> result;
  for (std::string text; std::getline(in, text);) {
    std::istringstream line(text);
    std::string key;
    line >> key;
    for (double number = 0; line >> number;) result[key].push_back(number);
  }
  return result;
}

void expect_near_all(const at::Tensor& values, const std::vector<double>& expected, double relative, const std::string& what) {
  const auto flat = values.to(at::kDouble).contiguous();
  ASSERT_EQ(as_index(flat.numel()), expected.size()) << what;
  double scale = 0;
  for (const double value : expected) scale = std::max(scale, std::abs(value));
  for (std::size_t i = 0; i < expected.size(); ++i)
    EXPECT_NEAR(flat.const_data_ptr<double>()[i], expected[i], relative * scale) << what << " " << i;
}

class ResNet : public ::testing::TestWithParam<std::string> {};

TEST_P(ResNet, StateDictIsTorchvisions) {
  const auto model = load_model(GetParam(), "", 0).model;
  EXPECT_EQ(parameter_count(model), GetParam() == "resnet18" ? 11689512 : 25557032);
  std::ifstream in(golden("model_" + GetParam() + "_state.txt"));
  const auto state = state_of(model);
  std::size_t i = 0;
  for (std::string line; std::getline(in, line); ++i) {
    ASSERT_LT(i, state.size());
    EXPECT_EQ(state_line(state[i]), line);
  }
  EXPECT_EQ(i, state.size());
  EXPECT_GT(i, 100U);
}

TEST_P(ResNet, OneStepIsTorchvisions) {
  auto model = load_model(GetParam(), "3x64x64:float64", 0).model;
  testing::fill_state(state_of(model));
  const auto expected = golden_numbers("model_" + GetParam() + "_golden.txt");
  ASSERT_FALSE(expected.empty());

  const auto images = testing::fill({4, 3, 64, 64}, 1000, 1.0).to(at::kDouble);
  const auto labels = at::tensor(std::vector<std::int64_t>{1, 77, 500, 999});
  const auto output = forward_all(model, {images}, {.samples = 4});
  const auto loss = model.loss()(output, labels);
  loss.backward();
  testing::commit_single(model);

  expect_near_all(loss.detach().reshape({1}), expected.at("loss"), 1e-5, "loss");
  for (std::int64_t row = 0; row < 4; ++row)
    expect_near_all(output[0][row].detach().slice(0, 0, std::nullopt, 50), expected.at("output." + std::to_string(row)), 1e-5, "output");
  int norms = 0;
  for (const auto& [name, tensor] : model.buffers()) {
    if (name.ends_with("num_batches_tracked")) {
      EXPECT_EQ(tensor.item<std::int64_t>(), 4) << name;
    } else {
      expect_near_all(tensor.slice(0, 0, std::nullopt, std::max<std::int64_t>(1, tensor.numel() / 4)), expected.at(name), 1e-5, name);
      ++norms;
    }
  }
  EXPECT_EQ(norms, GetParam() == "resnet18" ? 40 : 106);
  for (const auto& [name, tensor] : model.parameters())
    expect_near_all(tensor.grad().to(at::kDouble).norm().reshape({1}), expected.at("gradient." + name), 1e-5, name);
}

INSTANTIATE_TEST_SUITE_P(Both, ResNet, ::testing::Values("resnet18", "resnet50"));

TEST(ResNetLayers, OnePerBlock) {
  const auto model = load_model("resnet50", "3x64x64", 0).model;
  ASSERT_EQ(model.size(), 18);
  EXPECT_EQ(model.layers()[0].name, "stem");
  EXPECT_EQ(model.layers()[0].modules.front(), "conv1");
  EXPECT_EQ(model.layers()[1].name, "layer1.0");
  EXPECT_EQ(model.layers()[16].name, "layer4.2");
  EXPECT_EQ(model.layers()[17].name, "head");
  EXPECT_EQ(model.layers()[1].layer->kind(), "Bottleneck");
  EXPECT_TRUE(model.layers()[1].layer->has_batch_statistics());
  EXPECT_FALSE(model.layers()[17].layer->has_batch_statistics());
  EXPECT_EQ(model.input_text(), "3x64x64:float32");
  EXPECT_EQ(load_model("resnet18", "", 0).model.size(), 10);
  EXPECT_EQ(load_model("resnet18", "", 0).model.input_text(), "3x224x224:float32");
}

TEST(Mlp, IsTheTutorialsToy) {
  auto model = load_model("mlp", "", 1).model;
  ASSERT_EQ(model.size(), 2);
  std::vector<std::string> state;
  for (const auto& named : state_of(model)) state.push_back(state_line(named));
  EXPECT_EQ(state, (std::vector<std::string>{"net1.weight float32 10x10", "net1.bias float32 10", "net2.weight float32 5x10",
                                             "net2.bias float32 5"}));
  EXPECT_EQ(model.loss().name(), "mse");
  EXPECT_EQ(model.default_batch(), 20);
  const auto batch = synthetic_batch(model.sample(), 20, 7);
  EXPECT_EQ(batch.target.sizes(), (std::vector<std::int64_t>{20, 5}));
  const auto state_now = state_of(model);
  const auto hidden = at::relu(at::matmul(batch.inputs[0], state_now[0].tensor.t()) + state_now[1].tensor);
  const auto expected = at::matmul(hidden, state_now[2].tensor.t()) + state_now[3].tensor;
  EXPECT_TRUE(at::allclose(forward_all(model, batch.inputs, {})[0], expected, 1e-6, 1e-6));
}

TEST(Mlp, SizesAsAsked) {
  const auto model = load_model("mlp:layers=4,width=64", "12:float64", 0).model;
  ASSERT_EQ(model.size(), 4);
  const auto parameters = model.parameters();
  EXPECT_EQ(state_line(parameters[0]), "net1.weight float64 64x12");
  EXPECT_EQ(state_line(parameters[2]), "net2.weight float64 64x64");
  EXPECT_EQ(state_line(parameters[6]), "net4.weight float64 5x64");
  EXPECT_EQ(load_model("mlp:layers=1", "", 0).model.size(), 1);
}

TEST(Transformer, ShapesAndCount) {
  auto model = load_model("transformer:d=32,layers=3,heads=4,seq=16,vocab=50", "", 0).model;
  ASSERT_EQ(model.size(), 5);
  EXPECT_EQ(model.layers()[0].name, "embedding");
  EXPECT_EQ(model.layers()[3].name, "blocks.2");
  EXPECT_EQ(model.layers()[4].name, "head");
  EXPECT_EQ(parameter_count(model), 3 * (12 * 32 * 32 + 13 * 32) + 32 * (50 + 16) + 2 * 32 + 32 * 50);
  const auto batch = synthetic_batch(model.sample(), 3, 5);
  EXPECT_EQ(batch.inputs[0].scalar_type(), at::kLong);
  const auto output = forward_all(model, batch.inputs, {});
  EXPECT_EQ(output[0].sizes(), (std::vector<std::int64_t>{3, 16, 50}));
  const auto loss = model.loss()(output, batch.target);
  EXPECT_NEAR(loss.item<double>(), std::log(50.0), 0.2);
  EXPECT_TRUE(at::allclose(loss, at::cross_entropy_loss(output[0].transpose(1, 2), batch.target)));
}

TEST(Transformer, SeesOnlyThePast) {
  auto model = load_model("transformer:d=32,layers=2,heads=4,seq=12,vocab=20", "", 3).model;
  const auto input = synthetic_batch(model.sample(), 2, 5).inputs[0];
  auto changed = input.clone();
  changed.select(1, 7).copy_((changed.select(1, 7) + 1).remainder(20));
  const auto before = forward_all(model, {input}, {})[0].detach();
  const auto after = forward_all(model, {changed}, {})[0].detach();
  EXPECT_TRUE(at::equal(before.narrow(1, 0, 7), after.narrow(1, 0, 7)));
  const auto difference = (before - after).abs().amax({0, 2});
  for (std::int64_t position = 7; position < 12; ++position) EXPECT_GT(difference[position].item<double>(), 1e-4) << position;
}

// The same block in the most literal form: one head and one position at a time.
TEST(Transformer, BlockEqualsPlainAttention) {
  auto model = load_model("transformer:d=8,layers=1,heads=2,seq=5,vocab=9", "", 3).model;
  auto& block = *model.layers()[1].layer;
  std::map<std::string, at::Tensor> p;
  for (const auto& named : block.parameters()) p[named.name.substr(std::string("blocks.0.").size())] = named.tensor.detach();
  const auto x = testing::fill({1, 5, 8}, 3, 1.0);
  const auto norm = [&](const at::Tensor& v, const std::string& name) {
    const auto centred = v - v.mean(-1, true);
    return centred / (centred.square().mean(-1, true) + 1e-5).sqrt() * p[name + ".weight"] + p[name + ".bias"];
  };
  const auto linear = [&](const at::Tensor& v, const std::string& name) {
    return at::matmul(v, p[name + ".weight"].t()) + p[name + ".bias"];
  };
  const auto qkv = linear(norm(x[0], "norm1"), "qkv");
  auto mixed = at::zeros({5, 8});
  for (std::int64_t head = 0; head < 2; ++head) {
    for (std::int64_t t = 0; t < 5; ++t) {
      const auto q = qkv[t].narrow(0, head * 4, 4);
      const auto keys = qkv.narrow(0, 0, t + 1).narrow(1, 8 + head * 4, 4);
      const auto values = qkv.narrow(0, 0, t + 1).narrow(1, 16 + head * 4, 4);
      mixed[t].narrow(0, head * 4, 4).copy_(at::matmul(at::softmax(at::matmul(keys, q) / 2.0, 0), values));
    }
  }
  const auto middle = x[0] + linear(mixed, "projection");
  const auto expected = middle + linear(at::gelu(linear(norm(middle, "norm2"), "expand")), "contract");
  EXPECT_TRUE(at::allclose(block.forward({x}, {})[0][0], expected, 1e-5, 1e-5));
}

TEST(Builtin, WeightsDependOnlyOnTheSeed) {
  at::manual_seed(11);
  const auto first = load_model("mlp", "", 4).model;
  const auto drawn = at::rand({4});
  at::manual_seed(11);
  const auto undisturbed = at::rand({4});
  const auto again = load_model("mlp", "", 4).model;
  const auto other = load_model("mlp", "", 5).model;
  EXPECT_TRUE(at::equal(drawn, undisturbed));
  EXPECT_TRUE(at::equal(first.parameters()[0].tensor, again.parameters()[0].tensor));
  EXPECT_FALSE(at::equal(first.parameters()[0].tensor, other.parameters()[0].tensor));
}

TEST(Builtin, InitialWeightsHaveTheUsualSpread) {
  const auto model = load_model("resnet18", "", 0).model;
  for (const auto& [name, tensor] : model.parameters())
    if (name == "layer2.0.conv1.weight") {
      EXPECT_NEAR(tensor.std().item<double>(), std::sqrt(2.0 / (128 * 9)), 0.001);
    } else if (name == "fc.weight") {
      EXPECT_NEAR(tensor.abs().max().item<double>(), 1 / std::sqrt(512.0), 1e-4);
    } else if (name == "bn1.weight") {
      EXPECT_TRUE(at::equal(tensor, at::ones({64})));
    }
}

TEST(Builtin, Fingerprints) {
  const auto of = [](const std::string& text, const std::string& input = "", std::optional<std::uint64_t> seed = {}) {
    return load_model(text, input, seed).model.fingerprint();
  };
  EXPECT_EQ(of("mlp").substr(0, 7), "sha256:");
  EXPECT_EQ(of("mlp").size(), 71U);
  EXPECT_EQ(of("mlp", "", 1), of("mlp", "", 2));
  std::set<std::string> all{of("mlp"),      of("mlp:width=11"), of("mlp:layers=3"), of("mlp", "10:float64"), of("mlp", "11"),
                            of("resnet18"), of("resnet50"),     of("transformer"),  of("transformer:seq=65")};
  EXPECT_EQ(all.size(), 9U);
  EXPECT_EQ(of("resnet18"), of("resnet18", "3x64x64"));
}

TEST(Builtin, ListIsComplete) {
  for (const auto& about : builtin_models()) {
    const auto text = about.parameters.empty() ? about.name : about.name + ":" + about.parameters;
    EXPECT_EQ(load_model(text, "", std::nullopt).model.fingerprint(), load_model(about.name, "", std::nullopt).model.fingerprint());
  }
}

struct BadCase {
  std::string model, input, hint;
};
class BadModel : public ::testing::TestWithParam<BadCase> {};

TEST_P(BadModel, SaysWhatIsPossible) {
  try {
    (void)load_model(GetParam().model, GetParam().input, 0);
    FAIL() << "accepted";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::usage);
    EXPECT_THAT(error.problem() + "; " + error.where() + "; " + error.remedy(), HasSubstr(GetParam().hint));
  }
}

INSTANTIATE_TEST_SUITE_P(
    Each, BadModel,
    ::testing::Values(
        BadCase{"resnet51", "", "mlp, resnet18, resnet50, transformer, vgg16"}, BadCase{"", "", "built-in models"},
        BadCase{"mlp:", "", "no parameter"}, BadCase{"mlp:depth=3", "", "layers (1 to 1000, default 2)"},
        BadCase{"mlp:layers", "", "key=value"}, BadCase{"mlp:layers=two", "", "not an integer"},
        BadCase{"mlp:layers=2.5", "", "not an integer"}, BadCase{"mlp:layers=0", "", "out of range"},
        BadCase{"mlp:layers=-1", "", "out of range"}, BadCase{"mlp:layers=99999999999999999999", "", "not an integer"},
        BadCase{"mlp:layers=2,layers=3", "", "twice"}, BadCase{"mlp:layers=1000,width=65536", "", "billion"},
        BadCase{"mlp", "3x4", "features"}, BadCase{"mlp", "10:int64", "float64"}, BadCase{"mlp", "10:float31", "unknown element type"},
        BadCase{"resnet50:layers=3", "", "takes no parameters"}, BadCase{"resnet50", "1x28x28", "3xHEIGHTxWIDTH"},
        BadCase{"resnet50", "224", "3xHEIGHTxWIDTH"}, BadCase{"resnet50", "3x0x64", "not a shape"},
        BadCase{"resnet50", "3x64x", "not a shape"}, BadCase{"resnet50", "3x4x4", "8 to 4096"},
        BadCase{"resnet50", "3x64x64:", "unknown element type"}, BadCase{"transformer:heads=7", "", "heads do not divide"},
        BadCase{"transformer:d=16384,layers=1000", "", "billion"}, BadCase{"transformer:seq=32", "64", "seq=32"},
        BadCase{"transformer", "64:float32", "int64"}, BadCase{"transformer", "3x64x64", "SEQ"},
        BadCase{"transformer:vocab=1", "", "out of range"}, BadCase{"vgg16:dropout=100", "", "0 to 99"},
        BadCase{"vgg16", "3x16x16", "32 to 4096"}, BadCase{"vgg16:width=1024,hidden=65536", "", "billion"},
        BadCase{"bert:heads=7", "", "heads do not divide"}, BadCase{"bert:seq=513", "", "out of range"}, BadCase{"bert", "513", "1 to 512"},
        BadCase{"bert:seq=64", "32", "seq=64"}, BadCase{"bert:d=16384,layers=1000,heads=2", "", "billion"},
        BadCase{"unet", "3x100x100", "multiples of 16"}, BadCase{"unet", "1x64x64", "3xHEIGHTxWIDTH"},
        BadCase{"unet:depth=9", "", "1 to 8"}, BadCase{"unet:base=1024,depth=8", "", "billion"},
        BadCase{"bert:d=8192,layers=1,heads=8,classes=1000000", "", "billion"},
        BadCase{"encoder-decoder-classifier:hidden=65536,classes=1000000", "", "billion"},
        BadCase{"late-fusion", "3x64x64", "2x3xHEIGHTxWIDTH"}, BadCase{"late-fusion:width=1024,classes=1000000", "", "billion"},
        BadCase{"late-fusion:depth=3", "", "width (1 to 1024"}, BadCase{"encoder-decoder-classifier", "3x33x32", "multiples of 8"},
        BadCase{"encoder-decoder-classifier:classes=1", "", "out of range"}));

}  // namespace
}  // namespace mptune::profiler

// The built-in models beyond resnet, mlp and transformer: published counts, names, and what they compute in its most literal form.
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <map>
#include <set>

#include "profiler/base/index.h"
#include "profiler/model/files/state.h"
#include "profiler/model/layers/model.h"
#include "profiler/model/layers/scalar_types.h"
#include "profiler/model/loading/load_model.h"
#include "tests/support/model_formula.h"

namespace mptune::profiler {
namespace {

Model described(const std::string& text) {
  return load_model(text, "", std::nullopt).model;
}

std::int64_t count_of(const Model& model, const std::string& prefix = "") {
  std::int64_t count = 0;
  for (const auto& [name, tensor] : model.parameters()) count += name.starts_with(prefix) ? tensor.numel() : 0;
  return count;
}

/// Parameters by name, with values by formula.
class Named {
 public:
  explicit Named(Model& model) {
    testing::fill_state(state_of(model));
    for (const auto& [name, tensor] : state_of(model)) tensors_[name] = tensor.detach();
  }
  const at::Tensor& operator()(const std::string& name) const { return tensors_.at(name); }
  at::Tensor linear(const at::Tensor& input, const std::string& name) const {
    return at::matmul(input, (*this)(name + ".weight").t()) + (*this)(name + ".bias");
  }
  at::Tensor convolution(const at::Tensor& input, const std::string& name, std::int64_t stride = 1) const {
    const auto& weight = (*this)(name + ".weight");
    const auto biased = tensors_.contains(name + ".bias") ? (*this)(name + ".bias") : at::Tensor();
    return at::conv2d(input, weight, biased, stride, weight.size(2) / 2);
  }
  at::Tensor layer_norm(const at::Tensor& input, const std::string& name) const {
    const auto centred = input - input.mean(-1, true);
    return centred / (centred.square().mean(-1, true) + 1e-12).sqrt() * (*this)(name + ".weight") + (*this)(name + ".bias");
  }
  at::Tensor batch_norm(const at::Tensor& input, const std::string& name) const {
    const auto centred = input - input.mean({0, 2, 3}, true);
    const auto shaped = [&](const char* part) { return (*this)(name + part).view({1, -1, 1, 1}); };
    return centred / (centred.square().mean({0, 2, 3}, true) + 1e-5).sqrt() * shaped(".weight") + shaped(".bias");
  }

 private:
  std::map<std::string, at::Tensor> tensors_;
};

void expect_close(const at::Tensor& actual, const at::Tensor& expected) {
  ASSERT_EQ(actual.sizes(), expected.sizes());
  EXPECT_LT((actual - expected).abs().max().item<double>(), 1e-4 * expected.abs().max().item<double>());
}

TEST(Vgg16, NamesAndCountAreTorchvisions) {
  const Model model = described("vgg16");
  EXPECT_EQ(count_of(model), 138'357'544);
  EXPECT_EQ(model.size(), 16);
  std::vector<std::string> names;
  for (const auto& named : model.parameters()) names.push_back(named.name);
  std::vector<std::string> expected;
  for (const int i : {0, 2, 5, 7, 10, 12, 14, 17, 19, 21, 24, 26, 28})
    for (const char* part : {".weight", ".bias"}) expected.push_back("features." + std::to_string(i) + part);
  for (const int i : {0, 3, 6})
    for (const char* part : {".weight", ".bias"}) expected.push_back("classifier." + std::to_string(i) + part);
  EXPECT_EQ(names, expected);
  std::vector<std::string> modules;
  for (const auto& layer : model.layers()) modules.insert(modules.end(), layer.modules.begin(), layer.modules.end());
  EXPECT_EQ(modules.size(), 31U + 1 + 7) << "features, avgpool, classifier";
}

TEST(Vgg16, ComputesConvolutionsPoolsAndAClassifier) {
  Model model = load_model("vgg16:width=2,hidden=6,classes=3,dropout=0", "3x32x64", 0).model;
  const Named named(model);
  const at::Tensor images = testing::fill({2, 3, 32, 64}, 7, 1.0);
  at::Tensor x = images;
  const std::set<int> convolutions{0, 2, 5, 7, 10, 12, 14, 17, 19, 21, 24, 26, 28}, pools{4, 9, 16, 23, 30};
  for (int i = 0; i < 31; ++i) {
    x = convolutions.contains(i) ? named.convolution(x, "features." + std::to_string(i))
        : pools.contains(i)      ? at::max_pool2d(x, 2)
                                 : x.relu();
  }
  x = at::adaptive_avg_pool2d(x, {7, 7}).flatten(1);
  x = named.linear(x, "classifier.0").relu();
  x = named.linear(x, "classifier.3").relu();
  expect_close(forward_all(model, {images}, {})[0], named.linear(x, "classifier.6"));
}

TEST(Vgg16, ClassifierDropsOut) {
  Model model = load_model("vgg16:width=2,hidden=64,classes=3", "3x32x32", 0).model;
  const at::Tensor images = testing::fill({2, 3, 32, 32}, 7, 1.0);
  const at::Tensor first = forward_all(model, {images}, {})[0];
  EXPECT_TRUE(at::equal(forward_all(model, {images}, {})[0], first));
  EXPECT_FALSE(at::equal(forward_all(model, {images}, {.step = 1})[0], first));
}

TEST(Bert, CountIsHuggingFaces) {
  const Model model = described("bert");
  EXPECT_EQ(count_of(model, "bert."), 109'482'240);
  EXPECT_EQ(count_of(model), 109'482'240 + 2 * 768 + 2);
  EXPECT_EQ(model.size(), 15);
  EXPECT_EQ(model.parameters()[0].name, "bert.embeddings.word_embeddings.weight");
  EXPECT_EQ(model.parameters()[5].name, "bert.encoder.layer.0.attention.self.query.weight");
  EXPECT_EQ(count_of(model, "bert.encoder.layer.11."), 12 * 768 * 768 + 13 * 768);
}

TEST(Bert, ComputesPostNormBlocksOverTheTokensThatCount) {
  Model model = load_model("bert:d=8,layers=2,heads=2,seq=5,vocab=9,classes=3,dropout=0", "", 0).model;
  const Named named(model);
  const at::Tensor tokens = at::tensor(std::vector<std::int64_t>{1, 4, 8, 0, 0, 0, 3, 0, 7, 2}).view({2, 5});
  std::vector<at::Tensor> logits;
  for (std::int64_t sample = 0; sample < 2; ++sample) {
    const at::Tensor row = tokens[sample];
    at::Tensor x = named("bert.embeddings.word_embeddings.weight").index_select(0, row) +
                   named("bert.embeddings.position_embeddings.weight").narrow(0, 0, 5) +
                   named("bert.embeddings.token_type_embeddings.weight")[0];
    x = named.layer_norm(x, "bert.embeddings.LayerNorm");
    for (int i = 0; i < 2; ++i) {
      const auto name = "bert.encoder.layer." + std::to_string(i) + ".";
      const at::Tensor q = named.linear(x, name + "attention.self.query"), k = named.linear(x, name + "attention.self.key"),
                       v = named.linear(x, name + "attention.self.value");
      at::Tensor mixed = at::zeros({5, 8});
      for (std::int64_t head = 0; head < 2; ++head) {
        for (std::int64_t t = 0; t < 5; ++t) {
          std::vector<std::int64_t> seen;
          for (std::int64_t other = 0; other < 5; ++other)
            if (other == 0 || row[other].item<std::int64_t>() != 0) seen.push_back(other);
          const at::Tensor index = at::tensor(seen);
          const at::Tensor keys = k.narrow(1, head * 4, 4).index_select(0, index), values = v.narrow(1, head * 4, 4).index_select(0, index);
          mixed[t].narrow(0, head * 4, 4).copy_(at::matmul(at::softmax(at::matmul(keys, q[t].narrow(0, head * 4, 4)) / 2.0, 0), values));
        }
      }
      const at::Tensor attended =
          named.layer_norm(named.linear(mixed, name + "attention.output.dense") + x, name + "attention.output.LayerNorm");
      const at::Tensor expanded = at::gelu(named.linear(attended, name + "intermediate.dense"));
      x = named.layer_norm(named.linear(expanded, name + "output.dense") + attended, name + "output.LayerNorm");
    }
    logits.push_back(named.linear(named.linear(x[0], "bert.pooler.dense").tanh(), "classifier"));
  }
  expect_close(forward_all(model, {tokens}, {})[0], at::stack(logits));
}

TEST(Bert, MaskIsCarriedWithoutGradient) {
  Model model = load_model("bert:d=8,layers=2,heads=2,seq=5,vocab=9", "", 0).model;
  const auto input = synthetic_batch(model.sample(), 3, 1).inputs[0];
  const Tensors outputs = run_layer(model.layers()[1], 1, run_layer(model.layers()[0], 0, {input}, {}), {});
  ASSERT_EQ(outputs.size(), 2U);
  EXPECT_EQ(outputs[1].scalar_type(), at::kBool);
  EXPECT_EQ(outputs[1].sizes(), (std::vector<std::int64_t>{3, 5}));
}

TEST(Unet, CountsAreThePublishedOnes) {
  EXPECT_EQ(count_of(described("unet")), 31'037'698);
  EXPECT_EQ(count_of(described("unet:base=32")), 7'763'041 + 33) << "one class more than the port that publishes the first";
  const Model model = described("unet:base=2,depth=2");
  std::vector<std::string> names;
  for (const auto& layer : model.layers()) names.push_back(layer.name);
  EXPECT_EQ(names, (std::vector<std::string>{"inc", "down1", "down2", "up1", "up2", "outc"}));
  EXPECT_EQ(model.parameters()[6].name, "down1.maxpool_conv.1.double_conv.0.weight");
  EXPECT_GT(count_of(model, "up2.conv.double_conv.3."), 0);
}

TEST(Unet, SkipsReachTheirLevels) {
  Model model = load_model("unet:base=2,depth=2,classes=3", "3x8x16", 0).model;
  const Named named(model);
  const at::Tensor images = testing::fill({2, 3, 8, 16}, 5, 1.0);
  const auto pair = [&](const at::Tensor& input, const std::string& name) {
    const auto middle = named.batch_norm(named.convolution(input, name + ".double_conv.0"), name + ".double_conv.1").relu();
    return named.batch_norm(named.convolution(middle, name + ".double_conv.3"), name + ".double_conv.4").relu();
  };
  const auto up = [&](const at::Tensor& input, const at::Tensor& skip, const std::string& name) {
    // One input pixel becomes a 2x2 patch.
    const auto patches = at::einsum("bihw,iokl->bohkwl", {input, named(name + ".up.weight")});
    const auto wide = patches.reshape({2, skip.size(1), skip.size(2), skip.size(3)}) + named(name + ".up.bias").view({1, -1, 1, 1});
    return pair(at::cat({skip, wide}, 1), name + ".conv");
  };
  const auto full = pair(images, "inc");
  const auto half = pair(at::max_pool2d(full, 2), "down1.maxpool_conv.1");
  const auto quarter = pair(at::max_pool2d(half, 2), "down2.maxpool_conv.1");
  const auto expected = named.convolution(up(up(quarter, half, "up1"), full, "up2"), "outc.conv");
  const auto output = forward_all(model, {images}, {})[0];
  expect_close(output, expected);
  const auto batch = synthetic_batch(model.sample(), 2, 0);
  EXPECT_EQ(batch.target.sizes(), (std::vector<std::int64_t>{2, 8, 16}));
  const auto log_probabilities = at::log_softmax(output, 1);
  EXPECT_NEAR(model.loss()({output}, batch.target).item<double>(),
              -log_probabilities.gather(1, batch.target.unsqueeze(1)).mean().item<double>(), 1e-5);
}

TEST(LateFusion, IsTwoResNetsAndAHead) {
  const Model model = described("late-fusion");
  constexpr std::int64_t kBranch = 11'689'512 - 513'000;
  EXPECT_EQ(count_of(model, "first."), kBranch);
  EXPECT_EQ(count_of(model, "second."), kBranch);
  EXPECT_EQ(count_of(model), 2 * kBranch + 1024 * 1000 + 1000);
  EXPECT_EQ(model.size(), 19);
  EXPECT_EQ(model.layers()[9].name, "second.stem");
  EXPECT_EQ(model.input_text(), "2x3x224x224:float32");
}

TEST(LateFusion, EveryBranchSeesItsImage) {
  Model model = load_model("late-fusion:classes=5", "2x3x32x32", std::nullopt).model;
  Model branch = load_model("resnet18", "3x32x32", std::nullopt).model;
  const Named named(model);
  const at::Tensor images = testing::fill({2, 2, 3, 32, 32}, 5, 1.0);
  std::vector<at::Tensor> features;
  for (const std::string name : {"first", "second"}) {
    const at::NoGradGuard no_gradients;
    for (const auto& [own, tensor] : branch.parameters())
      if (!own.starts_with("fc.")) at::Tensor(tensor).copy_(named(name + "." + own));
    Tensors values{images.select(1, name == "first" ? 0 : 1)};
    for (int i = 0; i + 1 < branch.size(); ++i) values = run_layer(branch.layers()[as_index(i)], i, values, {});
    features.push_back(values[0].mean({2, 3}));
  }
  expect_close(forward_all(model, {images}, {})[0], named.linear(at::cat(features, 1), "head"));
}

TEST(EncoderDecoderClassifier, ThreePartsAndTwoLosses) {
  Model model = load_model("encoder-decoder-classifier:width=4,hidden=6,classes=3", "3x16x8", 0).model;
  std::vector<std::string> names;
  for (const auto& layer : model.layers()) names.push_back(layer.name);
  EXPECT_EQ(names, (std::vector<std::string>{"encoder.0", "encoder.1", "encoder.2", "decoder.0", "decoder.1", "decoder.2", "classifier.0",
                                             "classifier.1"}));
  EXPECT_EQ(count_of(model, "encoder."), (3 * 4 * 9 + 4) + (4 * 8 * 9 + 8) + (8 * 16 * 9 + 16));
  EXPECT_EQ(count_of(model, "decoder."), (16 * 8 * 4 + 8) + (8 * 4 * 4 + 4) + (4 * 3 * 4 + 3));
  EXPECT_EQ(count_of(model, "classifier."), (16 * 6 + 6) + (6 * 3 + 3));
  const Named named(model);
  const auto batch = synthetic_batch(model.sample(), 5, 2);
  at::Tensor code = batch.inputs[0];
  for (const char* layer : {"encoder.0", "encoder.1", "encoder.2"}) code = named.convolution(code, layer, 2).relu();
  at::Tensor image = code;
  for (const std::string layer : {"decoder.0", "decoder.1", "decoder.2"}) {
    image = at::conv_transpose2d(image, named(layer + ".weight"), named(layer + ".bias"), 2);
    if (layer != "decoder.2") image = image.relu();
  }
  const auto classes = named.linear(named.linear(code.mean({2, 3}), "classifier.0").relu(), "classifier.1");
  const auto outputs = forward_all(model, batch.inputs, {});
  ASSERT_EQ(outputs.size(), 3U);
  expect_close(outputs[0], classes);
  expect_close(outputs[1], image);
  EXPECT_EQ(outputs[2].data_ptr(), batch.inputs[0].data_ptr()) << "the image is handed on as it is";
  const double expected =
      at::cross_entropy_loss(classes, batch.target).item<double>() + (image - batch.inputs[0]).square().mean().item<double>();
  EXPECT_NEAR(model.loss()(outputs, batch.target).item<double>(), expected, 1e-4);
}

TEST(Zoo, FingerprintsSeeEveryParameterThatChangesShapes) {
  const std::vector<std::string> all{"vgg16:width=2,hidden=4",
                                     "vgg16:width=4,hidden=4",
                                     "vgg16:width=2,hidden=5",
                                     "bert:d=8,layers=1,heads=2,vocab=9",
                                     "bert:d=8,layers=2,heads=2,vocab=9",
                                     "unet:base=2",
                                     "unet:base=2,depth=3",
                                     "unet:base=2,classes=3",
                                     "late-fusion:width=4",
                                     "late-fusion:width=4,classes=5",
                                     "encoder-decoder-classifier",
                                     "encoder-decoder-classifier:hidden=64"};
  std::set<std::string> fingerprints;
  for (const auto& text : all) {
    fingerprints.insert(described(text).fingerprint());
    EXPECT_EQ(described(text).fingerprint(), load_model(text, "", 3).model.fingerprint());
  }
  EXPECT_EQ(fingerprints.size(), all.size());
}

}  // namespace
}  // namespace mptune::profiler

#include <torch/nn.h>

#include <utility>

#include "profiler/model/builtin/builtin.h"
#include "profiler/model/builtin/builtin_chain.h"
#include "profiler/model/builtin/primitives.h"

// A convolutional autoencoder whose code is also classified. Three parts in a chain; tensors for later parts or the loss are passed on:
//
//     encoder     { image } -> { h, image } .. -> { code, image }
//     decoder     -> { h, code, image } .. -> { reconstruction, code, image }
//     classifier  -> { hidden, reconstruction, image } -> { classes, reconstruction, image }
//
// The loss is the cross entropy of the classes plus the mean squared error of the reconstruction.
namespace mptune::profiler {
namespace {

constexpr int kEncoderDecoderClassifierBatch = 64;
constexpr std::int64_t kSteps = 3;  // halvings of both sides, and doublings

Tensors and_the_rest(at::Tensor computed, const Tensors& inputs, std::ptrdiff_t used) {
  Tensors outputs{std::move(computed)};
  outputs.insert(outputs.end(), inputs.begin() + used, inputs.end());
  return outputs;
}

Tensors first_encode(torch::nn::Module& module, const Tensors& inputs) {
  return and_the_rest(static_cast<Convolution&>(module).forward(inputs.at(0)).relu_(), inputs, 0);
}
Tensors encode(torch::nn::Module& module, const Tensors& inputs) {
  return and_the_rest(static_cast<Convolution&>(module).forward(inputs.at(0)).relu_(), inputs, 1);
}
Tensors first_decode(torch::nn::Module& module, const Tensors& inputs) {
  return and_the_rest(static_cast<TransposedConvolution&>(module).forward(inputs.at(0)).relu_(), inputs, 0);
}
Tensors decode(torch::nn::Module& module, const Tensors& inputs) {
  return and_the_rest(static_cast<TransposedConvolution&>(module).forward(inputs.at(0)).relu_(), inputs, 1);
}
Tensors last_decode(torch::nn::Module& module, const Tensors& inputs) {
  return and_the_rest(static_cast<TransposedConvolution&>(module).forward(inputs.at(0)), inputs, 1);
}
// { reconstruction, code, image } -> { hidden, reconstruction, image }
Tensors first_classify(torch::nn::Module& module, const Tensors& inputs) {
  const auto pooled = at::adaptive_avg_pool2d(inputs.at(1), {1, 1}).flatten(1);
  return {static_cast<Dense&>(module).forward(pooled).relu_(), inputs[0], inputs.at(2)};
}
Tensors classify(torch::nn::Module& module, const Tensors& inputs) {
  return and_the_rest(static_cast<Dense&>(module).forward(inputs.at(0)), inputs, 1);
}

// Returns the flow of a layer that reads the first of `taken` tensors, computes one from it, and passes on all from number `used` on.
TensorFlow flow_of(int taken, int used) {
  TensorFlow flow{std::vector<int>(static_cast<std::size_t>(taken), 0), {-1}};
  flow.reads[0] = 1;
  for (int i = used; i < taken; ++i) flow.passes.push_back(i);
  return flow;
}

Loss both_losses() {
  return Loss::custom("cross_entropy+mse", [](const Tensors& outputs, const at::Tensor& target) {
    return Loss::cross_entropy()(outputs, target) + at::mse_loss(outputs.at(1), outputs.at(2));
  });
}

void add_autoencoder(BuiltinChain& chain, std::int64_t width) {
  const auto part = [](const std::string& name, std::int64_t i, const char* kind) {
    const auto full = name + "." + std::to_string(i);
    return LayerText{full, {full}, kind, full};
  };
  for (std::int64_t i = 0; i < kSteps; ++i) {
    chain.add(part("encoder", i, "Convolution"),
              std::make_shared<Convolution>(i == 0 ? 3 : width << (i - 1), width << i, 3, 2, /*with_bias=*/true),
              i == 0 ? first_encode : encode, i == 0 ? flow_of(1, 0) : flow_of(2, 1));
  }
  for (std::int64_t i = 0; i < kSteps; ++i) {
    const std::int64_t in = width << (kSteps - 1 - i);
    const bool last = i + 1 == kSteps;
    chain.add(part("decoder", i, "TransposedConvolution"), std::make_shared<TransposedConvolution>(in, last ? 3 : in / 2),
              i == 0 ? first_decode
              : last ? last_decode
                     : decode,
              i == 0 ? flow_of(2, 0) : flow_of(3, 1));
  }
}

}  // namespace

Model make_encoder_decoder_classifier(const std::string& parameters, const std::string& input, Seed seed) {
  const std::string model = "encoder-decoder-classifier";
  const auto values = parse_parameters(model, parameters, {{"width", 32, 1, 1024}, {"hidden", 128, 1, 65536}, {"classes", 10, 2, 1000000}});
  const auto width = values.at("width");
  const auto hidden = values.at("hidden");
  const auto classes = values.at("classes");
  const auto w = static_cast<double>(width), h = static_cast<double>(hidden);
  // 3x3 convolutions in the encoder, 2x2 ones in the decoder; the classifier reads the widest features.
  check_size(model + ":" + parameters, 150 * w * w + 4 * w * h + h * static_cast<double>(classes));
  const std::int64_t multiple = std::int64_t{1} << kSteps;
  const auto sample = parse_images({.model = model, .side = 32, .least = multiple, .multiple = multiple}, input, classes);
  BuiltinChain chain(sample.inputs.front().type, seed);
  add_autoencoder(chain, width);
  chain.add({"classifier.0", {"classifier.0"}, "PoolLinear", "classifier.0"}, std::make_shared<Dense>(width << (kSteps - 1), hidden),
            first_classify, TensorFlow{{0, 1, 0}, {-1, 0, 2}});
  chain.add({"classifier.1", {"classifier.1"}, "Linear", "classifier.1"}, std::make_shared<Dense>(hidden, classes), classify,
            flow_of(3, 1));
  return {model, chain.take(), both_losses(), sample, kEncoderDecoderClassifierBatch};
}

}  // namespace mptune::profiler

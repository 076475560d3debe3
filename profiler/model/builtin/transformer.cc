#include <torch/nn.h>

#include <cmath>

#include "profiler/model/builtin/builtin.h"
#include "profiler/model/builtin/builtin_chain.h"
#include "profiler/model/builtin/primitives.h"

namespace mptune::profiler {
namespace {

constexpr int kTransformerBatch = 32;
constexpr double kTransformerDeviation = 0.02;
constexpr std::int64_t kMostTokens = 65536;

struct TransformerSizes {
  std::int64_t d, layers, heads, seq, vocab;
};

class Embedding final : public torch::nn::Cloneable<Embedding> {
 public:
  explicit Embedding(const TransformerSizes& sizes) : sizes_(sizes) { reset(); }
  void reset() override {
    token = register_module("token", std::make_shared<Table>(sizes_.vocab, sizes_.d));
    position = register_module("position", std::make_shared<Table>(sizes_.seq, sizes_.d));
  }
  void initialise(at::Generator& generator) {
    token->initialise(generator, kTransformerDeviation);
    position->initialise(generator, kTransformerDeviation);
  }
  at::Tensor forward(const at::Tensor& tokens) {
    return at::embedding(token->weight, tokens) + position->weight.narrow(0, 0, tokens.size(1));
  }

  std::shared_ptr<Table> token, position;

 private:
  TransformerSizes sizes_;
};

class Block final : public torch::nn::Cloneable<Block> {
 public:
  explicit Block(const TransformerSizes& sizes) : sizes_(sizes) { reset(); }
  void reset() override {
    const auto d = sizes_.d;
    norm1 = register_module("norm1", torch::nn::LayerNorm(torch::nn::LayerNormOptions({d})));
    qkv = register_module("qkv", std::make_shared<Dense>(d, 3 * d));
    projection = register_module("projection", std::make_shared<Dense>(d, d));
    norm2 = register_module("norm2", torch::nn::LayerNorm(torch::nn::LayerNormOptions({d})));
    expand = register_module("expand", std::make_shared<Dense>(d, 4 * d));
    contract = register_module("contract", std::make_shared<Dense>(4 * d, d));
  }
  void initialise(at::Generator& generator) {
    // As in GPT-2, outputs that are added to the residual stream 2 x layers times start smaller by the square root of that number.
    const double residual = kTransformerDeviation / std::sqrt(2.0 * static_cast<double>(sizes_.layers));
    qkv->initialise_normal(generator, kTransformerDeviation);
    projection->initialise_normal(generator, residual);
    expand->initialise_normal(generator, kTransformerDeviation);
    contract->initialise_normal(generator, residual);
  }
  at::Tensor forward(const at::Tensor& input) {
    const auto middle = input + projection->forward(attention(norm1->forward(input)));
    return middle + contract->forward(at::gelu(expand->forward(norm2->forward(middle))));
  }

  torch::nn::LayerNorm norm1{nullptr}, norm2{nullptr};
  std::shared_ptr<Dense> qkv, projection, expand, contract;

 private:
  at::Tensor attention(const at::Tensor& input) {
    const auto batch = input.size(0);
    const auto positions = input.size(1);
    const auto parts =
        qkv->forward(input).view({batch, positions, 3, sizes_.heads, sizes_.d / sizes_.heads}).permute({2, 0, 3, 1, 4}).unbind(0);
    const auto mixed = at::scaled_dot_product_attention(parts[0], parts[1], parts[2], {}, 0.0, /*is_causal=*/true);
    return mixed.transpose(1, 2).reshape({batch, positions, sizes_.d});
  }

  TransformerSizes sizes_;
};

class LanguageHead final : public torch::nn::Cloneable<LanguageHead> {
 public:
  explicit LanguageHead(const TransformerSizes& sizes) : sizes_(sizes) { reset(); }
  void reset() override {
    norm = register_module("norm", torch::nn::LayerNorm(torch::nn::LayerNormOptions({sizes_.d})));
    linear = register_module("linear", std::make_shared<Dense>(sizes_.d, sizes_.vocab, /*with_bias=*/false));
  }
  void initialise(at::Generator& generator) { linear->initialise_normal(generator, kTransformerDeviation); }
  at::Tensor forward(const at::Tensor& input) { return linear->forward(norm->forward(input)); }

  torch::nn::LayerNorm norm{nullptr};
  std::shared_ptr<Dense> linear;

 private:
  TransformerSizes sizes_;
};

void initialise_pieces(torch::nn::Module& module, at::Generator& generator) {
  if (auto* embedding = module.as<Embedding>())
    embedding->initialise(generator);
  else if (auto* block = module.as<Block>())
    block->initialise(generator);
  else if (auto* head = module.as<LanguageHead>())
    head->initialise(generator);
}

double parameter_count(const TransformerSizes& sizes) {
  const auto d = static_cast<double>(sizes.d);
  return static_cast<double>(sizes.layers) * (12 * d * d + 13 * d) +
         d * (2 * static_cast<double>(sizes.vocab) + static_cast<double>(sizes.seq));
}

TransformerSizes parse_transformer_sizes(const std::string& parameters, const std::string& input) {
  const auto values = parse_parameters(
      "transformer", parameters,
      {{"d", 256, 1, 16384}, {"layers", 8, 1, 1000}, {"heads", 8, 1, 256}, {"seq", 64, 1, kMostTokens}, {"vocab", 1000, 2, 1000000}});
  TransformerSizes sizes{values.at("d"), values.at("layers"), values.at("heads"), values.at("seq"), values.at("vocab")};
  const auto where = "transformer:" + parameters;
  check_heads(where, sizes.d, sizes.heads);
  sizes.seq = parse_tokens("transformer", parameters, input, sizes.seq, kMostTokens);
  check_size(where, parameter_count(sizes));
  return sizes;
}

}  // namespace

Model make_transformer(const std::string& parameters, const std::string& input, Seed seed) {
  const auto sizes = parse_transformer_sizes(parameters, input);
  BuiltinChain chain(at::kFloat, seed, initialise_pieces);
  chain.add({"embedding", {"embedding"}, "Embedding", "embedding"}, std::make_shared<Embedding>(sizes));
  for (std::int64_t i = 0; i < sizes.layers; ++i) {
    const auto name = "blocks." + std::to_string(i);
    chain.add({name, {name}, "TransformerBlock", name}, std::make_shared<Block>(sizes));
  }
  chain.add({"head", {"head"}, "Head", "head"}, std::make_shared<LanguageHead>(sizes));
  const SampleDescription sample{.inputs = {{.shape = {sizes.seq}, .type = at::kLong, .classes = sizes.vocab}},
                                 .target = {.shape = {sizes.seq}, .type = at::kLong, .classes = sizes.vocab}};
  return {"transformer", chain.take(), Loss::cross_entropy(), sample, kTransformerBatch};
}

}  // namespace mptune::profiler

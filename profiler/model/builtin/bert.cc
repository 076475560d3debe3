#include <torch/nn.h>

#include <utility>

#include "profiler/model/builtin/builtin.h"
#include "profiler/model/builtin/builtin_chain.h"
#include "profiler/model/builtin/primitives.h"

// The BERT encoder (Devlin et al. 2019) with a classifier of sequences, with the module names of Hugging Face's
// BertForSequenceClassification.
namespace mptune::profiler {
namespace {

constexpr int kBertBatch = 32;
constexpr double kBertDeviation = 0.02;
constexpr double kEpsilon = 1e-12;
constexpr std::int64_t kPositions = 512;
constexpr std::int64_t kTokenTypes = 2;
constexpr std::int64_t kPadding = 0;  // token that pads short sequences

struct BertSizes {
  std::int64_t d, layers, heads, seq, vocab, classes;
  double dropout;
};

torch::nn::LayerNorm norm_over(std::int64_t d) {
  return torch::nn::LayerNorm(torch::nn::LayerNormOptions({d}).eps(kEpsilon));
}

class Embeddings final : public torch::nn::Cloneable<Embeddings> {
 public:
  explicit Embeddings(const BertSizes& sizes) : sizes_(sizes) { reset(); }
  void reset() override {
    word = register_module("word_embeddings", std::make_shared<Table>(sizes_.vocab, sizes_.d));
    position = register_module("position_embeddings", std::make_shared<Table>(kPositions, sizes_.d));
    token_type = register_module("token_type_embeddings", std::make_shared<Table>(kTokenTypes, sizes_.d));
    norm = register_module("LayerNorm", norm_over(sizes_.d));
  }
  // Returns the embedded tokens and the padding mask. The first token is never masked: the classifier reads it.
  Tensors forward(const at::Tensor& tokens) {
    auto seen = tokens.ne(kPadding);
    seen.select(1, 0).fill_(true);
    const auto embedded = at::embedding(word->weight, tokens, kPadding) + token_type->weight[0];
    return {at::dropout(norm->forward(embedded + position->weight.narrow(0, 0, tokens.size(1))), sizes_.dropout, true), seen};
  }

  std::shared_ptr<Table> word, position, token_type;
  torch::nn::LayerNorm norm{nullptr};

 private:
  BertSizes sizes_;
};

class SelfAttention final : public torch::nn::Cloneable<SelfAttention> {
 public:
  explicit SelfAttention(const BertSizes& sizes) : sizes_(sizes) { reset(); }
  void reset() override {
    query = register_module("query", std::make_shared<Dense>(sizes_.d, sizes_.d));
    key = register_module("key", std::make_shared<Dense>(sizes_.d, sizes_.d));
    value = register_module("value", std::make_shared<Dense>(sizes_.d, sizes_.d));
  }
  at::Tensor forward(const at::Tensor& input, const at::Tensor& seen) {
    const auto batch = input.size(0);
    const auto positions = input.size(1);
    const auto by_head = [&](Dense& part) {
      return part.forward(input).view({batch, positions, sizes_.heads, sizes_.d / sizes_.heads}).transpose(1, 2);
    };
    const auto mixed = at::scaled_dot_product_attention(by_head(*query), by_head(*key), by_head(*value),
                                                        seen.view({batch, 1, 1, positions}), sizes_.dropout);
    return mixed.transpose(1, 2).reshape({batch, positions, sizes_.d});
  }

  std::shared_ptr<Dense> query, key, value;

 private:
  BertSizes sizes_;
};

// Linear layer, dropout, addition to the residual stream, layer norm.
class Residual final : public torch::nn::Cloneable<Residual> {
 public:
  Residual(std::int64_t in, const BertSizes& sizes) : in_(in), sizes_(sizes) { reset(); }
  void reset() override {
    dense = register_module("dense", std::make_shared<Dense>(in_, sizes_.d));
    norm = register_module("LayerNorm", norm_over(sizes_.d));
  }
  at::Tensor forward(const at::Tensor& input, const at::Tensor& stream) {
    return norm->forward(at::dropout(dense->forward(input), sizes_.dropout, true) + stream);
  }

  std::shared_ptr<Dense> dense;
  torch::nn::LayerNorm norm{nullptr};

 private:
  std::int64_t in_;
  BertSizes sizes_;
};

class Attention final : public torch::nn::Cloneable<Attention> {
 public:
  explicit Attention(const BertSizes& sizes) : sizes_(sizes) { reset(); }
  void reset() override {
    self = register_module("self", std::make_shared<SelfAttention>(sizes_));
    output = register_module("output", std::make_shared<Residual>(sizes_.d, sizes_));
  }
  at::Tensor forward(const at::Tensor& input, const at::Tensor& seen) { return output->forward(self->forward(input, seen), input); }

  std::shared_ptr<SelfAttention> self;
  std::shared_ptr<Residual> output;

 private:
  BertSizes sizes_;
};

class Intermediate final : public torch::nn::Cloneable<Intermediate> {
 public:
  explicit Intermediate(const BertSizes& sizes) : sizes_(sizes) { reset(); }
  void reset() override { dense = register_module("dense", std::make_shared<Dense>(sizes_.d, 4 * sizes_.d)); }
  at::Tensor forward(const at::Tensor& input) { return at::gelu(dense->forward(input)); }

  std::shared_ptr<Dense> dense;

 private:
  BertSizes sizes_;
};

class EncoderLayer final : public torch::nn::Cloneable<EncoderLayer> {
 public:
  explicit EncoderLayer(const BertSizes& sizes) : sizes_(sizes) { reset(); }
  void reset() override {
    attention = register_module("attention", std::make_shared<Attention>(sizes_));
    intermediate = register_module("intermediate", std::make_shared<Intermediate>(sizes_));
    output = register_module("output", std::make_shared<Residual>(4 * sizes_.d, sizes_));
  }
  at::Tensor forward(const at::Tensor& input, const at::Tensor& seen) {
    const auto attended = attention->forward(input, seen);
    return output->forward(intermediate->forward(attended), attended);
  }

  std::shared_ptr<Attention> attention;
  std::shared_ptr<Intermediate> intermediate;
  std::shared_ptr<Residual> output;

 private:
  BertSizes sizes_;
};

void initialise_bert(torch::nn::Module& root, at::Generator& generator) {
  for (const auto& module : root.modules())
    if (auto* dense = module->as<Dense>())
      dense->initialise_normal(generator, kBertDeviation);
    else if (auto* table = module->as<Table>())
      table->initialise(generator, kBertDeviation);
}

double parameter_count(const BertSizes& sizes) {
  const auto d = static_cast<double>(sizes.d);
  return static_cast<double>(sizes.layers) * 12 * d * d + d * d + d * static_cast<double>(sizes.vocab + kPositions + sizes.classes);
}

BertSizes parse_bert_sizes(const std::string& parameters, const std::string& input) {
  const auto values = parse_parameters("bert", parameters,
                                       {{"d", 768, 1, 16384},
                                        {"layers", 12, 1, 1000},
                                        {"heads", 12, 1, 256},
                                        {"seq", 128, 1, kPositions},
                                        {"vocab", 30522, 2, 1000000},
                                        {"classes", 2, 2, 1000000},
                                        {"dropout", 10, 0, 99}});
  BertSizes sizes{values.at("d"),
                  values.at("layers"),
                  values.at("heads"),
                  values.at("seq"),
                  values.at("vocab"),
                  values.at("classes"),
                  static_cast<double>(values.at("dropout")) / 100};
  check_heads("bert:" + parameters, sizes.d, sizes.heads);
  sizes.seq = parse_tokens("bert", parameters, input, sizes.seq, kPositions);
  check_size("bert:" + parameters, parameter_count(sizes));
  return sizes;
}

}  // namespace

Model make_bert(const std::string& parameters, const std::string& input, Seed seed) {
  const auto sizes = parse_bert_sizes(parameters, input);
  BuiltinChain chain(at::kFloat, seed, initialise_bert);
  chain.add({"bert.embeddings", {"bert.embeddings"}, "BertEmbeddings", "bert.embeddings"}, std::make_shared<Embeddings>(sizes),
            [](torch::nn::Module& module, const Tensors& inputs) { return static_cast<Embeddings&>(module).forward(inputs.at(0)); });
  for (std::int64_t i = 0; i < sizes.layers; ++i) {
    const auto name = "bert.encoder.layer." + std::to_string(i);
    const bool last = i + 1 == sizes.layers;
    chain.add(
        {name, {name}, "BertLayer", name}, std::make_shared<EncoderLayer>(sizes),
        [last](torch::nn::Module& module, const Tensors& inputs) {
          auto output = static_cast<EncoderLayer&>(module).forward(inputs.at(0), inputs.at(1));
          return last ? Tensors{std::move(output)} : Tensors{std::move(output), inputs[1]};
        },
        TensorFlow{{TensorFlow::kSeveral, 1}, last ? std::vector<int>{-1} : std::vector<int>{-1, 1}});
  }
  chain.add({"bert.pooler", {"bert.pooler"}, "BertPooler", "bert.pooler.dense"}, std::make_shared<Dense>(sizes.d, sizes.d),
            [](torch::nn::Module& module, const Tensors& inputs) {
              return Tensors{static_cast<Dense&>(module).forward(inputs.at(0).select(1, 0)).tanh()};
            });
  chain.add({"classifier", {"dropout", "classifier"}, "Classifier", "classifier"}, std::make_shared<Dense>(sizes.d, sizes.classes),
            [dropout = sizes.dropout](torch::nn::Module& module, const Tensors& inputs) {
              return Tensors{static_cast<Dense&>(module).forward(at::dropout(inputs.at(0), dropout, true))};
            });
  const SampleDescription sample{.inputs = {{.shape = {sizes.seq}, .type = at::kLong, .classes = sizes.vocab}},
                                 .target = {.type = at::kLong, .classes = sizes.classes}};
  return {"bert", chain.take(), Loss::cross_entropy(), sample, kBertBatch};
}

}  // namespace mptune::profiler

#include "profiler/model/random/attention_in_blocks.h"

#include <ATen/ATen.h>
#include <ATen/core/ivalue.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/custom_class.h>

#include <algorithm>
#include <limits>
#include <utility>

namespace mptune::profiler {
namespace {

struct Attention : torch::CustomClassHolder {
  Attention(AttentionBlocks given, std::optional<at::Tensor> added) : blocks(std::move(given)), mask(std::move(added)) {}

  AttentionBlocks blocks;
  std::optional<at::Tensor> mask;
};

/// One block of queries.
struct Block {
  std::int64_t index, first, count;
  at::Tensor query;
};

template <class Work>
void for_blocks(const Attention& attention, const at::Tensor& query, const Work& work) {
  const std::int64_t queries = query.size(-2);
  for (std::int64_t index = 0, first = 0; first < queries; ++index, first += attention.blocks.queries) {
    const std::int64_t count = std::min(attention.blocks.queries, queries - first);
    work(Block{index, first, count, query.narrow(-2, first, count)});
  }
}

/// Returns how much each query of the block attends to each key, before dropout.
at::Tensor weights_of(const Attention& attention, const Block& block, const at::Tensor& key) {
  at::Tensor scores = at::matmul(block.query * attention.blocks.scale, key.transpose(-2, -1));
  if (attention.blocks.is_causal) {
    const at::Tensor last = at::arange(block.first, block.first + block.count, key.options().dtype(at::kLong));
    const at::Tensor later = at::arange(key.size(-2), last.options()).unsqueeze(0) > last.unsqueeze(1);
    scores.masked_fill_(later, -std::numeric_limits<double>::infinity());
  }
  if (attention.mask) {
    const bool per_query = attention.mask->dim() > 1 && attention.mask->size(-2) > 1;
    scores = scores + (per_query ? attention.mask->narrow(-2, block.first, block.count) : *attention.mask);
  }
  return at::_safe_softmax(scores, -1);
}

struct InBlocks : torch::autograd::Function<InBlocks> {
  using Context = torch::autograd::AutogradContext;

  static at::Tensor forward(Context* context, const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                            const c10::intrusive_ptr<Attention>& attention) {
    context->save_for_backward({query, key, value});
    context->saved_data["attention"] = c10::IValue::make_capsule(attention);
    std::vector<at::Tensor> outputs;
    for_blocks(*attention, query, [&](const Block& block) {
      const at::Tensor weights = weights_of(*attention, block, key);
      outputs.push_back(at::matmul(weights * attention->blocks.multiplier(block.index, weights.sizes()), value));
    });
    return at::cat(outputs, -2);
  }

  static torch::autograd::variable_list backward(Context* context, torch::autograd::variable_list gradients) {
    const auto saved = context->get_saved_variables();
    const at::Tensor &query = saved[0], &key = saved[1], &value = saved[2];
    const auto& attention = static_cast<const Attention&>(*context->saved_data.at("attention").toCapsule());
    at::Tensor of_key = at::zeros_like(key), of_value = at::zeros_like(value);
    std::vector<at::Tensor> of_query;
    for_blocks(attention, query, [&](const Block& block) {
      const at::Tensor gradient = gradients[0].narrow(-2, block.first, block.count);
      const at::Tensor weights = weights_of(attention, block, key);
      const at::Tensor multiplier = attention.blocks.multiplier(block.index, weights.sizes());
      of_value.add_(at::matmul((weights * multiplier).transpose(-2, -1), gradient));
      const at::Tensor of_weights = at::matmul(gradient, value.transpose(-2, -1)).mul_(multiplier);
      const at::Tensor of_scores = weights * (of_weights - (of_weights * weights).sum(-1, /*keepdim=*/true)) * attention.blocks.scale;
      of_query.push_back(at::matmul(of_scores, key));
      of_key.add_(at::matmul(of_scores.transpose(-2, -1), block.query));
    });
    return {at::cat(of_query, -2), of_key, of_value, at::Tensor()};
  }
};

}  // namespace

at::Tensor attention_in_blocks(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                               const std::optional<at::Tensor>& mask, const AttentionBlocks& blocks) {
  return InBlocks::apply(query, key, value, c10::make_intrusive<Attention>(blocks, mask));
}

}  // namespace mptune::profiler

// The truth: attention with a number for every query and key, and the same mask.
#include "profiler/model/random/attention_in_blocks.h"

#include <ATen/ATen.h>
#include <ATen/ops/_scaled_dot_product_attention_math.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include <algorithm>
#include <functional>
#include <limits>
#include <optional>

#include "profiler/model/layers/model.h"
#include "profiler/model/random/hashed_numbers.h"
#include "profiler/model/random/randomness.h"

namespace mptune::profiler {
namespace {

constexpr double kKeep = 0.7;

at::Tensor wave(at::IntArrayRef sizes, double shift) {
  return (at::arange(c10::multiply_integers(sizes), at::kDouble) * 0.73 + shift).sin().view(sizes).requires_grad_();
}

at::Tensor block_mask(std::int64_t block, at::IntArrayRef sizes) {
  return hashed_mask({static_cast<std::uint64_t>(block), 0, sizes[0]}, kKeep, sizes, at::kDouble);
}

struct Results {
  at::Tensor output;
  torch::autograd::variable_list gradients;
};
Results results_of(const std::function<at::Tensor(const Tensors&)>& attend, const Tensors& inputs) {
  const at::Tensor output = attend(inputs);
  return {output, torch::autograd::grad({output}, inputs, {at::cos(output.detach() * 3)})};
}

void expect_attention(const AttentionBlocks& asked, const std::optional<at::Tensor>& mask, std::int64_t queries, std::int64_t keys) {
  const Tensors inputs{wave({2, 3, queries, 4}, 0), wave({2, 3, keys, 4}, 1), wave({2, 3, keys, 5}, 2)};
  AttentionBlocks blocks = asked;
  std::int64_t most = 0;
  blocks.multiplier = [&](std::int64_t block, at::IntArrayRef sizes) {
    most = std::max(most, sizes[2]);
    return block_mask(block, sizes) / kKeep;
  };
  const Results ours = results_of([&](const Tensors& of) { return attention_in_blocks(of[0], of[1], of[2], mask, blocks); }, inputs);
  EXPECT_EQ(most, std::min(asked.queries, queries));
  Tensors kept;
  for (std::int64_t first = 0; first < queries; first += asked.queries)
    kept.push_back(block_mask(first / asked.queries, {2, 3, std::min(asked.queries, queries - first), keys}));
  const at::Tensor dropout = at::cat(kept, 2).to(at::kBool);
  const auto whole = [&](const Tensors& of) {
    return std::get<0>(at::_scaled_dot_product_attention_math(of[0], of[1], of[2], mask, 1 - kKeep, asked.is_causal, dropout, asked.scale));
  };
  const Results theirs = results_of(whole, inputs);
  EXPECT_TRUE(at::allclose(ours.output, theirs.output, 1e-12, 1e-12));
  for (std::size_t i = 0; i < inputs.size(); ++i) EXPECT_TRUE(at::allclose(ours.gradients[i], theirs.gradients[i], 1e-11, 1e-11)) << i;
}

TEST(AttentionInBlocks, EqualsAttentionWithTheSameMask) {
  for (const std::int64_t queries : {1, 3, 7, 9}) {
    expect_attention({queries, 0.5, false, {}}, {}, 7, 7);
    expect_attention({queries, 0.3, true, {}}, {}, 7, 7);
    expect_attention({queries, 0.5, false, {}}, {}, 7, 4);
    expect_attention({queries, 0.5, true, {}}, {}, 5, 8);
  }
}

TEST(AttentionInBlocks, AddsAMaskThatHidesKeysAndWholeQueries) {
  constexpr double kHidden = -std::numeric_limits<double>::infinity();
  at::Tensor per_query = at::zeros({2, 1, 7, 7}, at::kDouble);
  per_query.select(3, 2).fill_(kHidden);
  per_query.select(2, 4).fill_(kHidden);
  per_query.select(2, 1).fill_(0.5);
  expect_attention({3, 0.5, false, {}}, per_query, 7, 7);
  at::Tensor per_key = at::zeros({2, 1, 1, 7}, at::kDouble);
  per_key.select(3, 6).fill_(kHidden);
  expect_attention({3, 0.5, false, {}}, per_key, 7, 7);
  expect_attention({2, 0.5, false, {}}, at::zeros({7}, at::kDouble), 7, 7);
}

// A sample has so many weights that they are not computed at once.
constexpr std::int64_t kManyQueries = 2050;

at::Tensor attended(std::int64_t first, std::int64_t samples, const at::Tensor& input, at::Tensor* gradient) {
  const at::Tensor leaf = input.narrow(0, first, samples).detach().requires_grad_();
  at::Tensor output;
  {
    DrawScope scope({.seed = 1, .step = 0, .layer = 2, .name = "layer", .first_sample = first, .samples = samples});
    const at::Tensor heads = leaf.unsqueeze(1);
    output = at::scaled_dot_product_attention(heads, heads, heads, {}, 0.3);
  }
  *gradient = torch::autograd::grad({output}, {leaf}, {at::ones_like(output)})[0];
  return output.detach();
}

TEST(AttentionInBlocks, LongSequencesDrawBySamplesInForwardAndBackward) {
  const at::Tensor input = wave({2, kManyQueries, 4}, 0).detach().to(at::kFloat);
  at::Tensor whole_gradient, part_gradient, again_gradient;
  const at::Tensor whole = attended(0, 2, input, &whole_gradient), part = attended(1, 1, input, &part_gradient);
  EXPECT_TRUE(at::allclose(part, whole.narrow(0, 1, 1), 1e-5, 1e-6));
  EXPECT_TRUE(at::allclose(part_gradient, whole_gradient.narrow(0, 1, 1), 1e-5, 1e-5));
  EXPECT_TRUE(at::equal(attended(1, 1, input, &again_gradient), part)) << "recomputation";
  EXPECT_TRUE(at::equal(again_gradient, part_gradient));
}

}  // namespace
}  // namespace mptune::profiler

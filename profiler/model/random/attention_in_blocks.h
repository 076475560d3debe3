#pragma once

#include <cstdint>
#include <functional>
#include <optional>

#include <torch/types.h>

namespace mptune::profiler {

/// How attention with dropout goes through its queries.
struct AttentionBlocks {
  /// Returns what block `block` multiplies its weights by: 0 or 1 / keep, of shape `sizes`. The same at every call, in any thread.
  using Multiplier = std::function<at::Tensor(std::int64_t block, at::IntArrayRef sizes)>;

  std::int64_t queries = 1;  ///< in a block
  double scale = 1;
  bool is_causal = false;  ///< query i attends to keys 0 .. i
  Multiplier multiplier;
};

/// Computes attention of (.., queries, width) to (.., keys, width) by blocks of queries: no tensor has a number for every query and key.
/// The backward computes the weights of each block again. `mask`, if any, is added to the weights' logarithms; it gets no gradient.
[[nodiscard]] at::Tensor attention_in_blocks(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                                             const std::optional<at::Tensor>& mask, const AttentionBlocks& blocks);

}  // namespace mptune::profiler

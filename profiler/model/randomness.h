#pragma once

#include <cstdint>
#include <exception>
#include <string>

#include <torch/types.h>

namespace mptune {

/// Random masks that do not depend on the partition. While a DrawScope lives, what its thread draws through aten::bernoulli_.float
/// without a generator (dropout of every kind, dropout within scaled_dot_product_attention, stochastic depth) is a function of (seed, step,
/// layer, call within the layer's forward, sample of the global batch, element within the sample) alone: a counter-based hash, equal on all
/// devices. Row r of k x samples rows belongs to sample r / k. Outside a scope LibTorch draws as ever.
/// Other sources of randomness (rand, normal_, multinomial) are not covered; dropout between the layers of an LSTM, GRU or RNN is refused.
class DrawScope {
 public:
  struct Place {
    std::uint64_t seed = 0;
    std::int64_t step = 0;
    int layer = 0;
    std::string name;  ///< of the layer, for errors
    std::int64_t first_sample = 0;
    std::int64_t samples = 1;  ///< at least 1
  };

  /// The first one of the process overrides the operators (process-wide, thread-safe). Draws inside throw Error where the first dimension
  /// of what is drawn is no multiple of the samples.
  explicit DrawScope(Place place);
  ~DrawScope();
  DrawScope(const DrawScope&) = delete;
  DrawScope& operator=(const DrawScope&) = delete;

  /// The layer's forward begins again: so do its draws. Inline, so that a plug-in's copy of this code reaches the scope of its host.
  void restart() { calls_ = 0; }

  /// Throws the Error that a draw ended in, if one did: what runs operators for others (TorchScript) makes another exception of it.
  void rethrow_refusal() const {
    if (refusal_) std::rethrow_exception(refusal_);
  }

 private:
  friend struct Draws;
  Place place_;
  std::uint64_t calls_ = 0;
  std::exception_ptr refusal_;
  DrawScope* outer_;
};

/// Ones with probability `keep`, zeros elsewhere, of shape `sizes`: `samples` equal parts in order, part i drawn by (key, first_sample + i)
/// and the position within it. By a loop on CPU, by tensor operations on other devices: the same numbers.
[[nodiscard]] at::Tensor hashed_mask(std::uint64_t key, std::int64_t first_sample, std::int64_t samples, double keep, at::IntArrayRef sizes,
                                     const at::TensorOptions& options);

namespace detail {
/// The tensor operations behind hashed_mask.
[[nodiscard]] at::Tensor hashed_mask_by_operations(std::uint64_t key, std::int64_t first_sample, std::int64_t samples, double keep,
                                                   at::IntArrayRef sizes, const at::TensorOptions& options);
}  // namespace detail

}  // namespace mptune

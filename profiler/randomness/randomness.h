#pragma once

#include <cstdint>
#include <exception>
#include <string>

#include "mptune/profiler/program/sample_axes.h"

namespace mptune {

/// Random numbers that do not depend on the partition. While a DrawScope lives, what its thread draws without a generator is a function of
/// (seed, step, layer, call within the layer's forward, sample of the global batch, element within the sample) alone: a counter-based hash,
/// equal on all devices (normal and exponential numbers up to rounding). Covered: bernoulli in all its forms, uniform_, rand, rand_like,
/// normal_ with two numbers, randn, randn_like, exponential_, and what is made of them (dropout of every kind, dropout within
/// scaled_dot_product_attention, stochastic depth). Row r of k x samples rows belongs to sample r / k. Outside a scope LibTorch draws as
/// ever. Other sources of randomness (randint, randperm, multinomial, rrelu) are not covered; dropout between the layers of an LSTM, GRU or
/// RNN is refused.
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
  /// of what is drawn is no multiple of the samples, or what at_node said does not hold.
  explicit DrawScope(Place place);
  ~DrawScope();
  DrawScope(const DrawScope&) = delete;
  DrawScope& operator=(const DrawScope&) = delete;

  /// From here on the draws are those of node `node` of a program, whatever layer it has been cut into: it takes the place of layer and
  /// calls so far. `axis`: where the samples lie in what is drawn; numbers that belong to no sample are the same for all micro-batches.
  void at_node(std::int64_t node, const SampleAxis& axis);

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
  std::int64_t node_ = -1;  ///< -1 outside of programs
  SampleAxis axis_;
};

}  // namespace mptune

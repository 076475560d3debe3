#pragma once

#include <cstdint>
#include <exception>
#include <string>

#include "profiler/model/program/sample_axes.h"

namespace mptune::profiler {

/// Random numbers that do not depend on the partition. During its lifetime, random numbers that its thread draws without a generator are
/// a counter-based hash of (seed, step, layer, call in the layer's forward, sample of the global batch, element of the sample).
/// They are equal on all devices, normal and exponential numbers up to rounding. Outside of a scope LibTorch draws its own numbers.
/// - Covered: bernoulli in all forms, uniform_, rand, rand_like, normal_ with two numbers, randn, randn_like, exponential_, and operators
///   that use them (every dropout, scaled_dot_product_attention, stochastic depth).
/// - Refused: dropout between the layers of an LSTM, GRU or RNN. These compute the same bits with gradients off as on.
/// - Not covered: randint, randperm, multinomial, rrelu.
/// Row r of k x samples rows belongs to sample r / k.
class DrawScope {
 public:
  struct Place {
    std::uint64_t seed = 0;
    std::int64_t step = 0;
    int layer = 0;
    std::string name;  ///< of the layer, for errors
    std::int64_t first_sample = 0;
    std::int64_t samples = 1;  ///< at least 1
    bool evaluating = false;   ///< dropout of all kinds leaves its input as it is
  };

  /// The first scope of the process overrides the operators (process-wide, thread-safe). Draws throw Error if the first dimension is not a
  /// multiple of the samples, or if the shape contradicts at_node().
  explicit DrawScope(Place place);
  ~DrawScope();
  DrawScope(const DrawScope&) = delete;
  DrawScope& operator=(const DrawScope&) = delete;

  /// Later draws belong to node `node` of a program: it replaces layer and call in the hash, so that cuts do not matter.
  /// `axis`: sample axis of the numbers. Numbers without samples are the same for all micro-batches.
  void at_node(std::int64_t node, const SampleAxis& axis);

  /// Repeats the random numbers from the start of the layer's forward. Inline, so that a plug-in's copy of this code reaches its host's
  /// scope.
  void restart() { calls_ = 0; }

  /// Returns the name of the layer.
  [[nodiscard]] const std::string& layer() const { return place_.name; }

  /// Rethrows the Error of a failed draw, if any: TorchScript's interpreter would replace it by another exception.
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

}  // namespace mptune::profiler

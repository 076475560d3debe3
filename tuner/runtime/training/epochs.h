#pragma once

#include <cstdint>

#include <torch/types.h>

namespace mptune {

/// Says which samples each step of a training takes. Every epoch takes all of them, in an order of its own. The samples depend on the step
/// alone, so that a resumed training goes on with the samples that it would have had. Samples that fit into one batch keep their order.
/// Use it from one thread at a time, as it keeps the order of the last epoch that was asked for.
class Epochs {
 public:
  /// `batch` samples per step; the last step of an epoch has the rest, or is left out with `drop_last`.
  /// Requires: 1 <= batch <= samples.
  Epochs(std::int64_t samples, std::int64_t batch, std::uint64_t seed, bool drop_last);

  [[nodiscard]] std::int64_t steps_per_epoch() const { return steps_; }
  [[nodiscard]] std::int64_t epoch_of(std::int64_t step) const { return step / steps_; }
  [[nodiscard]] bool ends_epoch(std::int64_t step) const { return (step + 1) % steps_ == 0; }
  /// Returns the indices of the step's samples.
  [[nodiscard]] at::Tensor indices_of(std::int64_t step) const;

 private:
  std::int64_t samples_, batch_, steps_;
  std::uint64_t seed_;
  mutable std::int64_t ordered_ = -1;  ///< the epoch whose order is in order_
  mutable at::Tensor order_;
};

/// Returns the indices of `samples` samples in an order that depends on `seed` and `stream` alone.
[[nodiscard]] at::Tensor shuffled(std::int64_t samples, std::uint64_t seed, std::uint64_t stream);

}  // namespace mptune

#pragma once

#include <cstdint>

#include <torch/types.h>

/// Random numbers from a counter-based hash (SplitMix64's output function) of a key, a sample and a position within the sample.
/// Computed by a loop on CPU and by tensor operations on other devices, with the same results.
namespace mptune::profiler {

/// Derives a key from `key` and `part`.
[[nodiscard]] std::uint64_t hashed_key(std::uint64_t key, std::uint64_t part);

/// A tensor of shape `sizes` with ones (probability `keep`) and zeros. It consists of `samples` equal parts; part i depends on
/// (key, first_sample + i) and the position in it. Requires: the number of elements is a multiple of `samples`.
[[nodiscard]] at::Tensor hashed_mask(std::uint64_t key, std::int64_t first_sample, std::int64_t samples, double keep, at::IntArrayRef sizes,
                                     const at::TensorOptions& options);
/// The same, written into `mask`. Requires: contiguous, on CPU, floating-point or boolean.
void fill_hashed_mask(const at::Tensor& mask, std::uint64_t key, std::int64_t first_sample, std::int64_t samples, double keep);

/// float64 numbers, uniform over the multiples of 2^-digits in [0, 1), drawn likewise. `digits` is 1 to 53.
[[nodiscard]] at::Tensor hashed_uniform(std::uint64_t key, std::int64_t first_sample, std::int64_t samples, int digits,
                                        at::IntArrayRef sizes, const at::TensorOptions& options);

namespace detail {
/// The implementation by tensor operations.
[[nodiscard]] at::Tensor hashed_mask_by_operations(std::uint64_t key, std::int64_t first_sample, std::int64_t samples, double keep,
                                                   at::IntArrayRef sizes, const at::TensorOptions& options);
[[nodiscard]] at::Tensor hashed_uniform_by_operations(std::uint64_t key, std::int64_t first_sample, std::int64_t samples, int digits,
                                                      at::IntArrayRef sizes, const at::TensorOptions& options);
}  // namespace detail

}  // namespace mptune::profiler

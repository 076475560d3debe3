#pragma once

#include <cstdint>

#include <torch/types.h>

/// Random numbers by a counter-based hash (SplitMix64's output function): each is a function of a key, a sample and a position within it.
/// By a loop on CPU, by tensor operations on other devices: the same numbers.
namespace mptune {

/// The key that follows from `key` and `part`.
[[nodiscard]] std::uint64_t hashed_key(std::uint64_t key, std::uint64_t part);

/// Ones with probability `keep`, zeros elsewhere, of shape `sizes`: `samples` equal parts in order, part i drawn by (key, first_sample + i)
/// and the position within it. Requires: the number of elements a multiple of `samples`.
[[nodiscard]] at::Tensor hashed_mask(std::uint64_t key, std::int64_t first_sample, std::int64_t samples, double keep, at::IntArrayRef sizes,
                                     const at::TensorOptions& options);
/// The same written into `mask`: contiguous, on CPU, of a floating-point or boolean type.
void fill_hashed_mask(const at::Tensor& mask, std::uint64_t key, std::int64_t first_sample, std::int64_t samples, double keep);

/// Numbers of type float64, evenly distributed over the multiples of 2^-digits in [0, 1), drawn likewise. Digits: 1 to 53.
[[nodiscard]] at::Tensor hashed_uniform(std::uint64_t key, std::int64_t first_sample, std::int64_t samples, int digits,
                                        at::IntArrayRef sizes, const at::TensorOptions& options);

namespace detail {
/// The tensor operations behind them.
[[nodiscard]] at::Tensor hashed_mask_by_operations(std::uint64_t key, std::int64_t first_sample, std::int64_t samples, double keep,
                                                   at::IntArrayRef sizes, const at::TensorOptions& options);
[[nodiscard]] at::Tensor hashed_uniform_by_operations(std::uint64_t key, std::int64_t first_sample, std::int64_t samples, int digits,
                                                      at::IntArrayRef sizes, const at::TensorOptions& options);
}  // namespace detail

}  // namespace mptune

#pragma once

#include <cstdint>

#include <torch/types.h>

/// Random numbers from a counter-based hash (SplitMix64's output function) of a key, a sample and a position within the sample.
/// Computed by a loop on CPU and by one kernel on GPUs, with the same results.
namespace mptune::profiler {

/// Derives a key from `key` and `part`.
[[nodiscard]] std::uint64_t hashed_key(std::uint64_t key, std::uint64_t part);

/// Which numbers a tensor holds: those of samples first_sample .. first_sample + samples - 1, which each have equally many. A number
/// depends on the key, the sample and its position among the sample's numbers. The numbers of a sample are `runs` equal runs. In memory run
/// 0 of every sample comes first, then run 1 of every sample, and so on: with one run, sample after sample.
struct HashedDraw {
  std::uint64_t key = 0;
  std::int64_t first_sample = 0;
  std::int64_t samples = 1;
  std::int64_t runs = 1;
};

/// Returns a tensor of shape `sizes` with ones (probability `keep`) and zeros. Requires: the number of elements is a multiple of samples x
/// runs.
[[nodiscard]] at::Tensor hashed_mask(const HashedDraw& draw, double keep, at::IntArrayRef sizes, const at::TensorOptions& options);
/// Writes the same ones and zeros into `mask`. Requires: it is contiguous, floating-point or boolean.
void fill_hashed_mask(const at::Tensor& mask, const HashedDraw& draw, double keep);

/// Returns float64 numbers, uniform over the multiples of 2^-digits in [0, 1), drawn like the mask. `digits` is 1 to 53.
[[nodiscard]] at::Tensor hashed_uniform(const HashedDraw& draw, int digits, at::IntArrayRef sizes, const at::TensorOptions& options);

namespace detail {
/// Does the same by tensor operations: for GPUs on which the kernel can't be made because NVRTC is missing or refuses (said once on
/// stderr), or because no Device is a GPU and a layer put its tensors there.
[[nodiscard]] at::Tensor hashed_mask_by_operations(const HashedDraw& draw, double keep, at::IntArrayRef sizes,
                                                   const at::TensorOptions& options);
[[nodiscard]] at::Tensor hashed_uniform_by_operations(const HashedDraw& draw, int digits, at::IntArrayRef sizes,
                                                      const at::TensorOptions& options);
}  // namespace detail

}  // namespace mptune::profiler

#include "profiler/randomness/hashed_numbers.h"

#include <ATen/ATen.h>
#include <ATen/Dispatch.h>
#include <ATen/Parallel.h>

#include <algorithm>
#include <cmath>

namespace mptune::profiler {
namespace {

constexpr std::uint64_t kStride = 0x9e3779b97f4a7c15ULL;
constexpr std::uint64_t kFirst = 0xbf58476d1ce4e5b9ULL;
constexpr std::uint64_t kSecond = 0x94d049bb133111ebULL;

// The output function of SplitMix64 (Steele, Lea, Flood: Fast splittable pseudorandom number generators, 2014).
constexpr std::uint64_t mixed(std::uint64_t x) {
  x = (x ^ (x >> 30)) * kFirst;
  x = (x ^ (x >> 27)) * kSecond;
  return x ^ (x >> 31);
}

constexpr std::uint64_t sample_key(std::uint64_t key, std::int64_t sample) {
  return mixed(key ^ mixed(static_cast<std::uint64_t>(sample) + kStride));
}

// The upper half of a hash is below this value with probability `keep`.
std::uint64_t threshold(double keep) {
  return static_cast<std::uint64_t>(std::llround(std::clamp(keep, 0.0, 1.0) * 4294967296.0));
}

/// Sets element i to number(hash of element i); the tensor consists of `samples` equal parts.
template <class Value, class Number>
void fill(const at::Tensor& tensor, std::uint64_t key, std::int64_t first_sample, std::int64_t samples, const Number& number) {
  constexpr std::int64_t kGrain = 1 << 15;
  const std::int64_t part = tensor.numel() / samples;
  auto* values = tensor.mutable_data_ptr<Value>();
  at::parallel_for(0, tensor.numel(), kGrain, [&](std::int64_t first, std::int64_t last) {
    while (first < last) {
      const std::int64_t end = std::min(last, (first / part + 1) * part);
      std::uint64_t counter = sample_key(key, first_sample + first / part) + static_cast<std::uint64_t>(first % part) * kStride;
      for (; first < end; ++first, counter += kStride) values[first] = number(mixed(counter));
    }
  });
}

at::Scalar number(std::uint64_t bits) {
  return {static_cast<std::int64_t>(bits)};
}

at::Tensor shifted(const at::Tensor& x, int by) {
  return x.bitwise_right_shift(by).bitwise_and_(number(~std::uint64_t{0} >> by));
}

at::Tensor mixed(at::Tensor x) {
  x = x.bitwise_xor(shifted(x, 30)).mul_(number(kFirst));
  x = x.bitwise_xor(shifted(x, 27)).mul_(number(kSecond));
  return x.bitwise_xor(shifted(x, 31));
}

/// Hashes of all elements, by sample and position.
at::Tensor hashes(std::uint64_t key, std::int64_t first_sample, std::int64_t samples, at::IntArrayRef sizes,
                  const at::TensorOptions& options) {
  const std::int64_t part = c10::multiply_integers(sizes) / samples;
  const auto integers = options.dtype(at::kLong);
  const at::Tensor keys =
      mixed(mixed(at::arange(first_sample, first_sample + samples, integers).add_(number(kStride))).bitwise_xor_(number(key)));
  return mixed(keys.unsqueeze(1) + at::arange(part, integers).mul_(number(kStride)).unsqueeze(0)).view(sizes);
}

}  // namespace

std::uint64_t hashed_key(std::uint64_t key, std::uint64_t part) {
  return mixed(key ^ mixed(part + kStride));
}

void fill_hashed_mask(const at::Tensor& mask, std::uint64_t key, std::int64_t first_sample, std::int64_t samples, double keep) {
  const std::uint64_t below = threshold(keep);
  AT_DISPATCH_FLOATING_TYPES_AND3(at::kHalf, at::kBFloat16, at::kBool, mask.scalar_type(), "hashed_mask", [&] {
    fill<scalar_t>(mask, key, first_sample, samples, [=](std::uint64_t hash) { return hash >> 32 < below ? scalar_t(1) : scalar_t(0); });
  });
}

at::Tensor detail::hashed_mask_by_operations(std::uint64_t key, std::int64_t first_sample, std::int64_t samples, double keep,
                                             at::IntArrayRef sizes, const at::TensorOptions& options) {
  const at::NoGradGuard no_gradients;
  return shifted(hashes(key, first_sample, samples, sizes, options), 32).lt(number(threshold(keep))).to(options.dtype());
}

at::Tensor hashed_mask(std::uint64_t key, std::int64_t first_sample, std::int64_t samples, double keep, at::IntArrayRef sizes,
                       const at::TensorOptions& options) {
  if (!options.device().is_cpu()) return detail::hashed_mask_by_operations(key, first_sample, samples, keep, sizes, options);
  const bool direct = at::isFloatingType(options.dtype().toScalarType());
  const at::Tensor mask = at::empty(sizes, options.dtype(direct ? options.dtype().toScalarType() : at::kBool));
  fill_hashed_mask(mask, key, first_sample, samples, keep);
  return mask.to(options.dtype());
}

at::Tensor detail::hashed_uniform_by_operations(std::uint64_t key, std::int64_t first_sample, std::int64_t samples, int digits,
                                                at::IntArrayRef sizes, const at::TensorOptions& options) {
  const at::NoGradGuard no_gradients;
  return shifted(hashes(key, first_sample, samples, sizes, options), 64 - digits).to(at::kDouble).mul_(std::ldexp(1.0, -digits));
}

at::Tensor hashed_uniform(std::uint64_t key, std::int64_t first_sample, std::int64_t samples, int digits, at::IntArrayRef sizes,
                          const at::TensorOptions& options) {
  if (!options.device().is_cpu()) return detail::hashed_uniform_by_operations(key, first_sample, samples, digits, sizes, options);
  at::Tensor numbers = at::empty(sizes, options.dtype(at::kDouble));
  const double unit = std::ldexp(1.0, -digits);
  fill<double>(numbers, key, first_sample, samples, [=](std::uint64_t hash) { return static_cast<double>(hash >> (64 - digits)) * unit; });
  return numbers;
}

}  // namespace mptune::profiler

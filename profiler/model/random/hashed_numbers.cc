#include "profiler/model/random/hashed_numbers.h"

#include <ATen/ATen.h>
#include <ATen/Dispatch.h>
#include <ATen/Parallel.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <mutex>
#include <string>

#include "profiler/device/gpu_library.h"
#include "profiler/model/random/hash_kernels.h"
#include "profiler/model/random/hash_kernels_text.h"

namespace mptune::profiler {
namespace {

// The upper half of a hash is below this value with probability `keep`.
HashWord threshold(double keep) {
  return static_cast<HashWord>(std::llround(std::clamp(keep, 0.0, 1.0) * 4294967296.0));
}

HashedSamples samples_of(const at::Tensor& tensor, const HashedDraw& draw) {
  return {draw.key, static_cast<HashWord>(draw.first_sample), static_cast<HashWord>(draw.samples), static_cast<HashWord>(draw.runs),
          static_cast<HashWord>(tensor.numel() / (draw.samples * draw.runs))};
}

/// Sets element i to number(hash of element i), on CPU.
template <class Value, class Number>
void fill(const at::Tensor& tensor, const HashedSamples& all, const Number& number) {
  constexpr std::int64_t kGrain = 1 << 15;
  auto* values = tensor.mutable_data_ptr<Value>();
  at::parallel_for(0, tensor.numel(), kGrain, [&](std::int64_t begin, std::int64_t end) {
    const auto last = static_cast<HashWord>(end);
    for (auto first = static_cast<HashWord>(begin); first < last;) {
      const HashWord run = first / all.length, before = run * all.length, until = std::min(last, before + all.length);
      fill_run(values, all, run, first - before, until - before, 1, number);
      first = until;
    }
  });
}

constexpr HashWord in_parts(HashWord whole, HashWord part) {
  return (whole + part - 1) / part;
}

/// The threads of a kernel: a row of a block has at most 2048 numbers of a run, so that a thread finds the key of a sample for 8 numbers.
/// Short runs share a block.
void share_out(const HashedSamples& all, GpuLaunch& launch) {
  constexpr HashWord kThreads = 256, kNumbers = 8, kMostColumns = (HashWord{1} << 31) - 1, kMostRows = 65535;
  const HashWord width = std::bit_ceil(std::min(all.length, kThreads)), height = kThreads / width;
  const HashWord columns = in_parts(all.length, width * kNumbers), rows = in_parts(all.samples * all.runs, height);
  launch.threads = {static_cast<unsigned>(width), static_cast<unsigned>(height)};
  launch.blocks = {static_cast<unsigned>(std::min(columns, kMostColumns)), static_cast<unsigned>(std::min(rows, kMostRows))};
}

void warn_once(const std::string& problem) {
  static std::once_flag said;
  std::call_once(said, [&] {
    std::fprintf(stderr, "mptune: warning: random masks take many kernels each on GPUs instead of one: %s\n", problem.c_str());
  });
}

/// Fills a tensor on a GPU by one kernel, which takes a pointer to the elements, `all` and `number`. Returns false where there is no GPU or
/// no kernel.
template <class Number>
bool fill_by_kernel(const at::Tensor& tensor, HashedSamples all, const char* kernel, Number number) {
  const GpuLibrary* library = tensor.is_cuda() ? opened_gpu_library() : nullptr;
  if (library == nullptr) return false;
  if (tensor.numel() == 0) return true;
  void* values = tensor.mutable_data_ptr();
  std::array<void*, 3> arguments{&values, &all, &number};
  GpuLaunch launch{.code = kHashKernels, .kernel = kernel, .gpu = tensor.get_device(), .arguments = arguments.data()};
  share_out(all, launch);
  const std::string problem = library->launch(launch);
  if (!problem.empty()) warn_once(problem);
  return problem.empty();
}

/// Returns the bits of 1 in this type. Requires: floating-point or boolean.
HashWord bits_of_one(at::ScalarType type) {
  HashWord bits = 0;
  AT_DISPATCH_FLOATING_TYPES_AND3(at::kHalf, at::kBFloat16, at::kBool, type, "hashed_mask", [&] {
    const scalar_t one(1);
    std::memcpy(&bits, &one, sizeof one);
  });
  return bits;
}

bool fill_mask_by_kernel(const at::Tensor& mask, const HashedSamples& all, HashWord below) {
  const HashWord one = bits_of_one(mask.scalar_type());
  switch (mask.itemsize()) {
    case 1:
      return fill_by_kernel(mask, all, "mptune_mask_1", MaskNumber<std::uint8_t>{below, static_cast<std::uint8_t>(one)});
    case 2:
      return fill_by_kernel(mask, all, "mptune_mask_2", MaskNumber<std::uint16_t>{below, static_cast<std::uint16_t>(one)});
    case 4:
      return fill_by_kernel(mask, all, "mptune_mask_4", MaskNumber<std::uint32_t>{below, static_cast<std::uint32_t>(one)});
    default:
      return fill_by_kernel(mask, all, "mptune_mask_8", MaskNumber<HashWord>{below, one});
  }
}

at::Scalar number(std::uint64_t bits) {
  return {static_cast<std::int64_t>(bits)};
}

at::Tensor shifted(const at::Tensor& x, int by) {
  return x.bitwise_right_shift(by).bitwise_and_(number(~std::uint64_t{0} >> by));
}

at::Tensor mixed(at::Tensor x) {
  x = x.bitwise_xor(shifted(x, 30)).mul_(number(kHashFirst));
  x = x.bitwise_xor(shifted(x, 27)).mul_(number(kHashSecond));
  return x.bitwise_xor(shifted(x, 31));
}

/// Returns hashes of all elements.
at::Tensor hashes(const HashedDraw& draw, at::IntArrayRef sizes, const at::TensorOptions& options) {
  const std::int64_t numbers = c10::multiply_integers(sizes) / draw.samples;
  const auto integers = options.dtype(at::kLong);
  const at::Tensor samples = at::arange(draw.first_sample, draw.first_sample + draw.samples, integers).add_(number(kHashStride));
  const at::Tensor keys = mixed(mixed(samples).bitwise_xor_(number(draw.key)));
  const at::Tensor by_samples = mixed(keys.unsqueeze(1) + at::arange(numbers, integers).mul_(number(kHashStride)).unsqueeze(0));
  return by_samples.view({draw.samples, draw.runs, numbers / draw.runs}).transpose(0, 1).reshape(sizes);
}

}  // namespace

std::uint64_t hashed_key(std::uint64_t key, std::uint64_t part) {
  return key_of_part(key, part);
}

void fill_hashed_mask(const at::Tensor& mask, const HashedDraw& draw, double keep) {
  const HashWord below = threshold(keep);
  const HashedSamples all = samples_of(mask, draw);
  if (mask.is_cpu()) {
    AT_DISPATCH_FLOATING_TYPES_AND3(at::kHalf, at::kBFloat16, at::kBool, mask.scalar_type(), "hashed_mask", [&] {
      fill<scalar_t>(mask, all, MaskNumber<scalar_t>{below, scalar_t(1)});
    });
  } else if (mask.is_meta()) {
    mask.zero_();  // the time of one kernel, as on a GPU
  } else if (!fill_mask_by_kernel(mask, all, below)) {
    const at::NoGradGuard no_gradients;
    mask.copy_(detail::hashed_mask_by_operations(draw, keep, mask.sizes(), mask.options()));
  }
}

at::Tensor detail::hashed_mask_by_operations(const HashedDraw& draw, double keep, at::IntArrayRef sizes, const at::TensorOptions& options) {
  const at::NoGradGuard no_gradients;
  return shifted(hashes(draw, sizes, options), 32).lt(number(threshold(keep))).to(options.dtype());
}

at::Tensor hashed_mask(const HashedDraw& draw, double keep, at::IntArrayRef sizes, const at::TensorOptions& options) {
  const bool direct = at::isFloatingType(options.dtype().toScalarType());
  const at::Tensor mask = at::empty(sizes, options.dtype(direct ? options.dtype().toScalarType() : at::kBool));
  fill_hashed_mask(mask, draw, keep);
  return mask.to(options.dtype());
}

at::Tensor detail::hashed_uniform_by_operations(const HashedDraw& draw, int digits, at::IntArrayRef sizes,
                                                const at::TensorOptions& options) {
  const at::NoGradGuard no_gradients;
  return shifted(hashes(draw, sizes, options), 64 - digits).to(at::kDouble).mul_(std::ldexp(1.0, -digits));
}

at::Tensor hashed_uniform(const HashedDraw& draw, int digits, at::IntArrayRef sizes, const at::TensorOptions& options) {
  at::Tensor numbers = at::empty(sizes, options.dtype(at::kDouble));
  const HashedSamples all = samples_of(numbers, draw);
  const UniformNumber number{64 - digits, std::ldexp(1.0, -digits)};
  if (numbers.is_meta())
    numbers.zero_();
  else if (numbers.is_cpu())
    fill<double>(numbers, all, number);
  else if (!fill_by_kernel(numbers, all, "mptune_uniform", number))
    return detail::hashed_uniform_by_operations(draw, digits, sizes, options);
  return numbers;
}

}  // namespace mptune::profiler

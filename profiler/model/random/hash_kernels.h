#pragma once

/// Random numbers from a counter-based hash, for the CPU's compiler and, as text, for the compiler of GPU code (kHashKernels). For that
/// reason it includes nothing, and both compute the same bits.
namespace mptune::profiler {

using HashWord = unsigned long long;

inline constexpr HashWord kHashStride = 0x9e3779b97f4a7c15ULL;
inline constexpr HashWord kHashFirst = 0xbf58476d1ce4e5b9ULL;
inline constexpr HashWord kHashSecond = 0x94d049bb133111ebULL;

/// The output function of SplitMix64 (Steele, Lea, Flood: Fast splittable pseudorandom number generators, 2014).
constexpr HashWord mixed(HashWord x) {
  x = (x ^ (x >> 30)) * kHashFirst;
  x = (x ^ (x >> 27)) * kHashSecond;
  return x ^ (x >> 31);
}

/// Returns the key of part `part` of what `key` stands for.
constexpr HashWord key_of_part(HashWord key, HashWord part) {
  return mixed(key ^ mixed(part + kHashStride));
}

/// `one` if the upper half of the hash is below `below`, else 0.
template <class Value>
struct MaskNumber {
  HashWord below;
  Value one;
  constexpr Value operator()(HashWord hash) const { return hash >> 32 < below ? one : Value(0); }
};

/// The upper bits of the hash, times `unit`.
struct UniformNumber {
  int shift;
  double unit;
  constexpr double operator()(HashWord hash) const { return static_cast<double>(hash >> shift) * unit; }
};

/// The numbers of some samples. Each sample has `runs` runs of `length` numbers. In memory run 0 of every sample comes first, then run 1 of
/// every sample, and so on: with one run, sample after sample.
struct HashedSamples {
  HashWord key;
  HashWord first_sample;
  HashWord samples;
  HashWord runs;
  HashWord length;
};

/// Fills in numbers `first`, `first + step`, ... before `last` of the run that is number `run` in memory.
template <class Value, class Number>
constexpr void fill_run(Value* values, const HashedSamples& all, HashWord run, HashWord first, HashWord last, HashWord step,
                        Number number) {
  const HashWord sample = run % all.samples, before = run / all.samples * all.length;
  HashWord counter = key_of_part(all.key, all.first_sample + sample) + (before + first) * kHashStride;
  values += run * all.length;
  for (HashWord i = first; i < last; i += step, counter += step * kHashStride) values[i] = number(mixed(counter));
}

/// The work of one of `columns` x `rows` threads, which share all numbers: a row has every `rows`-th run, a column has every `columns`-th
/// number of it.
struct HashShare {
  HashWord column;
  HashWord columns;
  HashWord row;
  HashWord rows;
};
template <class Value, class Number>
constexpr void fill_share(Value* values, const HashedSamples& all, const HashShare& share, Number number) {
  for (HashWord run = share.row; run < all.samples * all.runs; run += share.rows)
    fill_run(values, all, run, share.column, all.length, share.columns, number);
}

#ifdef __CUDACC_RTC__
__device__ inline HashShare share_of_thread() {
  const HashWord width = blockDim.x, height = blockDim.y;
  return {blockIdx.x * width + threadIdx.x, gridDim.x * width, blockIdx.y * height + threadIdx.y, gridDim.y * height};
}

#define MPTUNE_MASK_KERNEL(name, Value)                                                         \
  extern "C" __global__ void name(Value* values, HashedSamples all, MaskNumber<Value> number) { \
    fill_share(values, all, share_of_thread(), number);                                         \
  }
// Kernels by the size of the elements, whatever their type: the CPU says what 1 looks like in that type.
MPTUNE_MASK_KERNEL(mptune_mask_1, unsigned char)
MPTUNE_MASK_KERNEL(mptune_mask_2, unsigned short)
MPTUNE_MASK_KERNEL(mptune_mask_4, unsigned int)
MPTUNE_MASK_KERNEL(mptune_mask_8, unsigned long long)

extern "C" __global__ void mptune_uniform(double* values, HashedSamples all, UniformNumber number) {
  fill_share(values, all, share_of_thread(), number);
}
#endif

}  // namespace mptune::profiler

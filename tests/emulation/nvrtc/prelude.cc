#include "prelude.h"

namespace emulation {

const char* const kPrelude = R"cuda(
#define __CUDACC__ 1
#define __CUDACC_RTC__ 1
#define __CUDACC_VER_MAJOR__ 13
#define __CUDACC_VER_MINOR__ 0
#define __device__
#define __host__
#define __constant__
#define __global__ emulated_kernel
#define __launch_bounds__(...)
#define __forceinline__ inline __attribute__((always_inline))
#define __noinline__ __attribute__((noinline))

struct uint3 { unsigned x, y, z; };
struct dim3 {
  unsigned x, y, z;
  constexpr dim3(unsigned width = 1, unsigned height = 1, unsigned depth = 1) : x(width), y(height), z(depth) {}
};
static thread_local uint3 threadIdx, blockIdx;
static thread_local dim3 blockDim, gridDim;
static constexpr int warpSize = 32;

namespace emulated_image {

struct Time { long seconds, nanoseconds; };
extern "C" int emulated_clock(int clock, Time* now) __asm__("clock_gettime");
extern "C" int emulated_sleep(const Time* duration, Time* rest) __asm__("nanosleep");
inline long long nanoseconds() {
  Time now;
  emulated_clock(1, &now);
  return now.seconds * 1000000000LL + now.nanoseconds;
}

using Run = void (*)(void**, const unsigned*, const unsigned*);
struct Entry { const char* name; Run run; unsigned parameters; const unsigned* bytes; };
struct Image { unsigned version, count; const Entry* kernels; };

template <unsigned... kIndex> struct Indices {};
template <unsigned kCount, unsigned... kIndex> struct Counted : Counted<kCount - 1, kCount - 1, kIndex...> {};
template <unsigned... kIndex> struct Counted<0, kIndex...> { using All = Indices<kIndex...>; };

template <auto kKernel> struct Runner;
template <class... Values, void (*kKernel)(Values...)> struct Runner<kKernel> {
  static constexpr unsigned bytes[] = {sizeof(Values)..., 0};
  template <unsigned... kIndex> static void call(void** arguments, Indices<kIndex...>) { kKernel(*static_cast<Values*>(arguments[kIndex])...); }
  static void run_block(void** arguments) {
    uint3& thread = threadIdx;
    for (thread.z = 0; thread.z < blockDim.z; ++thread.z)
      for (thread.y = 0; thread.y < blockDim.y; ++thread.y)
        for (thread.x = 0; thread.x < blockDim.x; ++thread.x) call(arguments, typename Counted<sizeof...(Values)>::All());
  }
  static void run(void** arguments, const unsigned* blocks, const unsigned* threads) {
    gridDim = dim3(blocks[0], blocks[1], blocks[2]);
    blockDim = dim3(threads[0], threads[1], threads[2]);
    uint3& block = blockIdx;
    for (block.z = 0; block.z < blocks[2]; ++block.z)
      for (block.y = 0; block.y < blocks[1]; ++block.y)
        for (block.x = 0; block.x < blocks[0]; ++block.x) run_block(arguments);
  }
  static constexpr Entry entry(const char* name) { return {name, &run, sizeof...(Values), bytes}; }
};

constexpr unsigned kMost = 256;
inline Entry kernels[kMost];
extern "C" __attribute__((visibility("default"))) Image emulated_kernel_image;
struct Registration {
  explicit Registration(const Entry& entry) {
    if (emulated_kernel_image.count == kMost) __builtin_trap();
    kernels[emulated_kernel_image.count++] = entry;
  }
};
Image emulated_kernel_image = {1, 0, kernels};

}  // namespace emulated_image

inline long long clock64() { return emulated_image::nanoseconds(); }
inline int clock() { return static_cast<int>(emulated_image::nanoseconds()); }
inline void __nanosleep(unsigned duration) {
  const emulated_image::Time time = {0, static_cast<long>(duration)};
  emulated_image::emulated_sleep(&time, nullptr);
}
inline void __threadfence() { __atomic_thread_fence(__ATOMIC_SEQ_CST); }
inline void __threadfence_system() { __atomic_thread_fence(__ATOMIC_SEQ_CST); }
template <class Value> inline Value __ldg(const Value* from) { return *from; }
template <class Value> inline Value atomicAdd(Value* to, Value by) {
  Value old, sum;
  __atomic_load(to, &old, __ATOMIC_SEQ_CST);
  do sum = old + by;
  while (!__atomic_compare_exchange(to, &old, &sum, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST));
  return old;
}
template <class Value> inline Value atomicExch(Value* to, Value by) {
  Value old;
  __atomic_exchange(to, &by, &old, __ATOMIC_SEQ_CST);
  return old;
}
template <class Value> constexpr Value min(Value a, Value b) { return b < a ? b : a; }
template <class Value> constexpr Value max(Value a, Value b) { return a < b ? b : a; }
#define EMULATED_MATH_1(name) extern "C" double name(double); extern "C" float name##f(float);
#define EMULATED_MATH_2(name) extern "C" double name(double, double); extern "C" float name##f(float, float);
EMULATED_MATH_1(sqrt) EMULATED_MATH_1(exp) EMULATED_MATH_1(log) EMULATED_MATH_1(sin) EMULATED_MATH_1(cos) EMULATED_MATH_1(tanh)
EMULATED_MATH_1(fabs) EMULATED_MATH_1(floor) EMULATED_MATH_1(ceil) EMULATED_MATH_1(erf) EMULATED_MATH_2(pow) EMULATED_MATH_2(fmod)
extern "C" double fma(double, double, double);
extern "C" float fmaf(float, float, float);
#undef EMULATED_MATH_1
#undef EMULATED_MATH_2
)cuda";

}  // namespace emulation

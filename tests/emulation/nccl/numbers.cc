#include "tests/emulation/nccl/numbers.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <type_traits>

#include "tests/emulation/nccl/small_float.h"

namespace emulation {
namespace {

struct TypeFacts {
  std::size_t bytes;
  const char* name;
};
constexpr std::array<TypeFacts, ncclNumTypes> kTypes{{{1, "i8"},
                                                      {1, "u8"},
                                                      {4, "i32"},
                                                      {4, "u32"},
                                                      {8, "i64"},
                                                      {8, "u64"},
                                                      {2, "f16"},
                                                      {4, "f32"},
                                                      {8, "f64"},
                                                      {2, "bf16"},
                                                      {1, "f8e4m3"},
                                                      {1, "f8e5m2"}}};

/// How numbers of memory type `Stored` are computed with. Sums and products of whole numbers wrap around.
template <class Stored>
struct Arithmetic {
  static Stored load(Stored value) { return value; }
  static Stored store(Stored value) { return value; }
  template <class Function>
  static Stored wrapping(Stored a, Stored b, Function function) {
    if constexpr (std::is_integral_v<Stored>) {
      using Wide = std::common_type_t<std::make_unsigned_t<Stored>, unsigned>;
      return static_cast<Stored>(function(static_cast<Wide>(a), static_cast<Wide>(b)));
    } else {
      return function(a, b);
    }
  }
};
template <class Bits, int kExponent, int kMantissa, bool kInfinite>
struct Arithmetic<SmallFloat<Bits, kExponent, kMantissa, kInfinite>> {
  using Stored = SmallFloat<Bits, kExponent, kMantissa, kInfinite>;
  static float load(Stored value) { return value.number(); }
  static Stored store(float value) { return Stored::of(value); }
  template <class Function>
  static float wrapping(float a, float b, Function function) {
    return function(a, b);
  }
};

/// Calls `function` with a null pointer to the type in memory.
template <class Function>
void with_type(ncclDataType_t type, const Function& function) {
  switch (type) {
    case ncclInt8:
      return function(static_cast<std::int8_t*>(nullptr));
    case ncclUint8:
      return function(static_cast<std::uint8_t*>(nullptr));
    case ncclInt32:
      return function(static_cast<std::int32_t*>(nullptr));
    case ncclUint32:
      return function(static_cast<std::uint32_t*>(nullptr));
    case ncclInt64:
      return function(static_cast<std::int64_t*>(nullptr));
    case ncclUint64:
      return function(static_cast<std::uint64_t*>(nullptr));
    case ncclFloat16:
      return function(static_cast<Half*>(nullptr));
    case ncclFloat32:
      return function(static_cast<float*>(nullptr));
    case ncclFloat64:
      return function(static_cast<double*>(nullptr));
    case ncclBfloat16:
      return function(static_cast<Bfloat16*>(nullptr));
    case ncclFloat8e4m3:
      return function(static_cast<Float8E4M3*>(nullptr));
    case ncclFloat8e5m2:
      return function(static_cast<Float8E5M2*>(nullptr));
    default:
      std::abort();
  }
}

template <class Stored, class Function>
void for_each(void* into, const void* from, std::size_t count, Function function) {
  auto* values = static_cast<Stored*>(into);
  const auto* others = static_cast<const Stored*>(from);
  using Numbers = Arithmetic<Stored>;
  for (std::size_t i = 0; i < count; ++i) values[i] = Numbers::store(function(Numbers::load(values[i]), Numbers::load(others[i])));
}

template <class Stored>
void combine_as(ncclRedOp_t operation, void* into, const void* from, std::size_t count) {
  using Numbers = Arithmetic<Stored>;
  const auto plus = [](auto a, auto b) { return a + b; };
  const auto times = [](auto a, auto b) { return a * b; };
  switch (operation) {
    case ncclProd:
      return for_each<Stored>(into, from, count, [&](auto a, auto b) { return Numbers::wrapping(a, b, times); });
    case ncclMax:
      return for_each<Stored>(into, from, count, [](auto a, auto b) { return std::max(a, b); });
    case ncclMin:
      return for_each<Stored>(into, from, count, [](auto a, auto b) { return std::min(a, b); });
    default:
      return for_each<Stored>(into, from, count, [&](auto a, auto b) { return Numbers::wrapping(a, b, plus); });
  }
}

}  // namespace

std::size_t bytes_of(ncclDataType_t type) {
  return type >= 0 && type < ncclNumTypes ? kTypes[static_cast<std::size_t>(type)].bytes : 0;
}

const char* name_of(ncclDataType_t type) {
  return kTypes[static_cast<std::size_t>(type)].name;
}

const char* name_of(ncclRedOp_t operation) {
  constexpr std::array kNames{"Sum", "Prod", "MinMax", "MinMax", "SumPostDiv"};
  return operation < ncclNumOps ? kNames[static_cast<std::size_t>(operation)] : "PreMulSum";
}

bool is_floating(ncclDataType_t type) {
  return type >= ncclFloat16;
}

void combine(ncclDataType_t type, ncclRedOp_t operation, void* into, const void* from, std::size_t count) {
  with_type(type, [&](auto* stored) { combine_as<std::remove_pointer_t<decltype(stored)>>(operation, into, from, count); });
}

void multiply(ncclDataType_t type, void* values, const void* scalar, std::size_t count) {
  with_type(type, [&](auto* stored) {
    using Stored = std::remove_pointer_t<decltype(stored)>;
    for (std::size_t i = 0; i < count; ++i) combine_as<Stored>(ncclProd, static_cast<Stored*>(values) + i, scalar, 1);
  });
}

void set_number(ncclDataType_t type, void* to, double value) {
  with_type(type, [&](auto* stored) {
    using Stored = std::remove_pointer_t<decltype(stored)>;
    using Number = decltype(Arithmetic<Stored>::load(*stored));
    *static_cast<Stored*>(to) = Arithmetic<Stored>::store(static_cast<Number>(value));
  });
}

void divide(ncclDataType_t type, void* values, int members, std::size_t count) {
  with_type(type, [&](auto* stored) {
    using Stored = std::remove_pointer_t<decltype(stored)>;
    using Numbers = Arithmetic<Stored>;
    using Number = decltype(Numbers::load(*stored));
    auto* all = static_cast<Stored*>(values);
    for (std::size_t i = 0; i < count; ++i)
      all[i] = Numbers::store(static_cast<Number>(Numbers::load(all[i]) / static_cast<Number>(members)));
  });
}

}  // namespace emulation

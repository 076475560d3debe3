#pragma once

/// Numbers of 8 and 16 bits as they lie in memory, for arithmetic in float.

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>

namespace emulation {

/// kInfinite: the greatest exponent means infinity and NaN; else it has one NaN, and what is too large becomes the largest number.
template <class Bits, int kExponent, int kMantissa, bool kInfinite>
struct SmallFloat {
  Bits bits;

  static constexpr int kBias = (1 << (kExponent - 1)) - 1;
  static constexpr std::uint32_t kSign = 1U << (kExponent + kMantissa);
  static constexpr std::uint32_t kMantissaBits = (1U << kMantissa) - 1;
  static constexpr std::uint32_t kInfinity = kSign - 1 - kMantissaBits;
  static constexpr std::uint32_t kLargest = kInfinite ? kInfinity - 1 : kSign - 2;

  [[nodiscard]] float number() const {
    const std::uint32_t size = bits & (kSign - 1), exponent = size >> kMantissa, mantissa = size & kMantissaBits;
    float value = 0;
    if (exponent == 0)
      value = static_cast<float>(std::ldexp(mantissa, 1 - kBias - kMantissa));
    else if (kInfinite ? size >= kInfinity : size == kSign - 1)
      value = std::bit_cast<float>(0x7f800000U | mantissa << (23 - kMantissa));
    else
      value = std::bit_cast<float>((exponent + 127 - kBias) << 23 | mantissa << (23 - kMantissa));
    return (bits & kSign) != 0 ? -value : value;
  }

  /// The nearest, of two the even one.
  static SmallFloat of(float value) {
    constexpr std::uint32_t kSmallestNormal = static_cast<std::uint32_t>(127 - kBias + 1) << 23;
    constexpr int kShift = 23 - kMantissa;
    const auto all = std::bit_cast<std::uint32_t>(value);
    std::uint32_t size = all & 0x7fffffffU;
    if (size > 0x7f800000U)
      size = kSign - 1;
    else if (size < kSmallestNormal)
      size = static_cast<std::uint32_t>(std::nearbyint(std::ldexp(std::fabs(static_cast<double>(value)), kBias - 1 + kMantissa)));
    else
      size = rounded(size + (1U << (kShift - 1)) - 1 + (size >> kShift & 1));
    return {static_cast<Bits>(size | (all >> 31 != 0 ? kSign : 0))};
  }

 private:
  static std::uint32_t rounded(std::uint32_t size) {
    const std::uint32_t number = (size >> (23 - kMantissa)) - (static_cast<std::uint32_t>(127 - kBias) << kMantissa);
    return kInfinite ? std::min(number, kInfinity) : std::min(number, kLargest);
  }
};

using Half = SmallFloat<std::uint16_t, 5, 10, true>;
using Bfloat16 = SmallFloat<std::uint16_t, 8, 7, true>;
using Float8E5M2 = SmallFloat<std::uint8_t, 5, 2, true>;
using Float8E4M3 = SmallFloat<std::uint8_t, 4, 3, false>;

}  // namespace emulation

#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>

namespace mptune {

/// What products are computed in: float32, or a type of 16 bits by autocast, with parameters and gradients in float32.
enum class Precision : std::uint8_t { float32, bf16, fp16 };

/// The names in plan files and options.
inline constexpr std::array kPrecisionNames = {"float32", "bf16", "fp16"};

[[nodiscard]] constexpr const char* name_of(Precision precision) {
  return kPrecisionNames[static_cast<std::size_t>(precision)];
}
/// Returns nullopt for another name.
[[nodiscard]] constexpr std::optional<Precision> precision_of(std::string_view name) {
  for (const Precision precision : {Precision::float32, Precision::bf16, Precision::fp16})
    if (name == name_of(precision)) return precision;
  return std::nullopt;
}

}  // namespace mptune

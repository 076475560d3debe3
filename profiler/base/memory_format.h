#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>

namespace mptune {

/// The order of a tensor's dimensions in memory, for activations and 4-d weights.
enum class MemoryFormat : std::uint8_t { contiguous, channels_last };

/// The names in plan files and options.
inline constexpr std::array kMemoryFormatNames = {"contiguous", "channels_last"};

[[nodiscard]] constexpr const char* name_of(MemoryFormat format) {
  return kMemoryFormatNames[static_cast<std::size_t>(format)];
}
/// Returns nullopt for another name.
[[nodiscard]] constexpr std::optional<MemoryFormat> memory_format_of(std::string_view name) {
  for (const MemoryFormat format : {MemoryFormat::contiguous, MemoryFormat::channels_last})
    if (name == name_of(format)) return format;
  return std::nullopt;
}

}  // namespace mptune

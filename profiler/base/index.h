#pragma once

#include <cassert>
#include <concepts>
#include <cstddef>
#include <type_traits>

namespace mptune {

/// Returns `value`, a number or a value of an enum, as an index or a size. Requires: it is not negative.
template <typename Value>
requires std::integral<Value> || std::is_enum_v<Value>
[[nodiscard]] constexpr std::size_t as_index(Value value) {
  if constexpr (std::signed_integral<Value>) assert(value >= 0);
  return static_cast<std::size_t>(value);
}

}  // namespace mptune

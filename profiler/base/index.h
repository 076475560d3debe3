#pragma once

#include <cassert>
#include <concepts>
#include <cstddef>

namespace mptune {

/// Converts `value` to an index or a size. Requires: not negative.
[[nodiscard]] constexpr std::size_t as_index(std::integral auto value) {
  assert(value >= 0);
  return static_cast<std::size_t>(value);
}

}  // namespace mptune

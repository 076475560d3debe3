#pragma once

#include <algorithm>

namespace mptune::testing {

#if defined(__SANITIZE_ADDRESS__)
inline constexpr bool kSanitized = true;
#else
inline constexpr bool kSanitized = false;
#endif

/// How many of so many random cases a test takes: all, or a tenth under the address sanitizer, which makes each many times slower and looks
/// for what any of them shows.
constexpr int cases(int all) {
  return kSanitized ? std::max(1, all / 10) : all;
}

}  // namespace mptune::testing

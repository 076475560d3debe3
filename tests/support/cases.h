#pragma once

#include <algorithm>

namespace mptune::testing {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr bool kSanitized = true;
#else
inline constexpr bool kSanitized = false;
#endif

/// How many of so many random cases a test takes: all, or a tenth under a sanitizer, which makes each many times slower and looks for what
/// any of them shows.
constexpr int cases(int all) {
  return kSanitized ? std::max(1, all / 10) : all;
}

/// A sweep takes every so many-th case: every `stride`th, or a fifth of them under a sanitizer. `stride` has no factor 5.
constexpr int thinned(int stride) {
  return kSanitized ? 5 * stride : stride;
}

}  // namespace mptune::testing

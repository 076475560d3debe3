#pragma once

/// Parts of a GPU: green contexts. A resource names a range of multiprocessors; divisions of the whole GPU all begin at its first one, so
/// parts of two divisions overlap, and their kernels exclude each other.

#include <vector>

#include "tests/emulation/machine/gpus.h"

namespace emulation {

inline constexpr int kLeastSmsOfPart = 8;
inline constexpr int kSmsOfPartAreMultipleOf = 8;

struct Division {
  std::vector<SmRange> groups;
  SmRange rest;
};

/// As many groups of at least `least` multiprocessors as fit, at most `most` (0: as many as fit). `least` is rounded up to what a part may
/// have.
[[nodiscard]] Division divide(const SmRange& all, int least, int most);

/// A context of its own for the range. Never deleted: streams name it.
[[nodiscard]] Context* make_part(int gpu, const SmRange& sms);

}  // namespace emulation

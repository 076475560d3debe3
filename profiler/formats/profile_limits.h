#pragma once

#include <cstdint>

namespace mptune {

/// What a public profile may hold: far beyond any model, and small enough that no sum over layers, micro-batches (at most 2^20 samples) and
/// steps overflows 64 bits, in bytes or in nanoseconds.
inline constexpr std::size_t kMostProfileLayers = 10'000;
inline constexpr std::size_t kMostProfileEdges = 100'000;
inline constexpr double kMostProfileSeconds = 3600;                           ///< of one micro-batch, all layers together
inline constexpr double kMostProfileBytes = 4.0 * 1024 * 1024 * 1024 * 1024;  ///< likewise

}  // namespace mptune

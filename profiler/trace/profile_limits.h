#pragma once

#include <cstddef>

namespace mptune {

/// What a profile may hold: more than any machine has shown, and so little that sums over its layers, edges and classes stay far below
/// 2^63, in bytes and in nanoseconds. What a whole batch takes is bounded where the batch is known: CostModel::require_countable.
inline constexpr std::size_t kMostProfileLayers = 10'000;
inline constexpr std::size_t kMostProfileEdges = 100'000;
inline constexpr double kMostProfileSeconds = 3600;                           ///< of one micro-batch, all layers together
inline constexpr double kMostProfileBytes = 4.0 * 1024 * 1024 * 1024 * 1024;  ///< likewise

}  // namespace mptune

#pragma once

#include <cstddef>

namespace mptune::profiler {

/// Upper limits of a profile's contents. They exceed every known machine and keep sums over layers, edges and classes far below 2^63,
/// in bytes and in nanoseconds. CostModel::require_countable checks sums over a batch.
inline constexpr std::size_t kMostProfileLayers = 10'000;
inline constexpr std::size_t kMostProfileEdges = 100'000;
inline constexpr double kMostProfileSeconds = 3600;                           ///< of one micro-batch, all layers together
inline constexpr double kMostProfileBytes = 4.0 * 1024 * 1024 * 1024 * 1024;  ///< of one micro-batch, all layers together

}  // namespace mptune::profiler

#pragma once

namespace mptune::tuner {

/// Relative difference that a comparison of check allows at least; narrow types are allowed more.
inline constexpr double kCheckTolerance = 1e-5;
/// A gradient's difference is measured against at least this share of the largest gradient: one that is only rounding, such as that of a
/// bias before a softmax, has no scale of its own.
inline constexpr double kLeastGradientScale = 1e-2;

}  // namespace mptune::tuner

#pragma once

namespace mptune::tuner {

/// The relative difference that `mptune check` allows. It allows more where a model computes in half precision.
inline constexpr double kCheckTolerance = 1e-5;
/// A gradient's difference is divided by its own largest value, or by this share of the model's largest gradient if that is more. A
/// gradient that is zero but for rounding, such as that of a bias before a softmax, has no scale of its own.
inline constexpr double kLeastGradientScale = 1e-2;

}  // namespace mptune::tuner

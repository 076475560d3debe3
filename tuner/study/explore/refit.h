#pragma once

#include <array>
#include <functional>
#include <optional>
#include <vector>

#include "profiler/trace/values/profile.h"
#include "tuner/trial/trial.h"

namespace mptune::tuner {

/// What the profile's times are multiplied by, because layers measured alone and layers in a running pipeline differ.
struct SimulatorFactors {
  double compute = 1;  ///< of the layers
  double action = 1;   ///< of what each action costs besides its layers
  double copy = 1;     ///< of copies between devices
  bool operator==(const SimulatorFactors&) const = default;
};

/// Returns the profile with its times multiplied.
[[nodiscard]] Profile with_factors(Profile profile, const SimulatorFactors& factors);

struct Refit {
  SimulatorFactors factors;
  int trials = 0;           ///< measured trials that the factors were fitted to
  double error_before = 0;  ///< median of |measured / predicted - 1|
  double error_after = 0;   ///< the same with factors; each trial is predicted with those fitted to the others, to first order
  bool operator==(const Refit&) const = default;
};

/// Fits the factors to the measured steps of trials by least squares of the logarithms. Each factor is held near 1 as far as the
/// measurements do not tell otherwise (10 % for computing, a factor of 2 for the others); Huber's weights make outliers count less. Empty
/// for fewer than 3 measured plans. Plans that the profile does not know are left out. Deterministic; costs about 20 simulations for each
/// of at most 24 trials, the latest ones.
[[nodiscard]] std::optional<Refit> refit(const Profile& profile, const std::vector<Trial>& trials);

}  // namespace mptune::tuner

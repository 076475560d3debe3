#pragma once

#include "profiler/model/layers/model.h"
#include "profiler/trace/values/profile.h"

namespace mptune::profiler {

/// A model that computes nothing, for exact experiments with more devices than the machine has. The loss is always 0.
/// Each layer sleeps as long as the profile's first device class says, forward and backward, and outputs tensors of the profile's sizes. A
/// split backward sleeps in both parts as measured; if it was not measured, the input gradients take all of the sleep.
/// A forward takes at least its layer's time, a backward at least the sum of its layers' times; overhead counts as part of the sleep.
/// Requires: a profile with a class whose layers have costs.
[[nodiscard]] Model make_sleep_model(const Profile& profile);

/// Returns the overhead of an action of a sleeping device beyond its layers' sleeps [s], measured once per process (60 ms). Thread-safe.
[[nodiscard]] double sleep_action_seconds();

}  // namespace mptune::profiler

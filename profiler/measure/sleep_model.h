#pragma once

#include "mptune/profiler/model/model.h"
#include "mptune/profiler/trace/profile.h"

namespace mptune {

/// A model whose layers sleep as long as the profile's first class of devices says, forward and backward, and hand on tensors of the
/// profile's sizes: it computes nothing. For exact experiments with more devices than the machine has. A layer's forward never returns
/// before its time has passed, a backward pass over several layers never before the sum of theirs; what layers cost beside their sleeps
/// is part of them. The loss is always 0. Requires: a profile with a class whose layers have costs.
[[nodiscard]] Model make_sleep_model(const Profile& profile);

/// Seconds that every action of a sleeping device takes beside its layers' sleeps: measured on this machine, once per process (60 ms).
/// Thread-safe.
[[nodiscard]] double sleep_action_seconds();

}  // namespace mptune

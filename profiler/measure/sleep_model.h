#pragma once

#include "mptune/profiler/model/model.h"
#include "mptune/profiler/trace/profile.h"

namespace mptune {

/// A model whose layers sleep as long as the profile's first class of devices says, forward and backward, and hand on tensors of the
/// profile's sizes: it computes nothing. Sleeps are shortened by what a layer costs beside them, measured at the first call. For exact experiments with more devices than the machine has. The loss is always 0.
[[nodiscard]] Model make_sleep_model(const Profile& profile);

/// What every action of a sleeping device costs beside its layers' sleeps: measured on this machine, once per process.
[[nodiscard]] double sleep_action_seconds();

}  // namespace mptune

#pragma once

#include "mptune/profiler/model/model.h"
#include "mptune/profiler/trace/profile.h"

namespace mptune {

/// A model whose layers sleep as long as the profile's first class of devices says, forward and backward, and hand on tensors of the
/// profile's sizes: it computes nothing. For exact experiments with more devices than the machine has. The loss is always 0.
[[nodiscard]] Model make_sleep_model(const Profile& profile);

}  // namespace mptune

#pragma once

#include <memory>

#include "profiler/device/device.h"
#include "tuner/runtime/between/rank_group.h"

namespace mptune::tuner {

/// A device of this rank, as make_device(); of one of another rank its name alone: nothing is done on it here. `ranks`: null for a process
/// that was started alone. Throws Error (usage) for a rank that there is not, and what make_device() throws.
[[nodiscard]] std::shared_ptr<Device> make_device_of(const DeviceSpec& spec, const RankGroup* ranks);

}  // namespace mptune::tuner

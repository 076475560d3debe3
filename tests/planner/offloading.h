#pragma once

#include <random>
#include <utility>

#include "planner/plan/plan.h"
#include "profiler/trace/values/profile.h"
#include "tests/planner/profiles.h"

namespace mptune::testing {

/// The same where every device copies to the host's memory and back.
inline Profile with_host_copies(Profile profile, const HostCopies& to_host, const HostCopies& from_host) {
  for (ProfileDevice& device : profile.devices) {
    device.to_host = to_host;
    device.from_host = from_host;
  }
  return profile;
}

/// All stages that do not recompute offload; `random`: some of them.
inline Plan with_offload(Plan plan, std::mt19937* random = nullptr) {
  for (Stage& stage : plan.stages)
    stage.offload = stage.recompute.mode == Recompute::Mode::none && (random == nullptr || (*random)() % 3 > 0);
  return plan;
}

}  // namespace mptune::testing

#pragma once

#include <string>
#include <vector>

#include "planner/plan.h"
#include "profiler/trace/profile.h"

namespace mptune::planner {

/// The variant whose costs a device with this name has in `variant`: its threads are 0 where the device has no more cores.
[[nodiscard]] ExecutionVariant variant_on(const std::string& device, ExecutionVariant variant);

/// The options of a plan on `devices` that computes in this variant and precision.
[[nodiscard]] ExecutionOptions options_in(const ExecutionVariant& variant, Precision precision, const std::vector<std::string>& devices);

/// True if the profile has costs of every device in this variant. Where none were measured with slow kernels replaced, replacing them
/// changes nothing: the costs are those without.
[[nodiscard]] bool has_variant(const Profile& profile, const ExecutionVariant& variant);
/// The same of a plan: of its devices with their own numbers of threads.
[[nodiscard]] bool has_costs_of(const Profile& profile, const Plan& plan);

/// The profile with every device in the class that has its costs in this variant. Throws Error where the profile has none; its remedy names
/// the options that measure them.
[[nodiscard]] Profile in_variant(Profile profile, const ExecutionVariant& variant);
/// The same of a plan, also where it computes in another precision than the profile. Devices that it does not use get one thread per core.
[[nodiscard]] Profile in_variant_of(Profile profile, const Plan& plan);

}  // namespace mptune::planner

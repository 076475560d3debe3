#pragma once

#include <string>
#include <vector>

#include "planner/plan/plan.h"
#include "profiler/trace/values/profile.h"

namespace mptune::planner {

/// Returns the variant whose costs a device of this name has in `variant`: its threads are 0 where the device has no more cores than
/// threads.
[[nodiscard]] ExecutionVariant variant_on(const std::string& device, ExecutionVariant variant);

/// Returns the options of a plan on `devices` that computes in this variant and precision.
[[nodiscard]] ExecutionOptions options_in(const ExecutionVariant& variant, Precision precision, const std::vector<std::string>& devices);

/// True if the profile has costs of every device in this variant. Where none were measured with slow kernels replaced, replacing them
/// changes nothing: the costs are those with slow kernels.
[[nodiscard]] bool has_variant(const Profile& profile, const ExecutionVariant& variant);
/// True if the profile has costs of the plan's devices in its variant, with their own numbers of threads, and in its precision.
[[nodiscard]] bool has_costs_of(const Profile& profile, const Plan& plan);

/// Returns the profile with every device in the class that has its costs in this variant. Throws Error where the profile has none; the
/// remedy names the options that measure them.
[[nodiscard]] Profile in_variant(Profile profile, const ExecutionVariant& variant);
/// Returns the profile in the plan's variant. Throws Error as in_variant() does, and also where plan and profile differ in precision.
/// Devices that the plan does not use get one thread per core.
[[nodiscard]] Profile in_variant_of(Profile profile, const Plan& plan);

}  // namespace mptune::planner

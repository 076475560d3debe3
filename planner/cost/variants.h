#pragma once

#include <vector>

#include "planner/plan.h"
#include "profiler/trace/profile.h"

namespace mptune::planner {

/// The variant whose costs a plan with these options has.
[[nodiscard]] ExecutionVariant variant_of(const ExecutionOptions& options);

/// True if the profile has costs of every device in this variant. Where none were measured with slow kernels replaced, replacing them
/// changes nothing: the costs are those without.
[[nodiscard]] bool has_variant(const Profile& profile, const ExecutionVariant& variant);

/// The profile with every device in the class that has its costs in this variant. Throws Error where the profile has none.
[[nodiscard]] Profile in_variant(Profile profile, const ExecutionVariant& variant);

}  // namespace mptune::planner

#pragma once

#include <optional>
#include <string>
#include <vector>

#include "planner/plan/plan.h"
#include "profiler/trace/values/profile.h"

namespace mptune::planner {

/// How a plan's training differs from a step of one micro-batch, not only in rounding.
struct ChangedNumerics {
  std::vector<std::string> norms;    ///< layers that normalise over the samples of a micro-batch (batch norm)
  std::vector<std::string> writers;  ///< layers whose forward writes a buffer, once a micro-batch (moving averages)
  int samples = 0;                   ///< samples in the smallest micro-batch
  int batch = 0;                     ///< samples in a step
  int microbatches = 0;
  bool operator==(const ChangedNumerics&) const = default;
};
/// Returns nullopt for plans of one micro-batch and for models without layers of either kind.
[[nodiscard]] std::optional<ChangedNumerics> changed_numerics(const Plan& plan, const std::vector<ProfileLayer>& layers);

}  // namespace mptune::planner

#include "planner/plan/numerics.h"

#include <algorithm>

namespace mptune::planner {

std::optional<ChangedNumerics> changed_numerics(const Plan& plan, const std::vector<ProfileLayer>& layers) {
  ChangedNumerics changed;
  for (const ProfileLayer& layer : layers) {
    if (layer.batch_statistics) changed.norms.push_back(layer.name);
    if (!layer.written_buffer.empty()) changed.writers.push_back(layer.name);
  }
  changed.microbatches = plan.num_microbatches();
  if (changed.microbatches < 2 || (changed.norms.empty() && changed.writers.empty())) return std::nullopt;
  changed.samples = *std::ranges::min_element(plan.microbatch_sizes);
  changed.batch = plan.global_batch_size();
  return changed;
}

}  // namespace mptune::planner

#include "planner/published/objective.h"

namespace mptune::planner {

ObjectiveResult MaxLoadObjective::minimize() const {
  LoadPartition split = least_max_load(graph_);
  std::vector<std::int64_t> peaks;
  for (const LoadPart& part : split.parts)
    if (!part.on_host) peaks.push_back(part.bytes);
  const double load_s = static_cast<double>(split.load_ns) / 1e9;
  const double lower_bound_s = static_cast<double>(split.lower_bound_ns) / 1e9;
  const double gap = split.gap();
  return {std::move(split), load_s, lower_bound_s, gap, std::move(peaks)};
}

}  // namespace mptune::planner

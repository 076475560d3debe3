#include "mptune/planner/partition/partition.h"

#include <algorithm>

#include "mptune/planner/partition/cut_search.h"
#include "mptune/planner/partition/family.h"

namespace mptune {

double PartitionResult::gap() const {
  if (best.empty()) return 1;
  const auto step = static_cast<double>(best.front().step_ns);
  return step <= 0 ? 0 : std::max(0.0, (step - static_cast<double>(lower_bound_ns)) / step);
}

PartitionResult partition(const PartitionProblem& problem, const CostModel& cost) {
  const Family family(problem, cost);
  if (cost.layers() >= family.stages()) return CutSearch(problem, cost, family).run();
  PartitionResult none;
  none.lower_bound_ns = PartitionResult::kNoPlan;
  none.complete = true;
  return none;
}

}  // namespace mptune

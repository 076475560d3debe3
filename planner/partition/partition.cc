#include "planner/partition/partition.h"

#include <limits>
#include <stdexcept>

#include "planner/partition/cut_search.h"
#include "planner/partition/family.h"
#include "planner/partition/gap.h"

namespace mptune::planner {

double PartitionResult::gap() const {
  if (best.empty()) return std::numeric_limits<double>::infinity();
  return gap_to(static_cast<double>(lower_bound_ns), static_cast<double>(best.front().step_ns));
}

PartitionResult partition(const PartitionProblem& problem, const CostModel& cost) {
  if (!cost.is_chain()) throw std::invalid_argument("partition() of a graph of layers");
  const Family family(problem, cost);
  if (cost.layers() >= family.stages()) return CutSearch(problem, cost, family).run();
  PartitionResult none;
  none.lower_bound_ns = PartitionResult::kNoPlan;
  none.complete = true;
  return none;
}

}  // namespace mptune::planner

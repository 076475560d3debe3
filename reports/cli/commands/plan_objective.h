#pragma once

#include <memory>
#include <string>

#include "planner/published/objective.h"
#include "planner/search/space/search_space.h"
#include "profiler/trace/formats/operator_row.h"

namespace mptune::reports {

struct OperatorTables {
  std::string prefix;  ///< of the files
  profiler::OperatorModel model;
};

/// Returns the objective of this name over the straight 1f1b pipelines of the space, stages on the first devices:
///
///     closed-form   planner/published/closed_form.h, for every number of stages and micro-batches that the space allows
///     aceso         planner/published/aceso.h, from these operator tables, links as in the profile
///
/// All arguments must outlive it. Throws Error for another name, and for choices of the space that these objectives do not know.
[[nodiscard]] std::unique_ptr<planner::Objective> pipeline_objective(const std::string& name, const SearchSpace& space,
                                                                     const OperatorTables& tables, const CostModel& cost);

/// Returns the best plan by that objective. Throws Error where pipeline_objective() does; where no plan fits, the remedy is a cap with
/// which a plan was found.
[[nodiscard]] planner::ObjectiveResult minimized(const std::string& name, const SearchSpace& space, const OperatorTables& tables,
                                                 const Profile& profile);

}  // namespace mptune::reports

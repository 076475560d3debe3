#pragma once

#include <map>
#include <string>
#include <vector>

#include "planner/search/joint/family_table.h"

namespace mptune::planner {

/// Returns why each class of pipelines is not the one of `best`: schedules, numbers of micro-batches and of stages, replicas, stages per
/// device.
[[nodiscard]] std::vector<RejectedClass> rejected_classes(const std::vector<FamilyState>& families, const Candidate& best,
                                                          const std::map<std::string, NotExecutable>& beyond);

}  // namespace mptune::planner

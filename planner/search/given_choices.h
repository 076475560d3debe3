#pragma once

#include "planner/search/search.h"

namespace mptune::planner {

/// Stages per device that are asked for, or that the schedule is made for where it is named; 0: neither.
[[nodiscard]] int asked_virtual_stages(const PlanOptions& wanted);

/// The plans over the devices and the batch of `wanted` that have what it asks for. A field that is 0 or empty leaves its choice to the
/// search. Without caps, for a runtime that executes every plan.
/// Throws FieldError for values that no such plan can have.
[[nodiscard]] SearchSpace search_space(const PlanOptions& wanted);

/// "" or why a runtime can't execute plans of the one schedule that the space is restricted to.
[[nodiscard]] std::string why_not_executable(const SearchSpace& space, const Capabilities& capabilities);

}  // namespace mptune::planner

#pragma once

#include "planner/search/make_plan.h"
#include "planner/search/space/search_space.h"

namespace mptune::planner {

/// Returns the stages per device that are asked for, or that a named schedule is made for; 0: neither.
[[nodiscard]] int asked_virtual_stages(const PlanOptions& wanted);

/// Returns the space of plans over the devices and the batch of `wanted` that have what it asks for. A field that is 0 or empty leaves its
/// choice to the search. The space has no caps, and is for a runtime that executes every plan. Throws FieldError for values that no plan of
/// the space can have.
[[nodiscard]] SearchSpace search_space(const PlanOptions& wanted);

/// Returns "", or why a runtime can't execute plans of the one schedule that the space is restricted to.
[[nodiscard]] std::string why_not_executable(const SearchSpace& space, const Capabilities& capabilities);

}  // namespace mptune::planner

#pragma once

#include <string>
#include <vector>

#include "planner/search/make_plan.h"

namespace mptune::planner {

// Each of these functions throws FieldError where its values fit no plan.

void check_stages(int stages, int layers);
/// Checks `each` stages, more than one, on each of `devices`, because the schedule or virtual_stages asks for them.
void check_stages_per_device(const PlanOptions& options, int devices, int each);
/// Checks first layers of all stages but the first: ascending, within the layers.
void check_cuts(const std::vector<int>& cuts, int layers);
/// Checks that cuts are at `places`, or without cuts, that there are as many places as stages need, unless `places` is empty.
void check_cut_places(const std::vector<int>& cuts, const std::vector<int>& places, int stages);
/// Checks number and size of micro-batches against the batch.
void check_microbatches(const PlanOptions& options);
/// Checks that there is a replica count for each of the stages that are asked for.
void check_replica_counts(const PlanOptions& options);
/// Checks that every replica of a stage has a micro-batch.
void check_replicas_work(const std::vector<int>& replicas, int microbatches);

}  // namespace mptune::planner

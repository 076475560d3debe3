#pragma once

#include <string>
#include <vector>

#include "planner/search/search.h"

namespace mptune::planner {

// Each throws FieldError where its values fit no plan.

void check_stages(int stages, int layers);
/// `each` stages, more than one, on each of `devices`, because the schedule or virtual_stages asks for them.
void check_stages_per_device(const PlanOptions& options, int devices, int each);
/// First layers of all stages but the first: ascending, within the layers.
void check_cuts(const std::vector<int>& cuts, int layers);
/// Cuts, or as many as the stages have, at `places`, unless these are empty.
void check_cut_places(const std::vector<int>& cuts, const std::vector<int>& places, int stages);
/// Number and size of micro-batches against the batch.
void check_microbatches(const PlanOptions& options);
/// A replica count for each of the stages that are asked for.
void check_replica_counts(const PlanOptions& options);
/// Every replica of a stage has a micro-batch.
void check_replicas_work(const std::vector<int>& replicas, int microbatches);

}  // namespace mptune::planner

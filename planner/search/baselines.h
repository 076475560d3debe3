#pragma once

#include <string>
#include <vector>

#include "planner/plan/plan.h"
#include "planner/search/space/search_space.h"

namespace mptune::planner {

/// Names of baselines, as studies and JSON have them. `current` is the user's own plan, `asked_for` the fastest that a restricted search
/// allows.
inline constexpr const char* kSingleDeviceBaseline = "single_device";
inline constexpr const char* kAllCoresBaseline = "all_cores";
inline constexpr const char* kAllCoresChannelsLastBaseline = "all_cores_channels_last";
inline constexpr const char* kNaiveBaseline = "naive_model_parallel";
inline constexpr const char* kPipelineBaseline = "default_pipeline";
inline constexpr const char* kDataParallelBaseline = "data_parallel";
inline constexpr const char* kCurrentBaseline = "current";
inline constexpr const char* kAskedBaseline = "asked_for";

struct NamedPlan {
  std::string name;
  Plan plan;
};
/// Returns the plans that every tuning run measures: all of these names but `current` and `asked_for`; all_cores where the space has a
/// device of all cores, all_cores_channels_last where the space also has that memory format. Where the model takes no micro-batch of the
/// whole batch, the plans have as few micro-batches as it takes. Plans that can't exist (more stages than layers, batch smaller than
/// replicas, naive with several micro-batches) are left out.
[[nodiscard]] std::vector<NamedPlan> baseline_plans(const SearchSpace& space, int layers, Precision precision = Precision::float32);

}  // namespace mptune::planner

#include "planner/search/space/plan_family.h"

#include <algorithm>
#include <utility>

#include "planner/schedule/schedule_info.h"
#include "profiler/base/index.h"

namespace mptune::planner {

bool PlanFamily::rows_are_searched() const {
  return schedule_info(schedule).rows_from == RowsFrom::search;
}

bool PlanFamily::replicated() const {
  return std::ranges::any_of(devices, [](const std::vector<int>& stage) { return stage.size() > 1; });
}

// Returns each device once, in the order of the stages.
std::vector<int> PlanFamily::used() const {
  std::vector<int> all;
  for (const std::vector<int>& stage : devices) {
    for (const int device : stage)
      if (std::ranges::find(all, device) == all.end()) all.push_back(device);
  }
  return all;
}

Plan PlanFamily::plan(const SearchSpace& space, const std::vector<int>& cuts, int layers) const {
  const std::vector<int> all = used();
  Plan plan;
  for (const int device : all) plan.devices.push_back(space.devices[as_index(device)]);
  plan.microbatch_sizes = sizes;
  plan.options.idle_devices_help = helping;
  for (std::size_t s = 0; s < devices.size(); ++s) {
    Stage stage{s == 0 ? 0 : cuts[s - 1], s == cuts.size() ? layers : cuts[s], {}, {}};
    for (const int device : devices[s]) stage.devices.push_back(static_cast<int>(std::ranges::find(all, device) - all.begin()));
    plan.stages.push_back(std::move(stage));
  }
  return plan;
}

std::vector<std::int64_t> PlanFamily::caps(const std::vector<std::int64_t>& caps_of_space) const {
  std::vector<std::int64_t> caps;
  for (const int device : used()) caps.push_back(caps_of_space[as_index(device)]);
  return caps;
}

std::vector<std::vector<int>> in_profile(std::vector<std::vector<int>> stages, const std::vector<int>& indices) {
  for (std::vector<int>& stage : stages)
    for (int& device : stage) device = indices[as_index(device)];
  return stages;
}

}  // namespace mptune::planner

#include <string>
#include <utility>
#include <vector>

#include "planner/schedule/schedule.h"
#include "planner/search/joint_search.h"
#include "planner/simulate/schedule_costs.h"
#include "profiler/base/index.h"

namespace mptune::planner {

void JointSearch::one_stage() {
  if (!choices_.wanted_stages(1) || !choices_.wanted_virtual(1)) return;
  const int replicas = static_cast<int>(space_.devices.size());
  if (space_.replicas.empty() || replicas == 1) one_device();
  if (replicas < 2 || space_.no_replicas) return;
  for (const int m : choices_.shared_counts(replicas)) try_one_stage(Parallelism::data_parallel, space_.devices, m, caps_);
}

void JointSearch::one_device() {
  for (const int d : choices_.distinct_devices()) {
    const auto at = as_index(d);
    for (const int m : choices_.counts()) try_one_stage(Parallelism::one_device, {space_.devices[at]}, m, {caps_[at]});
  }
  for (const std::string& machine : space_.whole_machine)
    for (const int m : choices_.counts()) try_one_stage(Parallelism::all_cores, {machine}, m, {space_.whole_machine_memory_bytes});
}

void JointSearch::try_one_stage(Parallelism kind, const std::vector<std::string>& devices, int m, const std::vector<std::int64_t>& caps) {
  Plan plan;
  plan.devices = devices;
  plan.microbatch_sizes = split_evenly(space_.batch, m);
  Stage stage{0, cost_.layers(), {}, {}};
  for (std::size_t d = 0; d < devices.size(); ++d) stage.devices.push_back(static_cast<int>(d));
  plan.stages.push_back(stage);
  choices_.set_recompute(plan);
  const std::string asked = choices_.schedule_of_one_stage(m);
  if (asked.empty())
    make_schedule(plan, m == 1 ? "naive" : kDefaultSchedule);
  else
    schedule_plan(plan, asked, cost_, caps);
  evaluator_.evaluate(kind, std::move(plan), caps);
}

}  // namespace mptune::planner

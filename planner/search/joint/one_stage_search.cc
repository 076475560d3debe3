#include "planner/search/joint/one_stage_search.h"

#include <utility>

#include "planner/schedule/schedule.h"
#include "planner/simulate/schedule_costs.h"
#include "profiler/base/index.h"

namespace mptune::planner {

OneStageSearch::OneStageSearch(const SearchSpace& space, const CostModel& cost, const std::vector<std::int64_t>& caps,
                               const Choices& choices, Evaluator& evaluator)
    : space_(space), cost_(cost), caps_(caps), choices_(choices), evaluator_(evaluator) {}

void OneStageSearch::run() {
  if (!choices_.wanted_stages(1) || !choices_.wanted_virtual(1)) return;
  const int replicas = static_cast<int>(space_.devices.size());
  if (space_.replicas.empty() || replicas == 1) try_single_devices();
  if (replicas < 2 || space_.no_replicas) return;
  for (const int m : choices_.shared_counts(replicas)) try_plan(Parallelism::data_parallel, space_.devices, m, caps_);
}

void OneStageSearch::try_single_devices() {
  for (const int d : choices_.distinct_devices()) {
    const auto at = as_index(d);
    for (const int m : choices_.counts()) try_plan(Parallelism::one_device, {space_.devices[at]}, m, {caps_[at]});
  }
  for (const std::string& machine : space_.whole_machine)
    for (const int m : choices_.counts()) try_plan(Parallelism::all_cores, {machine}, m, {space_.whole_machine_memory_bytes});
}

void OneStageSearch::try_plan(Parallelism kind, const std::vector<std::string>& devices, int m, const std::vector<std::int64_t>& caps) {
  Plan plan;
  plan.devices = devices;
  plan.microbatch_sizes = split_evenly(space_.batch, m);
  Stage stage{0, cost_.layers(), {}, {}};
  for (std::size_t d = 0; d < devices.size(); ++d) stage.devices.push_back(static_cast<int>(d));
  plan.stages.push_back(stage);
  choices_.set_recompute(plan);
  const std::string asked = choices_.schedules().of_one_stage(m);
  if (asked.empty())
    make_schedule(plan, m == 1 ? "naive" : kDefaultSchedule);
  else
    schedule_plan(plan, asked, cost_, caps);
  evaluator_.evaluate(kind, std::move(plan), caps);
}

}  // namespace mptune::planner

#include "planner/plan/plan_error.h"
#include "planner/schedule/schedule.h"
#include "planner/schedule/schedule_info.h"
#include "profiler/base/error.h"

namespace mptune::planner {

void make_schedule(Plan& plan, const std::string& name, const ScheduleCosts* costs) {
  const ScheduleInfo& schedule = schedule_info(name);
  const Layout layout(plan);
  const std::string missing = missing_for(schedule, layout);
  if (!missing.empty())
    throw PlanError("schedule " + name + " " + missing, name,
                    "use gpipe or list, which take any map, or the stages and devices it asks for");
  const ScheduleCosts textbook{std::vector<StageCosts>(plan.stages.size()), {}};
  const ScheduleCosts& used = costs != nullptr ? *costs : textbook;
  if (used.stages.size() != plan.stages.size() || (!used.free_bytes.empty() && used.free_bytes.size() != plan.devices.size()))
    throw Error("costs of " + std::to_string(used.stages.size()) + " stages and " + std::to_string(used.free_bytes.size()) +
                    " devices for a plan of " + std::to_string(plan.stages.size()) + " on " + std::to_string(plan.devices.size()),
                name, "make the costs from the plan", ExitCode::internal);
  plan.actions = schedule.rows(layout, used);
  plan.schedule = name;
}

}  // namespace mptune::planner

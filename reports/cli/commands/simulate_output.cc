#include "reports/cli/commands/simulate_output.h"

#include "planner/plan/file/plan_json.h"

namespace mptune::reports {

planner::Json simulated_json(const Plan& plan, const std::vector<std::vector<std::string>>& modules, const Prediction& prediction,
                             const TraceReport& report, Runtime runtime, const std::string& path) {
  planner::Json json = result_of("simulate");
  json["plan"] = planner::plan_object(plan, modules);
  json["predicted"] = to_json_object(prediction);
  json["devices"] = devices_json(report);
  json["bubble"] = report.bubble;
  json["bubble_theory"] = *report.bubble_theory;
  json["lower_bound_s"] = prediction.lower_bound_s;
  json["runtime"] = name_of(runtime);
  json["trace"] = path.empty() ? planner::Json(nullptr) : planner::Json(path);
  json["advice"] = advice_json(report.advice);
  return json;
}

}  // namespace mptune::reports

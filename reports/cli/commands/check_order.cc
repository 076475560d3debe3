#include "reports/cli/commands/check_order.h"

#include <fmt/format.h>

#include <algorithm>

#include "planner/advise/order_check.h"
#include "planner/plan/executable.h"
#include "planner/schedule/schedule.h"
#include "planner/search/make_plan.h"
#include "profiler/base/error.h"
#include "profiler/base/index.h"
#include "profiler/base/text.h"
#include "profiler/base/whole_file.h"
#include "reports/cli/options/runtime_option.h"
#include "reports/render/style.h"

namespace mptune::reports {
namespace {

Plan plan_of(const std::string& text, const std::string& path) {
  PlanOptions options;
  options.actions = planner::schedule_from_csv(text, path);
  std::size_t listed = 0;
  for (const std::vector<Action>& row : options.actions) listed += row.size();
  int stages = 0;
  for (const std::vector<Action>& row : options.actions) {
    options.devices.push_back("rank " + std::to_string(options.devices.size()));
    for (const Action& action : row) {
      // Every stage and every micro-batch has actions, so numbers above that of the actions leave some out.
      if (as_index(std::max(action.stage, action.microbatch)) >= listed || as_index(action.further) >= listed)
        throw Error("'" + planner::to_text(action) + "' names more stages or micro-batches than the file has actions",
                    path + ", row " + std::to_string(options.devices.size()), "number stages and micro-batches from 0");
      stages = std::max(stages, action.stage + 1);
      options.batch = std::max(options.batch, action.last_microbatch() + 1);
    }
  }
  options.layers = options.stages = stages;
  options.microbatches = options.batch;
  options.schedule.clear();
  Plan plan = make_plan(options);
  plan.schedule = "the order";
  planner::validate_schedule(plan, path);
  return plan;
}

planner::Messages messages_for(const Plan& plan, Runtime runtime, const std::string& text, const std::string& path) {
  if (runtime == Runtime::mptune) return {};  // its senders wait for nobody
  if (runtime == Runtime::torch)
    if (auto named = planner::messages_from_csv(text, plan, path)) return *std::move(named);
  std::vector<planner::MessageFlow> flows;
  for (int stage = 0; stage + 1 < plan.num_stages(); ++stage) flows.push_back({stage, stage + 1, true});
  return planner::messages_of(plan, std::move(flows), runtime);
}

std::string text_of(const planner::OrderCheck& check, Runtime runtime, const TextStyle& style) {
  if (!check.deadlock.empty()) return std::string(name_of(runtime)) + " never ends this order: " + check.deadlock + "\n";
  constexpr double kLonger = 1.0005;
  std::string text =
      std::string(name_of(runtime)) + " ends this order, and waiting for sends " +
      (check.slowdown < kLonger ? "makes the step no longer" : fmt::format("makes the step {:.3g} times as long", check.slowdown)) +
      " (stages of equal time, backwards twice a forward, copies that take no time)";
  if (check.longest)
    text += fmt::format("; longest: {} holds the result of {} for {:.3g} forwards, until {} has ended {}", check.longest->device,
                        check.longest->action, check.longest->forwards, check.longest->other_device, check.longest->other_action);
  return join(wrap(text, style.width), "\n") + "\n";
}

planner::Json json_of(const planner::OrderCheck& check, const Plan& plan, Runtime runtime) {
  planner::Json json = result_of("check-order");
  json["runtime"] = name_of(runtime);
  json["ranks"] = plan.devices.size();
  json["stages"] = plan.num_stages();
  json["microbatches"] = plan.num_microbatches();
  json["deadlock"] = check.deadlock.empty() ? planner::Json(nullptr) : planner::Json(check.deadlock);
  json["slowdown"] = check.deadlock.empty() ? planner::Json(check.slowdown) : planner::Json(nullptr);
  json["longest_wait"] = nullptr;
  if (check.longest)
    json["longest_wait"] = {{"action", check.longest->action},
                            {"device", check.longest->device},
                            {"other_action", check.longest->other_action},
                            {"other_device", check.longest->other_device},
                            {"forwards", check.longest->forwards}};
  return json;
}

}  // namespace

int check_order_file(const std::string& path, const std::string& runtime, const Session& session) {
  if (path.empty()) throw Error("an order to check under a runtime's rules is missing", "--schedule", "give a CSV file of actions");
  const Runtime of = parse_runtime(runtime);
  const std::string text = read_whole_file(path, std::int64_t{64} << 20, "schedule file");
  const Plan plan = plan_of(text, path);
  Capabilities able = capabilities_of(of);
  able.any_order = true;  // that is what is checked
  if (const std::string why = why_not_executable(plan, able); !why.empty())
    throw Error(std::string(name_of(of)) + " can't run this order: " + why, path, "check it under another runtime");
  const planner::OrderCheck check = planner::check_order(plan, messages_for(plan, of, text, path));
  session.result(text_of(check, of, session.style), json_of(check, plan, of));
  return static_cast<int>(check.deadlock.empty() ? ExitCode::done : ExitCode::differs);
}

}  // namespace mptune::reports

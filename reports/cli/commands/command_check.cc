#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>
#include <optional>

#include "planner/plan/file/plan_file.h"
#include "profiler/base/error.h"
#include "reports/cli/commands/check_order.h"
#include "reports/cli/commands/commands.h"
#include "reports/cli/commands/worker_calls.h"
#include "reports/cli/options/options.h"
#include "reports/cli/options/plan_choice.h"
#include "reports/cli/options/runtime_option.h"
#include "reports/cli/program/progress.h"
#include "reports/render/check_text.h"

namespace mptune::reports {
namespace {

struct CheckCommand {
  ModelOptions model;
  DeviceOptions devices;
  PlanChoice choice;
  StepOptions step;
  std::string runtime;
};

/// Returns the plan whose cuts are checked, too, where one is given or described; the batch is then the plan's, or the model's.
std::optional<Plan> plan_to_check(const CheckCommand& command, const Session& session, tuner::TrainingSetup& setup) {
  if (!command.choice.plan.empty()) {
    check_one_plan(command.choice.any(), "--plan");
    const PlanFile file = load_plan_file(command.choice.plan);
    check_executable(file.plan, command.choice.plan);
    setup.devices = file.plan.devices;
    setup.batch = file.plan.global_batch_size();
    take_precision(file.plan, command.step, command.choice.plan, setup);
    check_fingerprint(session, file, describe_model(setup, session), command.choice.plan, command.choice);
    return file.plan;
  }
  if (!command.choice.any()) return std::nullopt;
  check_before_model(command.choice, setup.devices, setup.batch);
  const tuner::DescribedModel model = describe_model(setup, session);
  check_memory_format(command.choice, model.convolutions);
  setup.batch = setup.batch > 0 ? setup.batch : model.batch;
  Plan plan = plan_from_options(command.choice, setup.devices, setup.batch, model.layers);
  plan.options.precision = setup.precision;
  check_executable(plan, "--schedule");
  return plan;
}

int run_check(const CheckCommand& command, const Session& session) {
  if (!command.runtime.empty() && !command.model.model.empty())
    throw Error("--runtime checks an order of actions without a model", "--runtime", "leave MODEL out, or leave --runtime out");
  PlanChoice others = command.choice;
  others.schedule.clear();
  if (!command.runtime.empty() &&
      (others.any() || !others.plan.empty() || command.devices.devices != DeviceOptions().devices || !command.model.batch.empty()))
    throw Error("--runtime takes nothing but an order from --schedule", "--runtime",
                "leave the other options of plans, devices and batch out");
  if (!command.runtime.empty()) return check_order_file(command.choice.schedule, command.runtime, session);
  if (command.model.model.empty()) throw Error("MODEL is required", "mptune check", "see mptune check --help");
  session.say("checking " + command.model.model);
  tuner::TrainingSetup setup = make_setup(command.model, command.devices, command.step);
  const std::optional<Plan> plan = plan_to_check(command, session, setup);
  const tuner::CheckResult result = [&] {
    ProgressLine progress(session);
    return check_model(setup, plan, {}, wait_options(session), progress);
  }();
  planner::Json json = result_of("check");
  json["model"] = command.model.model;
  json.update(check_json(result));
  session.result(render_check(result, command.model.model, session.style), json);
  return static_cast<int>(tuner::first_failure(result) == nullptr ? ExitCode::done : ExitCode::differs);
}

}  // namespace

void add_check_command(CLI::App& program, CommandBody& chosen) {
  auto command = std::make_shared<CheckCommand>();
  CLI::App* app = program.add_subcommand(
      "check", "Compares the gradients of a model's pieces with the whole model's: agreement, or the first difference");
  add_model_options(*app, command->model);
  app->get_option("MODEL")->required(false);  // not with --runtime
  app->add_option("--devices", command->devices.devices,
                  "devices of a plan given by options; the check itself computes on this machine's cores")
      ->type_name("LIST")
      ->group(kDeviceGroup);
  add_plan_options(*app, command->choice, false);
  add_plan_file_options(*app, command->choice, "check this plan's cuts and micro-batches as well");
  add_step_options(*app, command->step);
  add_runtime_option(*app, command->runtime,
                     "instead of a model, check a --schedule FILE of actions: whether it ends under the rules by which torch, megatron or "
                     "deepspeed sends and waits, and what waiting costs");
  app->footer(
      "Example:\n  mptune check resnet50.pt2 --stages 2 --batch 8 --microbatches 4\n"
      "  mptune check --schedule order.csv --runtime torch");
  app->callback([command, &chosen] { chosen = [command](const Session& session) { return run_check(*command, session); }; });
}

}  // namespace mptune::reports

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>
#include <memory>
#include <optional>

#include "planner/cost/pool_costs.h"
#include "planner/plan/file/plan_file.h"
#include "planner/plan/plan_words.h"
#include "profiler/base/error.h"
#include "profiler/base/printable.h"
#include "profiler/base/units.h"
#include "profiler/device/list/device_list.h"
#include "profiler/trace/store/store.h"
#include "reports/cli/commands/commands.h"
#include "reports/cli/commands/fit_errors.h"
#include "reports/cli/commands/recordings.h"
#include "reports/cli/commands/simulate_output.h"
#include "reports/cli/commands/simulate_recorded.h"
#include "reports/cli/commands/simulate_topology.h"
#include "reports/cli/commands/worker_calls.h"
#include "reports/cli/options/options.h"
#include "reports/cli/options/plan_choice.h"
#include "reports/cli/options/runtime_option.h"
#include "reports/cli/program/option_values.h"
#include "reports/render/fit_text.h"
#include "reports/render/report_text.h"
#include "reports/values/follow_up.h"
#include "tuner/runtime/graph/capabilities.h"

namespace mptune::reports {
namespace {

struct SimulateCommand {
  std::string plan;
  std::string profile;
  std::string memory;
  std::string topology;
  std::string runtime;
  std::string from;
  PlanChoice choice;
  bool allow_renamed = false;
  OutputOptions output;
};

/// The plan's devices, then the others that were profiled and share no core with those before: what a change of the plan may use. None of
/// them need be of this machine.
std::vector<DeviceSpec> devices_for(const Plan& plan, const Profile& profile) {
  std::vector<DeviceSpec> devices;
  for (const std::string& name : plan.devices) devices.push_back(device_of_profile(name));
  for (const ProfileDevice& known : profile.devices) {
    const DeviceSpec device = device_of_profile(known.name);
    const bool taken = std::ranges::any_of(devices, [&](const DeviceSpec& other) {
      return other.name == device.name || std::ranges::find_first_of(device.cores, other.cores) != device.cores.end();
    });
    if (!taken) devices.push_back(device);
  }
  return devices;
}

/// Refuses files that were given in each other's place.
void refuse_swapped(const SimulateCommand& command) {
  if (std::filesystem::is_regular_file(command.plan) && !is_foreign(command.plan, kSqliteMagic))
    throw Error("the file is a trace, not a plan", command.plan, "give a plan file to --plan, and the trace to --profile");
  if (is_plan_file(command.profile))
    throw Error("the file is a plan, not a trace", command.profile, "give a trace that mptune profile wrote to --profile");
}

void refuse_unknown_devices(const SimulateCommand& command, const Plan& plan, const Profile& profile) {
  for (const std::string& device : plan.devices)
    if (std::ranges::find(profile.devices, device, &ProfileDevice::name) == profile.devices.end())
      throw Error("the profile does not know the plan's device " + device, command.profile, "profile with " + device + " among --devices");
}

/// A plan fits another model of as many layers, but its step says nothing about that.
void warn_of_another_model(const SimulateCommand& command, const Session& session, const Fingerprint& plan, const Fingerprint& profile) {
  if (!plan.model.empty() && !profile.model.empty() && plan.model != profile.model)
    session.warn(command.plan + " was made for another model than " + command.profile + " was measured of: the step is that of the latter");
}

/// Returns the command that trains with the plan, if that is possible and the plan's file or the profile says how.
std::vector<std::string> training_lines(const SimulateCommand& command, const PlanFile& file, const profiler::Recording& recording,
                                        bool fits) {
  const std::string& source = file.training.model.empty() ? command.profile : command.plan;
  const TrainingSpec training = with_files_found(file.training.model.empty() ? recording.training : file.training,
                                                 {".", std::filesystem::path(source).parent_path().string()});
  if (!fits || training.model.empty() || !bare_files(training).empty() || !executable(file.plan, tuner::kRuntime)) return {};
  return {command_with_plan_file(training, file.plan, command.plan)};
}

/// Refuses what `--from` stands for.
int run_from(const SimulateCommand& command, const Session& session) {
  if (!command.plan.empty() || !command.profile.empty() || !command.topology.empty() || !command.memory.empty() || command.allow_renamed)
    throw Error("--from takes everything but the plan from the trace", "--from",
                "leave --plan, --profile, --topology, --memory and --allow-renamed out");
  return simulate_recorded({command.from, command.choice, parse_runtime(command.runtime), command.output}, session);
}

int run_simulate(const SimulateCommand& command, const Session& session) {
  if (!command.from.empty()) return run_from(command, session);
  for (const auto& [option, value] : {std::pair{"--plan", &command.plan}, std::pair{"--profile", &command.profile}})
    if (value->empty()) throw Error(std::string(option) + " is required", "mptune simulate", "see mptune simulate --help");
  if (command.choice.any())
    throw Error("--plan names the plan", command.choice.given(), "leave these options out, or give --from in place of --plan");
  session.say("simulating " + command.plan);
  refuse_swapped(command);
  if (!command.topology.empty()) {
    if (!command.output.path.empty()) throw Error("machines on paper have no trace", "-o", "leave it out, or simulate without --topology");
    return simulate_on_topology(command.plan, command.profile, command.topology, command.memory, command.allow_renamed,
                                parse_runtime(command.runtime), session);
  }
  const PlanFile file = load_plan_file(command.plan);
  const profiler::Recording recording = profiler::read_recording(command.profile);
  const std::optional<Profile>& recorded = recording.profile;
  if (!recorded) throw Error("the file holds no profile", command.profile, "give a file that profile or tune wrote");
  const Profile priced = planner::with_pool_devices(*recorded);
  refuse_unknown_devices(command, file.plan, priced);
  const std::vector<DeviceSpec> specs = devices_for(file.plan, priced);
  std::vector<std::string> devices;
  for (const DeviceSpec& spec : specs) devices.push_back(spec.name);
  Profile profile = with_caps(priced, devices, parse_memory(command.memory, specs));
  profile.runtime = parse_runtime(command.runtime);
  validate(file.plan, static_cast<int>(profile.layers.size()), command.plan);
  check_names(session, file, profile.layers, profile.model, command.plan, command.allow_renamed);
  warn_of_another_model(command, session, file.fingerprint, profile.fingerprint);
  check_runs_on(profile.runtime, file.plan, command.plan);
  if (!command.output.path.empty()) check_output(command.output.path, kSqliteMagic, command.output.force, {command.plan, command.profile});
  const Simulation simulation = simulate(file.plan, CostModel(profile, file.plan));
  TraceReport report = build_trace_report(simulation.trace, simulation.prediction.peak_bytes, "Predicted: " + describe(file.plan));
  add_plan(report, file.plan, &profile);
  const planner::FitAnswer fit = fit_of(file.plan, devices, profile);
  if (!command.output.path.empty()) {
    profiler::Recording predicted;
    predicted.trace = simulation.trace;
    predicted.profile = with_caps(*recorded, devices, parse_memory(command.memory, specs));
    predicted.plan_json = plan_to_json(file.plan, file.modules);
    predicted.training = recording.training;
    profiler::write_recording(predicted, command.output.path, command.output.force);
  }
  planner::Json json = simulated_json(file.plan, file.modules, simulation.prediction, report, profile.runtime, command.output.path);
  json["memory"] = memory_json(report.memory);
  json["fit"] = fit_json(fit);
  std::string text = render_trace_report(report, session.style, training_lines(command, file, recording, fit.excess.bytes == 0));
  if (fit.excess.bytes > 0)
    text += "\n" + heading(session.style, "Does not fit") + render_fit(fit, simulation.prediction.step_s, session.style) + "\n";
  text += fmt::format("predicted step {}, lower bound of these stages {}\n", format_seconds(simulation.prediction.step_s),
                      format_seconds(simulation.prediction.lower_bound_s));
  if (const std::string runtime = runtime_note(profile.runtime); !runtime.empty()) text += runtime + "\n";
  if (simulation.prediction.extrapolated)
    text += "some micro-batch sizes lie outside the profiled ones: profile again for a better prediction\n";
  session.result(text + (command.output.path.empty() ? "" : "trace   " + printable(command.output.path) + "\n"), json);
  return static_cast<int>(fit.excess.bytes > 0 ? ExitCode::infeasible : ExitCode::done);
}

}  // namespace

void add_simulate_command(CLI::App& program, CommandBody& chosen) {
  auto command = std::make_shared<SimulateCommand>();
  CLI::App* app = program.add_subcommand("simulate", "Predicts one plan: step time, memory, timeline");
  const auto add_file = [&](const char* name, std::string& path, const char* help) {
    offer_values(*app->add_option(name, path, help)->type_name("FILE")->group("Input"), {kFileValue});
  };
  add_file("--plan", command->plan, "plan file");
  add_file("--profile", command->profile, "trace file made by mptune profile");
  add_file("--from", command->from,
           "in place of --plan and --profile: a trace of a pipeline, of any program; the options below name the plan to predict");
  using planner::Field;
  add_plan_options(*app, command->choice, false, {Field::stages, Field::virtual_stages, Field::cuts, Field::microbatches, Field::schedule});
  app->add_flag("--allow-renamed", command->allow_renamed,
                "take a plan that names modules which the profile does not have; default: refuse it")
      ->group("Input");
  app->add_option("--memory", command->memory, "cap per device: 2GiB, or cpu:0=1GiB,cpu:1=2GiB; default: as in the profile")
      ->type_name("SIZE")
      ->group(kDeviceGroup);
  offer_values(*app->add_option("--topology", command->topology, "machines on paper in place of the profile's: a topology file")
                    ->type_name("FILE")
                    ->group(kDeviceGroup),
               {kFileValue});
  add_runtime_option(*app, command->runtime);
  add_output_options(*app, command->output, "also write the predicted trace");
  app->footer(
      "Example:\n  mptune simulate --plan resnet50.plan.json --profile resnet50.sqlite\n"
      "  mptune simulate --from timeline.csv --schedule interleaved --virtual 2");
  app->callback([command, &chosen] { chosen = [command](const Session& session) { return run_simulate(*command, session); }; });
}

}  // namespace mptune::reports

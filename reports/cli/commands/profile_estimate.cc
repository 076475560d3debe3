#include "reports/cli/commands/profile_estimate.h"

#include <CLI/CLI.hpp>

#include "profiler/base/error.h"
#include "profiler/base/hardware.h"
#include "profiler/base/nearest_word.h"
#include "profiler/base/shell_command.h"
#include "profiler/base/temporary_folder.h"
#include "profiler/base/text.h"
#include "profiler/trace/store/store.h"
#include "reports/cli/commands/plan_output.h"
#include "reports/cli/commands/recordings.h"
#include "reports/cli/commands/worker_calls.h"
#include "reports/cli/program/option_values.h"
#include "reports/cli/program/progress.h"
#include "reports/render/json.h"
#include "reports/render/layer_table.h"
#include "reports/values/estimate_words.h"

namespace mptune::reports {

namespace {

Hardware hardware_of(const std::string& name) {
  if (const auto hardware = find_hardware(name)) return *hardware;
  const std::vector<std::string> known = hardware_names();
  throw Error("'" + name + "' is no GPU that estimates are made for", "--estimate", did_you_mean(name, known, "use " + join(known, ", ")));
}

std::string estimate_text(const Profile& profile, const Hardware& hardware, const std::string& path, const Session& session) {
  const TextStyle& style = session.style;
  const bool all = session.options.verbose;
  std::string text =
      layer_table(profile, profile.batch, "on one " + hardware.title + ", estimated", all ? Listing::all : Listing::few, style);
  for (const std::string& assumption : estimate_assumptions(profile.estimated))
    text += join(wrap("assumed " + assumption, style.width), "\n") + "\n";
  text += "\ntrace   " + path + "\n";
  return text + paint(style, Color::bold, ShellCommand("mptune plan").file(path).text()) + "\n";
}

planner::Json estimate_json(const Profile& profile, const std::string& path) {
  planner::Json json = result_of("estimate");
  json["hardware"] = profile.estimated;
  json["trace"] = path;
  json["batch"] = profile.batch;
  json["layers"] = layers_json(profile);
  json["assumed"] = estimate_assumptions(profile.estimated);
  return json;
}

}  // namespace

void add_estimate_option(CLI::App& command, std::string& hardware) {
  offer_values(*command
                    .add_option("--estimate", hardware,
                                "instead of measuring, estimate the costs on a host of these GPUs from the model's operators; "
                                "nothing is run: " +
                                    join(hardware_names(), ", "))
                    ->type_name("HARDWARE")
                    ->group(kModelGroup),
               hardware_names());
}

int run_estimate(const EstimateCommand& command, const Session& session) {
  const Hardware hardware = hardware_of(command.hardware);
  if (!command.refused.empty())
    throw Error("an estimate takes no " + command.refused, "--estimate",
                "leave what it does not take out; mptune plan takes devices and plans");
  const std::string path = command.output.path.empty() ? model_stem(command.model.model) + ".sqlite" : command.output.path;
  check_output(path, kSqliteMagic, command.output.force, {command.model.model});
  const DeviceOptions no_devices{};
  const tuner::TrainingSetup setup = make_setup(command.model, no_devices, command.step);
  const TemporaryFolder folder;
  ProgressLine progress(session);
  progress.update("estimating " + command.model.model + " on " + hardware.title, -1);
  estimate_profile(setup, folder.file("profile.sqlite"), hardware.name, session, wait_options(session));
  profiler::Recording recording = profiler::read_recording(folder.file("profile.sqlite"));
  if (!recording.profile)
    throw Error("mptune-worker estimated nothing", setup.model, "make sure that both programs are of the same build", ExitCode::internal);
  recording.environment.clear();  // this machine has nothing to do with it
  recording.training = training_spec(command.model, no_devices, command.step);
  recording.training.devices.clear();
  profiler::write_recording(recording, path, command.output.force);
  session.result(estimate_text(*recording.profile, hardware, path, session), estimate_json(*recording.profile, path));
  return 0;
}

}  // namespace mptune::reports

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>
#include <optional>

#include "planner/cost/pool_costs.h"
#include "planner/plan/file/plan_file.h"
#include "planner/plan/plan_words.h"
#include "planner/search/cut_places.h"
#include "profiler/base/error.h"
#include "profiler/base/rank.h"
#include "profiler/base/temporary_folder.h"
#include "profiler/base/text.h"
#include "profiler/base/units.h"
#include "profiler/device/list/device_list.h"
#include "profiler/trace/store/store.h"
#include "reports/cli/commands/commands.h"
#include "reports/cli/commands/fit_errors.h"
#include "reports/cli/commands/plan_output.h"
#include "reports/cli/commands/profile_estimate.h"
#include "reports/cli/commands/recordings.h"
#include "reports/cli/commands/worker_calls.h"
#include "reports/cli/options/options.h"
#include "reports/cli/options/plan_choice.h"
#include "reports/cli/options/rank_options.h"
#include "reports/cli/program/option_values.h"
#include "reports/cli/program/progress.h"
#include "reports/render/cost_jumps.h"
#include "reports/render/layer_table.h"
#include "reports/render/links_text.h"
#include "reports/render/report_text.h"
#include "reports/render/slow_kernels.h"
#include "reports/render/table.h"
#include "reports/render/units.h"
#include "reports/render/unmeasured.h"
#include "tuner/trial/plan_failed.h"
#include "tuner/worker/host/worker_process.h"

namespace mptune::reports {
namespace {

constexpr int kRecordedSteps = 10;
constexpr double kMeasuring = 0.8;  // share of the work, by which progress is shown

struct ProfileCommand {
  ModelOptions model;
  DeviceOptions devices;
  PlanChoice choice;
  StepOptions step;
  std::string steps;
  std::string measured;
  std::string estimate;
  OutputOptions output;
};

struct Profiled {
  Plan plan;
  std::vector<std::vector<std::string>> modules;
  tuner::Recorded recorded;
  profiler::Recording recording;
};

Plan chosen_plan(const ProfileCommand& command, const Session& session, tuner::TrainingSetup& setup, tuner::DescribedModel& model) {
  if (command.choice.plan.empty()) {
    check_before_model(command.choice, setup.devices, setup.batch);
    model = describe_model(setup, session);
    check_memory_format(command.choice, model.convolutions);
    Plan plan = plan_from_options(command.choice, setup.devices, setup.batch > 0 ? setup.batch : model.batch, model.layers);
    plan.options.precision = setup.precision;
    check_executable(plan, "--schedule");
    return plan;
  }
  check_one_plan(command.choice.any(), "--plan");
  const PlanFile file = load_plan_file(command.choice.plan);
  check_executable(file.plan, command.choice.plan);
  setup.devices = file.plan.devices;
  setup.pools.clear();
  setup.batch = file.plan.global_batch_size();
  take_precision(file.plan, command.step, command.choice.plan, setup);
  setup.whole_machine = whole_machine_device(parse_device_names(file.plan.devices));
  model = describe_model(setup, session);
  check_fingerprint(session, file, model, command.choice.plan, command.choice);
  return file.plan;
}

std::string output_of(const ProfileCommand& command) {
  return command.output.path.empty() ? model_stem(command.model.model) + ".sqlite" : command.output.path;
}

Profile capped(const Profile& profile, const tuner::TrainingSetup& setup) {
  return with_caps(profile, setup.devices, caps_of(setup.devices, setup));
}

/// Saves the profile of a plan that does not fit, so that `plan` can use it.
void keep_profile(const ProfileCommand& command, const Profile& profile, const Session& session) {
  profiler::Recording recording;
  recording.profile = profile;
  recording.training = training_spec(command.model, command.devices, command.step);
  const std::string path = output_of(command);
  profiler::write_recording(recording, path, command.output.force);
  session.say("what was measured is kept: " + ShellCommand("mptune plan").file(path).text());
}

/// Returns the profile with the caps and cut places within which the user allows the plan to be changed.
Profile with_caps_and_places(const ProfileCommand& command, const tuner::TrainingSetup& setup, const Profile& measured) {
  const Profile with = capped(planner::with_pool_devices(measured), setup);
  const std::string& pattern = command.choice.cut_at;
  return pattern.empty() ? with : planner::with_cut_places(with, planner::cut_places(pattern, with.layers));
}

void refuse_plan_over_caps(const ProfileCommand& command, const tuner::TrainingSetup& setup, const Plan& plan, const std::string& measured,
                           const Session& session) {
  const auto profile = profiler::read_recording(measured).profile;
  if (!profile) return;
  const Profile with = with_caps_and_places(command, setup, *profile);
  if (const planner::FitAnswer fit = fit_of(plan, setup.devices, with); fit.excess.bytes > 0) {
    keep_profile(command, capped(*profile, setup), session);
    throw does_not_fit(fit);
  }
}

/// Returns the profile of --measured; empty where it is not given.
std::optional<Profile> read_measured(const ProfileCommand& command) {
  if (command.measured.empty()) return std::nullopt;
  std::optional<Profile> profile = profiler::read_recording(command.measured).profile;
  if (!profile) throw Error("the file holds no profile", command.measured, "give a trace file that mptune profile wrote");
  return profile;
}

/// Measures layers and links, unless they were `measured` before: plans recorded with the same costs can be compared.
void obtain_profile(const ProfileCommand& command, const std::optional<Profile>& measured, const tuner::TrainingSetup& setup,
                    const tuner::DescribedModel& model, const Plan& plan, const std::string& path, const Session& session,
                    ProgressLine& progress) {
  if (!measured) {
    progress.begin_part(0, kMeasuring);
    progress.update("measuring layers and links", 0);
    return measure_profile(setup, path, {kMeasureSeconds}, command.choice, &plan, session, wait_options(session), progress);
  }
  profiler::Recording recording;
  recording.profile = measured;
  const Fingerprint& known = recording.profile->fingerprint;
  if (known.model != model.fingerprint.model || known.input != model.fingerprint.input)
    throw Error("the profile is of another model", command.measured, "leave --measured out");
  if (measured->precision != plan.options.precision)
    throw Error(std::string("the profile was measured in ") + name_of(measured->precision) + ", the plan computes in " +
                    name_of(plan.options.precision),
                command.measured, "leave --measured out");
  const Profile priced = planner::with_pool_devices(*recording.profile);
  for (const std::string& device : setup.devices)
    if (std::ranges::find(priced.devices, device, &ProfileDevice::name) == priced.devices.end())
      throw Error("the profile does not know " + device, command.measured, "leave --measured out, or name the devices it was measured on");
  profiler::write_recording(recording, path, false);
}

Profiled profile_and_record(const ProfileCommand& command, const RankPlace& place, const Session& session) {
  tuner::TrainingSetup setup = make_setup(command.model, command.devices, command.step);
  const int steps = static_cast<int>(parse_whole(command.steps, "--steps", 1, 10000, kRecordedSteps));
  const std::optional<Profile> measured = read_measured(command);
  tuner::DescribedModel model;
  Profiled profiled;
  profiled.plan = chosen_plan(command, session, setup, model);
  check_ranks(setup.devices, place);
  check_reduce(setup.reduce, setup.devices);
  setup.batch = profiled.plan.global_batch_size();
  profiled.modules = stage_modules(profiled.plan, model.layers);
  const TemporaryFolder folder;
  setup.sleep_profile = folder.file("profile.sqlite");
  ProgressLine progress(session);
  obtain_profile(command, measured, setup, model, profiled.plan, folder.file("profile.sqlite"), session, progress);
  refuse_plan_over_caps(command, setup, profiled.plan, folder.file("profile.sqlite"), session);
  progress.begin_part(measured ? 0 : kMeasuring, 1);
  progress.update("recording " + describe(profiled.plan), 0);
  try {
    profiled.recorded = record_plan(setup, profiled.plan, steps, folder.file("trace.sqlite"), folder.file("profile.sqlite"),
                                    wait_options(session), progress);
  } catch (const tuner::PlanFailed& failed) {
    const auto* memory = std::get_if<tuner::OutOfMemory>(&failed.outcome());
    const auto profile = profiler::read_recording(folder.file("profile.sqlite")).profile;
    if (memory != nullptr && profile) {
      const Profile with = with_caps_and_places(command, setup, *profile);
      keep_profile(command, capped(*profile, setup), session);
      throw ran_out_anyway(failed, *memory, profiled.plan, setup.devices, with);
    }
    throw;
  }
  profiled.recording = profiler::read_recording(folder.file("trace.sqlite"));
  if (!profiled.recording.trace || !profiled.recording.profile)
    throw Error("mptune-worker recorded nothing", setup.model, "make sure that both programs are of the same build", ExitCode::internal);
  std::vector<TraceDevice>& recorded_devices = profiled.recording.trace->devices;
  const std::vector<std::int64_t>& peaks = profiled.recorded.peak_bytes;
  for (std::size_t d = 0; d < std::min(peaks.size(), recorded_devices.size()); ++d) recorded_devices[d].peak_bytes = peaks[d];
  profiled.recording.plan_json = plan_to_json(profiled.plan, profiled.modules);
  profiled.recording.training = training_spec(command.model, command.devices, command.step);
  return profiled;
}

double overhead_percent(const tuner::Recorded& recorded) {
  return recorded.step_off_s > 0 ? (recorded.step_on_s / recorded.step_off_s - 1) * 100 : 0;
}

planner::Json profile_json(const Profiled& profiled, const TraceReport& report, const std::string& path) {
  planner::Json json = result_of("profile");
  json["trace"] = path;
  json["plan"] = planner::plan_object(profiled.plan, profiled.modules);
  json["plan_key"] = plan_key(profiled.plan);
  if (!profiled.recorded.step_s.empty()) put_step(json, profiled.recorded.step_s);
  put_trace(json, report);
  json["overhead"] = {{"step_off_s", profiled.recorded.step_off_s},
                      {"step_on_s", profiled.recorded.step_on_s},
                      {"percent", overhead_percent(profiled.recorded)}};
  json["clock_error_s"] = std::max(report.clock_error_s, profiled.recorded.clock_error_s);
  json["layers"] = layers_json(*profiled.recording.profile);
  json["cost_jumps"] = cost_jumps_json(*profiled.recording.profile);
  json["slow_kernels"] = slow_kernels_json(*profiled.recording.profile);
  json["links"] = links_json(*profiled.recording.profile);
  json["co_running_slowdown"] = profiled.recording.profile->co_running_slowdown;
  return json;
}

/// Lists layers for which some products can't be split off the backward.
std::string unsplit_text(const Profile& profile, const TextStyle& style) {
  std::string text;
  for (const ProfileLayer& layer : profile.layers) {
    if (layer.unsplit_share <= 0) continue;
    const std::string line = fmt::format("{}: a split backward computes the gradients of {} of its weights with those of its inputs",
                                         layer.name, format_percent(layer.unsplit_share));
    text += join(wrap(line, style.width), "\n") + "\n";
  }
  return text;
}

/// Returns the lines on the file and on the command that comes next.
std::vector<std::string> profile_next_lines(const Profiled& profiled, const std::string& path, const TextStyle& style) {
  std::vector<std::string> lines;
  if (const Samples& step_s = profiled.recorded.step_s; !step_s.empty()) {
    lines = wrap(fmt::format("without recording the step takes {}; recording adds {:.1f} %",
                             format_measured(median(step_s), interval95(step_s), step_s.size()), overhead_percent(profiled.recorded)),
                 style.width);
  }
  if (ranks_of(profiled.plan.devices) > 1)
    lines.push_back(
        fmt::format("the clocks of the ranks are known to each other within {}", format_seconds(profiled.recorded.clock_error_s)));
  lines.push_back("trace   " + path);
  lines.push_back(ShellCommand("mptune plan").file(path).text());
  return lines;
}

/// Renders the answer and what to do next, then what the answer rests on; the last line says again what to do next.
std::string profile_text(const Profiled& profiled, const TraceReport& report, const std::string& path, const Session& session) {
  const TextStyle& style = session.style;
  const Profile& profile = *profiled.recording.profile;
  const Listing listing = session.options.verbose ? Listing::all : Listing::few;
  const std::vector<std::string> next = profile_next_lines(profiled, path, style);
  std::string text = render_trace_report(report, style, next) + "\n" + render_details(report, style) + "\n";
  text += heading(style, "Plan") + render_stages(profiled.plan, profiled.modules, style) + "\n";
  text += layer_table(profile, profiled.plan.microbatch_sizes.front(), "on " + profile.classes.front().name, listing, style);
  if (listing == Listing::all) text += unsplit_text(profile, style);
  text += cost_jumps_text(profile, style) + slow_kernels_text(profile, style) + links_text(profile, listing);
  return text + paint(style, Color::bold, next.back()) + "\n";
}

/// Returns an option that was given and that an estimate, which has neither devices nor a plan, does not take; "" for none.
std::string refused_by_estimate(const ProfileCommand& command) {
  const DeviceOptions& devices = command.devices;
  if (devices.devices != "auto") return "--devices";
  if (!devices.link.empty()) return "--link";
  if (!devices.memory.empty()) return "--memory";
  if (!devices.rank_count.empty()) return "--ranks";
  if (!devices.reduce.empty()) return "--reduce";
  if (!command.steps.empty()) return "--steps";
  if (!command.measured.empty()) return "--measured";
  if (!command.choice.plan.empty()) return "--plan";
  return command.choice.any() ? "options of a plan" : "";
}

int run_profile(const ProfileCommand& command, const RankPlace& place, const Session& session) {
  const std::string path = output_of(command);
  session.say("profiling " + command.model.model);
  check_output(path, kSqliteMagic, command.output.force, {command.model.model, command.choice.plan, command.step.data, command.measured});
  const Profiled profiled = profile_and_record(command, place, session);
  if (!profiled.recorded.warning.empty()) session.warn(profiled.recorded.warning);
  profiler::write_recording(profiled.recording, path, command.output.force);
  TraceReport report = build_trace_report(*profiled.recording.trace, {}, describe(profiled.plan));
  const Profile priced = planner::with_pool_devices(*profiled.recording.profile);
  add_plan(report, profiled.plan, &priced);
  session.result(profile_text(profiled, report, path, session), profile_json(profiled, report, path));
  return verdict_code(session, report);
}

}  // namespace

void add_profile_command(CLI::App& program, CommandBody& chosen) {
  auto command = std::make_shared<ProfileCommand>();
  CLI::App* app = program.add_subcommand("profile", "Measures every layer and link, then records pipelined training steps of one plan");
  add_model_options(*app, command->model);
  add_device_options(*app, command->devices, true);
  add_rank_options(*app, command->devices);
  add_plan_options(*app, command->choice, false);
  add_plan_file_options(*app, command->choice, "record this plan instead of one from options");
  add_step_options(*app, command->step);
  app->add_option("--steps", command->steps, "recorded steps; default: 10")->type_name("N")->group(kStepGroup);
  CLI::Option* measured =
      app->add_option("--measured", command->measured, "take the costs of layers and links from this trace file instead of measuring them")
          ->type_name("FILE")
          ->group(kModelGroup);
  offer_values(*measured, {kFileValue});
  add_estimate_option(*app, command->estimate);
  add_output_options(*app, command->output, "trace file; default: MODEL.sqlite in the current folder");
  app->footer(
      "Example:\n  mptune profile resnet50 --input 3x64x64 --batch 32 --devices cpu:0,cpu:1\n  mptune profile -- python train.py --epochs "
      "1\n\n" +
      program_recording_help());
  app->callback([command, &chosen] {
    chosen = [command](const Session& session) {
      if (!command->estimate.empty())
        return run_estimate({command->model, command->step, command->output, command->estimate, refused_by_estimate(*command)}, session);
      return with_ranks(command->devices, command->model.model,
                        [&](const RankPlace& place) { return run_profile(*command, place, session); });
    };
  });
}

}  // namespace mptune::reports

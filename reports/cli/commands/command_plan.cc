#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <memory>
#include <optional>

#include "planner/cost/pool_costs.h"
#include "planner/plan/numerics.h"
#include "planner/search/cut_places.h"
#include "planner/search/found_plan_file.h"
#include "planner/search/search.h"
#include "planner/search/search_divisions.h"
#include "planner/search/space/given_choices.h"
#include "profiler/base/error.h"
#include "profiler/base/index.h"
#include "profiler/base/nearest_word.h"
#include "profiler/base/text.h"
#include "profiler/base/units.h"
#include "profiler/device/list/device_list.h"
#include "reports/cli/commands/commands.h"
#include "reports/cli/commands/fit_errors.h"
#include "reports/cli/commands/plan_devices.h"
#include "reports/cli/commands/plan_input.h"
#include "reports/cli/commands/plan_objective.h"
#include "reports/cli/commands/plan_output.h"
#include "reports/cli/commands/plan_placement.h"
#include "reports/cli/commands/plan_topology.h"
#include "reports/cli/options/options.h"
#include "reports/cli/options/plan_choice.h"
#include "reports/cli/options/runtime_option.h"
#include "reports/cli/options/search_limit.h"
#include "reports/cli/program/interrupt_watchdog.h"
#include "reports/cli/program/option_values.h"
#include "reports/cli/program/progress.h"
#include "reports/render/plan_text.h"
#include "reports/render/search_text.h"
#include "reports/values/follow_up.h"
#include "reports/values/plan_report.h"
#include "tuner/runtime/graph/capabilities.h"
#include "tuner/worker/host/interrupt.h"

namespace mptune::reports {
namespace {

/// Each point of the front needs at most this share of the memory of the point before it.
constexpr double kFrontShare = 0.85;
/// Limits of the work without --time, in simulated actions: the same plans on every machine, after some seconds at most as a rule.
constexpr std::int64_t kSearchActions = 4'000'000;
constexpr std::int64_t kPoolActions = 2 * kSearchActions;  // there are many lists of devices
constexpr std::int64_t kFrontActions = 400'000;
/// The part of --time that the search for the best plan may use; the front of time against memory gets the rest.
constexpr double kSearchPart = 0.8;
const std::vector<std::string> kObjectives = {"simulate", "closed-form", "max-load", "aceso"};

struct PlanCommand {
  std::string profile;
  std::string devices, memory, link, topology;
  std::string batch;
  std::string objective;
  std::string runtime;
  std::string encoder_layers;
  std::string time;
  PlanChoice choice;
  OutputOptions output;
};

/// Returns --objective, checked against the file. A placement graph has no schedule, so only max-load applies to it.
std::string objective_of(const PlanCommand& command, profiler::ProfileFormat format) {
  const bool placement = format == profiler::ProfileFormat::placement;
  std::string objective = command.objective.empty() ? (placement ? "max-load" : "simulate") : command.objective;
  if (std::ranges::find(kObjectives, objective) == kObjectives.end())
    throw Error("'" + objective + "' is not an objective", "--objective",
                did_you_mean(objective, kObjectives, "use simulate, closed-form, max-load or aceso"));
  if (placement && objective != "max-load")
    throw Error(objective + " does not apply to this file", command.profile, "a placement graph has no schedule: use max-load");
  if (objective != "simulate" && !command.time.empty())
    throw Error("--time bounds the search by simulation, not that by " + objective, "--time", "leave it out, or use --objective simulate");
  if (objective != "simulate" && std::ranges::any_of(split(command.devices, ','), names_pool))
    throw Error(objective + " does not search how a pool is divided", "--devices", "name the devices, or use --objective simulate");
  if (objective != "simulate" && !command.choice.threads.empty())
    throw Error(objective + " knows devices with one thread per core only", "--threads", "leave it out, or use --objective simulate");
  if (objective != "simulate" && !command.runtime.empty())
    throw Error(objective + " knows no runtime: it is a formula", "--runtime", "leave it out, or use --objective simulate");
  if (objective == "aceso" && format != profiler::ProfileFormat::operator_tables)
    throw Error("aceso does not apply to this file", command.profile, "give the prefix of operator tables, or use closed-form");
  return objective;
}

/// What the search found, and by which objective.
struct Found {
  SearchResult result;
  std::vector<Candidate> front;                       ///< time against memory; empty for other objectives
  std::optional<planner::ObjectiveResult> objective;  ///< set for any objective but the simulated step
  bool runs = true;
  double search_s = 0;
  std::int64_t divisions = 0;  ///< ways to divide pools that were searched; 0: there is no pool
};

/// Returns the best plan of another objective as a search result, with the simulator's prediction.
SearchResult search_by_objective(const planner::ObjectiveResult& found, const CostModel& cost) {
  SearchResult result;
  const Plan& plan = std::get<Plan>(found.best);
  result.ranked.push_back({plan, predict(plan, cost)});
  result.lower_bound_s = found.lower_bound_s;
  result.simulated = 1;
  return result;
}

int run_placement(const PlanCommand& command, const Session& session) {
  PlanChoice without_stages = command.choice;
  without_stages.stages.clear();
  if (without_stages.any() || !command.time.empty() || !command.devices.empty() || !command.batch.empty() || !command.link.empty() ||
      !command.output.path.empty())
    throw Error("a placement graph takes only --stages, --memory and --objective", command.profile, "leave the other options out");
  return plan_placement(command.profile, command.choice.stages, command.memory, session);
}

/// Splits a profile by its largest load, which depends on the micro-batch size but on no other option of a plan.
int run_least_load(const PlanCommand& command, const PlanInput& input, const SearchSpace& space, const Session& session) {
  const PlanChoice& choice = command.choice;
  for (const std::string* option : {&choice.virtual_stages, &choice.cuts, &choice.schedule, &choice.recompute, &choice.replicas}) {
    if (!option->empty()) {
      throw Error("the objective max-load takes neither cuts nor a schedule", "--objective",
                  "leave --virtual, --cuts, --schedule, --recompute and --replicas out, or use simulate");
    }
  }
  if (!command.output.path.empty()) throw Error("the largest load makes no plan file", "-o", "leave it out, or use --objective simulate");
  ProfilePlacement placement{planner::with_cut_places(input.profile, space.cut_places), space.devices, space.memory_bytes, space.batch,
                             input.assumed};
  if (space.stage_counts.size() == 1) {
    const auto stages = as_index(space.stage_counts.front());
    placement.devices.resize(std::min(stages, placement.devices.size()));
  }
  if (space.microbatch_counts.size() == 1)
    placement.samples = (space.batch + space.microbatch_counts.front() - 1) / space.microbatch_counts.front();
  return plan_profile_placement(placement, session);
}

/// Sorts plans that were searched whether they run or not. A best plan that does not run is what was asked for, and is listed as not
/// executable; where the best plan runs, plans that don't are no alternatives to it. Returns true if it runs.
bool set_apart_not_executable(SearchResult& result) {
  const auto runs = [](const Candidate& candidate) { return executable(candidate.plan, tuner::kRuntime); };
  const auto other = std::ranges::find_if_not(result.ranked, runs);
  if (other == result.ranked.end()) return true;
  const bool best_runs = other != result.ranked.begin();
  result.not_executable.push_back({*other, *missing_capability(other->plan, tuner::kRuntime)});
  if (best_runs) std::erase_if(result.ranked, [&](const Candidate& candidate) { return !runs(candidate); });
  return best_runs;
}

/// What a command asks for.
struct Asked {
  PlanInput input;
  SearchSpace space;
};

/// Returns what a command asks for. `recording`: content of the file; nothing for a public profile, which is read again for other devices.
Asked asked_of(PlanCommand command, profiler::ProfileFormat format, const std::optional<PlanInput>& recording) {
  const profiler::OperatorModel operators = operator_model_of(command.profile, format, command.encoder_layers);
  Asked asked;
  asked.input = recording ? *recording : public_input(command.profile, format, command.link, command.batch, operators, command.choice);
  const int batch = static_cast<int>(parse_whole(command.batch, "--batch", 1, 1 << 20, asked.input.profile.batch));
  asked.space = chosen_space(command.choice, command.devices, command.memory, batch, asked.input);
  asked.input.profile.runtime = parse_runtime(command.runtime);
  restrict_to(asked.input.profile.runtime, asked.space);
  // --schedule may name a schedule that the runtime can't execute: it is planned and simulated all the same.
  if (!planner::why_not_executable(asked.space, tuner::kRuntime).empty()) asked.space.capabilities = {};
  return asked;
}

/// Returns the command with other options.
PlanCommand with_options(PlanCommand command, const std::vector<planner::FieldValue>& options) {
  command.choice = with_options(command.choice, options);
  command.batch = option_or(options, planner::Field::batch, command.batch);
  command.memory = option_or(options, planner::Field::memory, command.memory);
  return command;
}

/// Returns why there is no plan.
Error no_plan(const PlanCommand& command, const Asked& asked, const SearchResult& result, const SearchLimit& limit) {
  const auto interrupted = [] { return tuner::interrupt_error("mptune plan", "no plan was found yet; start the command again"); };
  if (SearchLimit::interrupted()) return interrupted();
  if (limit.out_of_time(kSearchPart))
    return {"no plan that fits was found in time", "--time", "give more time, or leave --time out", ExitCode::no_result};
  const profiler::ProfileFormat format = profiler::profile_format(command.profile);
  std::optional<PlanInput> recording;
  if (format == profiler::ProfileFormat::sqlite) recording = recorded_input(command.profile, command.link);
  const auto search_with = [&](const std::vector<planner::FieldValue>& options) {
    if (SearchLimit::interrupted()) return SearchResult{};
    std::optional<Asked> changed = if_options_agree([&] { return asked_of(with_options(command, options), format, recording); });
    return changed ? planner::quick_search(std::move(changed->space), changed->input.profile) : SearchResult{};
  };
  Error error = nothing_fits(asked.space, result, asked.input.profile, search_with);
  return SearchLimit::interrupted() ? interrupted() : error;
}

std::vector<Candidate> front_of(SearchSpace space, const Profile& profile, const SearchResult& result, SearchLimit& limit) {
  limit.bound(1, kFrontActions, space);
  space.improved = {};
  if (SearchLimit::interrupted()) return {};
  return memory_front(space, profile, kFrontShare, result.ranked);
}

/// Narrows the space to the division of the best plan: the front and the caps of the report are then of this division.
void narrow_to_fastest(Found& found, SearchSpace& space) {
  found.divisions = std::ssize(space.divisions);
  const std::vector<Division> fastest = planner::fastest_divisions(space, found.result, 1);
  space.divisions.clear();
  if (fastest.empty()) return;
  space.devices = fastest.front().devices;
  space.memory_bytes = fastest.front().memory_bytes;
}

Found search(const PlanCommand& command, const std::string& objective, Asked& asked, const Session& session) {
  const PlanInput& input = asked.input;
  SearchSpace& space = asked.space;
  const Profile& profile = input.profile;
  ProgressLine progress(session);
  progress.update("searching plans for " + profile.model, -1);
  space.improved = [&](const Candidate& candidate) { progress.note("best " + format_seconds(candidate.prediction.step_s)); };
  SearchLimit limit(command.time);
  limit.bound(kSearchPart, space.divisions.empty() ? kSearchActions : kPoolActions, space);
  Found found;
  if (objective == "simulate") {
    leave_time_to_finish();
    found.result = search_plans(space, profile);
  } else {
    found.objective = minimized(objective, space, {command.profile, input.operators}, profile);
    found.result = search_by_objective(*found.objective, CostModel(profile));
  }
  if (found.result.ranked.empty()) {
    space.improved = {};
    space.stop = {};
    throw no_plan(command, asked, found.result, limit);
  }
  found.runs = set_apart_not_executable(found.result);
  if (!space.divisions.empty()) narrow_to_fastest(found, space);
  if (!found.objective) found.front = front_of(space, profile, found.result, limit);
  found.search_s = limit.elapsed_s();
  space.improved = {};
  space.stop = {};
  return found;
}

std::string objective_text(const std::string& name, const planner::ObjectiveResult& found) {
  std::vector<std::string> peaks;
  for (const std::int64_t bytes : found.peak_bytes) peaks.push_back(format_bytes(bytes));
  return fmt::format(
      "by {} the step takes {:.4g} s, no pipeline less than {:.4g} s (gap {}), and its peaks are {}; all else here is the simulator's",
      name, found.value_s, found.lower_bound_s, format_percent(found.gap), join(peaks, ", "));
}

/// Adds a note on numbers of cores of the best plan that were not measured.
void add_interpolated(const Found& found, PlanInput& input) {
  std::vector<std::string> counts;
  for (const int cores : planner::interpolated_cores(input.profile, found.result.ranked.front().plan.devices))
    counts.push_back(std::to_string(cores));
  if (!counts.empty())
    input.assumed.push_back("costs on " + join(counts, " and ") +
                            " cores that lie between those on fewer and on more cores that were measured");
}

std::vector<std::string> notes_of(const Found& found, const std::string& objective, const PlanInput& input) {
  std::vector<std::string> notes;
  if (found.objective) notes.push_back(objective_text(objective, *found.objective));
  notes.push_back(fmt::format("{} plan{} simulated in {}", format_count(found.result.simulated), found.result.simulated == 1 ? "" : "s",
                              format_seconds(found.search_s)));
  if (found.divisions > 0) {
    notes.push_back(fmt::format("{} ways to divide {} searched; the best: {}", found.divisions, names_of(input.pools),
                                join(found.result.ranked.front().plan.devices, ", ")));
  }
  if (std::string searched = text_of(found.result.stages_per_device); !searched.empty()) notes.push_back(std::move(searched));
  if (const auto changed = planner::changed_numerics(found.result.ranked.front().plan, input.profile.layers))
    notes.push_back(text_of(*changed));
  if (std::string runtime = runtime_note(input.profile.runtime); !runtime.empty()) notes.push_back(std::move(runtime));
  for (const std::string& assumption : input.assumed) notes.push_back("assumed " + assumption);
  return notes;
}

/// Returns the plan file, and the command that trains with it or why there is none.
std::vector<std::string> next_lines(const Found& found, const PlanInput& input, const std::string& path, bool recorded) {
  std::vector<std::string> lines = {"plan    " + path};
  const TrainingSpec& training = input.training;
  const Plan& plan = found.result.ranked.front().plan;
  if (!input.profile.estimated.empty()) {
    lines.push_back("its devices are not of this machine: mptune tune trains where there are some");
    return lines;
  }
  if (!found.runs) {
    lines.push_back(std::string("the runtime refuses it: ") + text_of(found.result.not_executable.front().missing));
  } else if (recorded && training.model.empty()) {
    lines.emplace_back("the profile does not hold the model's options: give them to run, with");
    lines.push_back("--plan " + shell_word(absolute_path(path)));
  } else if (recorded) {
    for (const std::string& file : bare_files(training))
      lines.push_back("put its folder in front of " + file + ", which the profile does not hold:");
    lines.push_back(command_with_plan_file(training, plan, path));
  }
  return lines;
}

planner::Json plan_json(const Found& found, const PlanReport& report, const std::string& objective, const PlanInput& input,
                        const std::string& path) {
  planner::Json json = searched_plan_json(found.result, found.front, input.profile, found.search_s, path);
  json["memory"] = memory_json(report.trace.memory);
  json["assumed"] = input.assumed;
  json["runtime"] = name_of(input.profile.runtime);
  if (found.objective) {
    json["gap"] = gap_json(found.objective->gap);
    json["objective"] = {{"name", objective},
                         {"step_s", found.objective->value_s},
                         {"lower_bound_s", found.objective->lower_bound_s},
                         {"gap", gap_json(found.objective->gap)},
                         {"peak_bytes", found.objective->peak_bytes},
                         {"fits", report.excess_bytes <= 0}};
  }
  return json;
}

/// Adds a note on the halves of a backward that was measured as a whole, if the plan found relies on them.
void add_assumed_halves(const Found& found, const CostModel& cost, PlanInput& input) {
  const auto splits = [](const Candidate& candidate) {
    return std::ranges::any_of(candidate.plan.actions, [](const std::vector<Action>& row) {
      return std::ranges::find(row, ActionKind::backward_input, &Action::kind) != row.end();
    });
  };
  if (cost.assumes_halves() && !found.result.ranked.empty() && splits(found.result.ranked.front()))
    input.assumed.emplace_back(
        "half of a backward for the gradients of inputs and half for those of weights: the profile has the whole only");
}

/// Says what the user has and can do after an interrupt.
std::string best_so_far(const std::string& path) {
  return path + " is the best plan found so far; start the command again to search on to the end";
}

int run_search(const PlanCommand& command, Asked asked, const std::string& objective, bool recorded, const Session& session) {
  PlanInput& input = asked.input;
  const Profile& profile = input.profile;
  const std::string path = command.output.path.empty() ? model_stem(profile.model) + ".plan.json" : command.output.path;
  check_plan_output(path, command.output.force, {command.profile});
  const Found found = search(command, objective, asked, session);
  const CostModel cost(profile, found.result.ranked.front().plan);
  const std::string now = utc_text(std::chrono::system_clock::now());
  add_assumed_halves(found, cost, input);
  add_interpolated(found, input);
  PlanFile file = planner::found_plan_file(found.result, profile, now, compared_with);
  file.training = input.training;
  save_plan_file(file, path, command.output.force);
  set_interrupt_remedy(best_so_far(path));
  PlanReport report = build_plan_report(found.result, found.front, cost, asked.space);
  report.runs = found.runs;
  if (found.objective) report.lower_bound_s = 0;
  report.next = next_lines(found, input, path, recorded);
  report.notes = notes_of(found, objective, input);
  session.result(render_plan(report, session.style, session.options.verbose ? Listing::all : Listing::few),
                 plan_json(found, report, objective, input, path));
  if (!SearchLimit::interrupted()) return 0;
  const tuner::InterruptText interrupt = tuner::interrupt_text(best_so_far(path));
  session.warn(interrupt.what + ": " + interrupt.remedy);
  return static_cast<int>(interrupt.code);
}

TopologyCommand on_paper(const PlanCommand& command) {
  const bool simulated = command.objective.empty() || command.objective == "simulate";
  const char* refused = !command.devices.empty() ? "--devices" : !command.link.empty() ? "--link" : !simulated ? "--objective" : "";
  return {command.profile, command.topology,       command.batch, command.memory,
          command.time,    command.encoder_layers, refused,       parse_runtime(command.runtime),
          command.choice,  command.output};
}

int run_plan(const PlanCommand& command, const Session& session) {
  session.say("reading " + command.profile);
  if (!command.topology.empty()) return plan_on_topology(on_paper(command), session);
  const profiler::ProfileFormat format = profiler::profile_format(command.profile);
  const std::string objective = objective_of(command, format);
  (void)operator_model_of(command.profile, format, command.encoder_layers);  // refuses --encoder-layers for other files
  if (format == profiler::ProfileFormat::placement) return run_placement(command, session);
  std::optional<PlanInput> recording;
  if (format == profiler::ProfileFormat::sqlite) recording = recorded_input(command.profile, command.link);
  Asked asked = asked_of(command, format, recording);
  if (objective != "simulate") asked.space.divisions.clear();
  return objective == "max-load" ? run_least_load(command, asked.input, asked.space, session)
                                 : run_search(command, std::move(asked), objective, recording.has_value(), session);
}

}  // namespace

void add_plan_command(CLI::App& program, CommandBody& chosen) {
  auto command = std::make_shared<PlanCommand>();
  CLI::App* app = program.add_subcommand("plan", "Searches plans by simulation, from a profile; needs no model and no device");
  CLI::Option* profile = app->add_option("PROFILE", command->profile, "trace file of mptune profile, or a public profile")->required();
  offer_values(*profile, {kFileValue});
  app->add_option(
         "--devices", command->devices,
         "some of the profile's devices, comma-separated, or a pool that was profiled, cpu:0-15/auto: how it is divided is searched, too; "
         "default: all")
      ->type_name("LIST")
      ->group(kDeviceGroup);
  app->add_option("--memory", command->memory, "cap per device: 2GiB, or cpu:0=1GiB,cpu:1=2GiB; default: as in the profile")
      ->type_name("SIZE")
      ->group(kDeviceGroup);
  app->add_option("--link", command->link, "copies between devices: 12GB/s,10us; default: as in the profile")
      ->type_name("BW[,LATENCY]")
      ->group(kDeviceGroup);
  offer_values(*app->add_option("--topology", command->topology, "machines on paper in place of the profile's: a topology file")
                    ->type_name("FILE")
                    ->group(kDeviceGroup),
               {kFileValue});
  CLI::Option* objective =
      app->add_option(
             "--objective", command->objective,
             "what to minimise: simulate (the simulated step), closed-form or aceso (the step by a formula), max-load (the largest "
             "load of a device); default: by file format")
          ->type_name("NAME")
          ->group(kSearchGroup);
  offer_values(*objective, kObjectives);
  app->add_option("--batch", command->batch, "samples per step (global batch); default: the profile's")->type_name("N")->group(kModelGroup);
  app->add_option("--encoder-layers", command->encoder_layers,
                  "encoder layers of the model, of which Aceso's operator tables list one; default: by the published name, else 24")
      ->type_name("N")
      ->group(kModelGroup);
  app->add_option("--time", command->time, "bound of the search: 10s, 5min; default: a limited amount of work, which takes seconds")
      ->type_name("TIME")
      ->group(kSearchGroup);
  add_runtime_option(*app, command->runtime);
  add_plan_options(*app, command->choice, true);
  add_output_options(*app, command->output, "plan file; default: MODEL.plan.json in the current folder");
  app->footer(
      "Public profiles: graph.txt of PipeDream and DAPPLE, the common prefix of Aceso's operator tables, JSON of dnn-partitioning.\n"
      "Options give what they lack: --stages K makes K equal devices device:0 .. device:K-1 (K / V with --virtual V), --link sets their "
      "links, --batch or "
      "--microbatches the samples of a step.\n\n"
      "Topology file, with one entry of hosts for each kind; shared says whose link to other hosts it is, host or device:\n"
      "  {\"schema\": \"mptune.topology/1\",\n"
      "   \"hosts\": [{\"name\": \"node\", \"count\": 64, \"devices\": 8, \"memory\": \"80GiB\",\n"
      "              \"link\": {\"bandwidth\": \"300GB/s\", \"latency\": \"5us\"}}],\n"
      "   \"between_hosts\": {\"bandwidth\": \"25GB/s\", \"latency\": \"10us\",\n"
      "                     \"shared\": \"device\"}}\n\n"
      "Example:\n  mptune plan resnet50.sqlite --memory 2GiB -o resnet50.plan.json\n"
      "  mptune plan vgg16.graph.txt --stages 4 --link 12GB/s,10us --microbatches 8\n"
      "  mptune plan resnet50.sqlite --topology cluster.json --batch 4096");
  app->callback([command, &chosen] { chosen = [command](const Session& session) { return run_plan(*command, session); }; });
}

}  // namespace mptune::reports

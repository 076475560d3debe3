#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <memory>
#include <optional>
#include <set>

#include "planner/cost/pool_costs.h"
#include "planner/plan/file/plan_file.h"
#include "planner/search/search.h"
#include "planner/search/space/suited_space.h"
#include "profiler/base/device_spec.h"
#include "profiler/base/error.h"
#include "profiler/base/rank.h"
#include "profiler/base/text.h"
#include "profiler/base/units.h"
#include "profiler/device/list/device_list.h"
#include "profiler/trace/store/store.h"
#include "reports/cli/commands/commands.h"
#include "reports/cli/commands/fit_errors.h"
#include "reports/cli/commands/tune_phases.h"
#include "reports/cli/commands/worker_calls.h"
#include "reports/cli/options/options.h"
#include "reports/cli/options/plan_choice.h"
#include "reports/cli/options/rank_options.h"
#include "reports/cli/options/tune_options.h"
#include "reports/cli/program/interrupt_watchdog.h"
#include "reports/cli/program/progress.h"
#include "reports/html/html.h"
#include "reports/render/report_text.h"
#include "reports/render/units.h"
#include "reports/values/follow_up.h"
#include "reports/values/study_report.h"
#include "tuner/study/budget.h"
#include "tuner/study/no_result.h"
#include "tuner/study/recommend/finalists.h"
#include "tuner/study/recommend/identity.h"
#include "tuner/study/recommend/recommended_plan_file.h"
#include "tuner/study/retry.h"
#include "tuner/study/tune.h"
#include "tuner/worker/host/live_runner.h"

namespace mptune::reports {
namespace {

constexpr int kTracedSteps = 5;
constexpr double kExplainSeconds = 1;

/// Refuses a plan on devices that are not profiled: its step could be measured but not explained.
void refuse_unlisted_devices(const Plan& plan, const SearchSpace& space, const std::string& file) {
  const auto lists = [](const std::vector<std::string>& names, const std::string& device) {
    return std::ranges::find(names, device) != names.end();
  };
  for (const std::string& device : plan.devices)
    if (!lists(space.devices, device) && !lists(space.whole_machine, device) &&
        std::ranges::none_of(space.divisions, [&](const Division& division) { return lists(division.devices, device); }))
      throw Error("the plan runs on " + device + ", which --devices does not list", file, "add it to --devices, or leave --plan out");
}

double parse_budget(const std::string& text) {
  const double budget_s = parse_seconds(text, "--budget");
  if (budget_s <= 0) throw Error("the budget must be longer than 0", "--budget", "give a time such as 150s");
  return budget_s;
}

void refuse_replacing(const TuneCommand& command) {
  if (command.output.force) throw Error("a study can't be both resumed and replaced", "--force", "leave --resume or --force out");
}

std::string folder_of(const TuneCommand& command) {
  return command.output.path.empty() ? model_stem(command.model.model) + ".study" : command.output.path;
}

/// The user's present plan; a resumed study keeps its text.
PlanFile present_plan(const TuneCommand& command) {
  return command.plan_text.empty() ? load_plan_file(command.choice.plan) : parse_plan_file(command.plan_text, command.choice.plan);
}

/// Refuses a folder in which the study can't be begun, or gone on with.
void check_folder(const TuneCommand& command) {
  if (command.resume) refuse_replacing(command);
  tuner::Study::check(folder_of(command), command.resume ? tuner::Study::Open::resume : tuner::Study::Open::create, command.output.force);
}

/// Refuses what can be refused before the model is loaded. Returns the stop rules.
tuner::TuneOptions checked_before_model(const TuneCommand& command, const tuner::TrainingSetup& setup) {
  tuner::TuneOptions options;
  options.most_trials = static_cast<int>(parse_whole(command.trials, "--trials", 1, 1000000, options.most_trials));
  options.target_percent = parse_number(command.target, "--target", 0, 100, options.target_percent);
  const std::vector<DeviceSpec> devices = parse_device_names(setup.devices);
  check_search_before_model(command.choice, devices, setup.batch,
                            divisions_with_caps(command.devices.memory, devices, parse_pools(setup.pools)));
  if (!command.choice.plan.empty()) check_executable(present_plan(command).plan, command.choice.plan);
  return options;
}

/// Returns the space that suits the model. Some of that is known only when its layers have run.
SearchSpace suited_to(const TuneCommand& command, const tuner::TrainingSetup& setup, const std::vector<ProfileLayer>& layers) {
  const std::vector<DeviceSpec> devices = parse_device_names(setup.devices);
  const std::vector<DevicePool> pools = parse_pools(setup.pools);
  SearchSpace space = planner::suited_space(search_space(command.choice, devices, memory_caps(command.devices.memory, devices, pools),
                                                         setup.batch, layers, divisions_with_caps(command.devices.memory, devices, pools)),
                                            layers);
  space.look_beyond = false;
  return space;
}

/// Returns the stop rules with what the model adds: the space of the search, and the user's present plan.
tuner::TuneOptions tune_options(tuner::TuneOptions options, const TuneCommand& command, const Session& session,
                                const tuner::TrainingSetup& setup, const tuner::DescribedModel& model) {
  check_memory_format(command.choice, model.convolutions);
  options.space = suited_to(command, setup, model.layers);
  options.asked = command.choice.given();
  check_schedule_executable(options.space);
  if (!command.choice.plan.empty()) {
    const PlanFile file = present_plan(command);
    check_executable(file.plan, command.choice.plan);
    check_fingerprint(session, file, model, command.choice.plan, command.choice);
    if (file.plan.global_batch_size() != setup.batch) {
      throw Error(fmt::format("the plan is for a batch of {}, not {}", file.plan.global_batch_size(), setup.batch), command.choice.plan,
                  "give the same --batch, or leave --plan out");
    }
    refuse_unlisted_devices(file.plan, options.space, command.choice.plan);
    if (file.plan.options.precision != setup.precision)
      throw Error(std::string("the plan computes in ") + name_of(file.plan.options.precision) + ", not in " + name_of(setup.precision),
                  command.choice.plan, std::string("give --precision ") + name_of(file.plan.options.precision) + ", or leave --plan out");
    options.current = file.plan;
  }
  return options;
}

/// Returns the study that MODEL names, and fills in the command with what it keeps; nothing where MODEL names a model.
std::optional<tuner::Study> study_of_model(TuneCommand& command) {
  const std::string folder = study_in_place_of_model(command);
  if (folder.empty()) return std::nullopt;
  refuse_replacing(command);
  tuner::Study study(folder, tuner::Study::Open::resume);
  restore_command(command, study.command(), folder);
  check_stored_files(command, study.command(), folder);
  return study;
}

tuner::Study open_study(const TuneCommand& command, const Session& session) {
  const std::string folder = folder_of(command);
  if (!command.resume) {
    const bool replaces = !command.output.force && tuner::Study::is_study(folder);
    tuner::Study study(folder, tuner::Study::Open::create, command.output.force);
    if (replaces) session.say("no plan was measured in " + folder + ": the study begins anew");
    return study;
  }
  tuner::Study study(folder, tuner::Study::Open::resume);
  check_stored_files(command, study.command(), folder);
  if (study.identity().empty()) session.say("nothing to resume in " + folder + ": the study begins anew");
  return study;
}

std::string compared_plans(const tuner::RecommendedPlan& best, const tuner::RecommendedPlan& other) {
  const auto peak = [](const tuner::RecommendedPlan& plan) { return plan.peak_bytes.empty() ? 0 : std::ranges::max(plan.peak_bytes); };
  const std::int64_t saved = peak(best) - peak(other);
  return (saved > 0 ? format_bytes(saved) + " less memory per device, " : "") + compared_time(other.step_s / best.step_s, 1) + ": " +
         other.description;
}

/// If no plan of the space is predicted to fit, throws an Error that names what would. Does not look for long: the budget may be spent.
void explain_infeasible(const TuneCommand& command, const Tuning& tuning, SearchSpace space, const tuner::Study& study) {
  auto profile = profiler::read_recording(study.profile_path()).profile;
  if (!profile) return;
  profile = planner::with_pool_devices(*std::move(profile));
  const double start_s = tuner::monotonic_seconds();
  space.stop = [start_s](double part) { return tuner::monotonic_seconds() - start_s >= part * kExplainSeconds; };
  const SearchResult result = search_plans(space, *profile);
  if (!result.ranked.empty() || tuner::was_cut_off(result)) return;
  const double explained_s = tuner::monotonic_seconds();
  space.stop = [explained_s](double) { return tuner::monotonic_seconds() - explained_s >= kExplainSeconds; };
  const auto search_with = [&](const std::vector<planner::FieldValue>& options) {
    TuneCommand changed = command;
    changed.choice = with_options(command.choice, options);
    changed.devices.memory = option_or(options, planner::Field::memory, command.devices.memory);
    tuner::TrainingSetup setup = tuning.setup;
    setup.batch = std::stoi(option_or(options, planner::Field::batch, std::to_string(setup.batch)));
    std::optional<SearchSpace> wanted = if_options_agree([&] { return suited_to(changed, setup, tuning.model.layers); });
    if (!wanted) return SearchResult{};
    wanted->stop = space.stop;
    return planner::quick_search(std::move(*wanted), *profile);
  };
  throw nothing_fits(space, result, *profile, search_with);
}

/// Keeps the plan of a failed trial in the study. Returns the command that runs it by itself.
std::string keep_failed_plan(const Tuning& tuning, const tuner::Study& study, const tuner::Trial& trial) {
  const std::string path = absolute_path(study.failed_plan_path(trial.plan_key));
  save_plan_file(new_plan_file(trial.plan, tuning.model.layers, tuning.model.fingerprint, utc_text(std::chrono::system_clock::now())), path,
                 true);
  return command_with_plan_file(tuning.training, trial.plan, path);
}

tuner::TuneResult run_trials(const TuneCommand& command, const Tuning& tuning, tuner::Study& study, const Session& session) {
  const auto& [setup, model, options, identity, training, ends_s, grace_s] = tuning;
  const tuner::WaitOptions wait = wait_options(session, ends_s + grace_s);
  ProgressLine progress(session, options.budget_s);
  progress.update("opening " + study.folder(), 0);
  double best_s = 0;
  const auto note_step = [&](const tuner::Series&, const tuner::StepTimed& step) {
    if (best_s != 0 && step.step_s >= best_s) return;
    best_s = step.step_s;
    progress.note("best step " + format_seconds(best_s));
  };
  tuner::LiveRunner runner(setup, note_step, wait);
  tuner::TuneServices services;
  services.check = [&](const tuner::PhaseTime& time) { return check_pieces(tuning, time, session, progress); };
  services.measure = [&](const tuner::PhaseTime& time) { return measure_layers(command, tuning, study, time, session, progress); };
  services.record = [&](const Plan& plan, const std::string& name) {
    const tuner::Recorded recorded = record_plan(setup, plan, kTracedSteps, study.trace_path(name), study.profile_path(), wait, progress);
    if (!recorded.warning.empty()) {
      session.warn(recorded.warning);
    }
  };
  std::set<int> told;
  services.keep_failed = [&](const tuner::Trial& trial) {
    const std::string shows = keep_failed_plan(tuning, study, trial);
    const bool memory = std::holds_alternative<tuner::OutOfMemory>(trial.outcome);
    if (!memory && told.insert(trial.id).second)
      session.say(trial.name + " failed: " + tuner::outcome_text(trial.outcome) + " (`" + shows + "` shows it)");
    return shows;
  };
  services.runner = &runner;
  services.clock = [] { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); };
  services.progress = [&](const std::string& what, double fraction) { progress.update(what, fraction); };
  try {
    return tuner::tune(options, study, services);
  } catch (const Error& error) {
    if (error.code() == ExitCode::infeasible) explain_infeasible(command, tuning, options.space, study);
    throw;
  }
}

/// Returns the identity, which is the same whatever folder the command is given in, and where study and files were moved together.
std::string identity_of(const TuneCommand& command, const Tuning& tuning) {
  tuner::TrainingSetup setup = tuning.setup;
  const std::string folder = folder_of(command);
  setup.model = model_in_study(setup.model, folder);
  setup.data = file_in_study(setup.data, folder);
  return tuner::study_identity(setup, command.devices.link, tuning.model.fingerprint);
}

/// Keeps the command in the study: from here on the study's folder is all that --resume needs.
void keep_command(tuner::Study& study, const TuneCommand& command, const Tuning& tuning) {
  const std::string text = stored_command(command, tuning.setup.devices, study.folder());
  if (study.identity().empty()) study.set_command(text);
  study.set_identity(tuning.identity);
  study.set_command(text);
}

int finish(const TuneCommand& command, const Tuning& tuning, tuner::Study& study, const Session& session) {
  const auto& [setup, model, options, identity, training, ends_s, grace_s] = tuning;
  tuner::TuneResult result = run_trials(command, tuning, study, session);
  const auto measured = profiler::read_recording(study.profile_path()).profile;
  if (!measured) throw Error("the study lost its profile", study.profile_path(), "start a new study", ExitCode::internal);
  const Profile profile = planner::with_pool_devices(*measured);
  PlanFile file = tuner::recommended_plan_file(result.recommendation, model.layers, profile.fingerprint, identity,
                                               utc_text(std::chrono::system_clock::now()), compared_plans);
  file.training = training;
  save_plan_file(file, study.plan_path(), true);
  const tuner::StudySummary summary{.devices = options.space.devices,
                                    .whole_machine = options.space.whole_machine,
                                    .batch = setup.batch,
                                    .lower_bound_s = result.lower_bound_s,
                                    .gap = result.gap,
                                    .elapsed_s = result.elapsed_s,
                                    .stop_reason = result.stop_reason,
                                    .training = training,
                                    .kinds = result.kind_facts,
                                    .stages_per_device = result.search.stages_per_device,
                                    .baselines = result.baselines,
                                    .asked = options.asked};
  study.set_summary(summary);
  StudyReport report = report_of_study(study, summary, result.recommendation, profile);
  report.report_file = study.report_path();
  write_text_file(report.report_file, render_study_html(report), true, {});
  planner::Json json = result_of("tune");
  json.update(study_json(report, model.layers));
  session.result(render_study_report(report, session.style, session.options.verbose ? Listing::all : Listing::few), json);
  return static_cast<int>(result.recommendation.decided ? ExitCode::done : ExitCode::inconclusive);
}

/// Returns the command that goes on, with more time where there was too little for a result; "" where every plan would fail again.
std::string command_to_go_on(const Error& error, const tuner::Study& study, double budget_s) {
  const std::string command = resume_command(study.folder());
  if (error.code() != ExitCode::no_result) return command;
  if (tuner::all_failed_for_good(study.trials())) return "";
  return command + " --budget " + larger_budget(error, budget_s);
}

/// Lets the corrected command replace a study in which no plan was measured. What an interrupt or the machine ended is kept to go on with.
void note_failure(tuner::Study& study, const Error& error) {
  const bool corrected = error.code() == ExitCode::usage || error.code() == ExitCode::infeasible || error.code() == ExitCode::no_result;
  try {
    const std::vector<tuner::Trial> trials = study.trials();
    const auto measured = [](const tuner::Trial& trial) { return tuner::measured_step(trial).has_value(); };
    if (corrected && std::ranges::none_of(trials, measured)) study.set_failed(true);
  } catch (const Error&) {
    // The study is damaged, which `error` says.
  }
}

/// Returns when the budget began: a program that works before this one, as the Python package does, says so in MPTUNE_BEGUN.
double begun_at() {
  const double now_s = tuner::monotonic_seconds();
  const char* given = std::getenv("MPTUNE_BEGUN");  // NOLINT(concurrency-mt-unsafe): nothing sets variables
  if (given == nullptr || *given == 0) return now_s;
  return parse_number(given, "MPTUNE_BEGUN", 0, now_s, now_s);
}

int run_tune(TuneCommand command, const RankPlace& place, const Session& session) {
  std::optional<tuner::Study> study = study_of_model(command);
  const double budget_s = parse_budget(command.budget);
  Tuning tuning;
  tuning.ends_s = begun_at() + budget_s;
  tuning.grace_s = tuner::grace_without_result(budget_s);
  session.say("tuning " + command.model.model + " for " + command.budget);
  tuning.training = training_spec(command.model, command.devices, command.step);
  tuning.setup = make_setup(command.model, command.devices, command.step);
  check_ranks(tuning.setup.devices, place);
  check_reduce(tuning.setup.reduce, tuning.setup.devices);
  if (!study) check_folder(command);
  const tuner::TuneOptions stop_rules = checked_before_model(command, tuning.setup);
  const double begun_s = tuner::monotonic_seconds();
  tuning.model = load_model(tuning, session, budget_s);
  if (tuning.setup.batch == 0) tuning.setup.batch = tuning.model.batch;
  tuning.options = tune_options(stop_rules, command, session, tuning.setup, tuning.model);
  tuning.options.worker_s = tuner::monotonic_seconds() - begun_s;
  tuning.options.budget_s = std::max(1e-3, tuning.ends_s - tuner::monotonic_seconds());
  if (!study) study = open_study(command, session);
  tuning.identity = identity_of(command, tuning);
  tuning.setup.sleep_profile = study->profile_path();
  keep_command(*study, command, tuning);
  study->set_failed(false);
  set_interrupt_remedy("every finished trial is kept, go on with `" + resume_command(study->folder()) + "`");
  try {
    return finish(command, tuning, *study, session);
  } catch (const Error& error) {
    note_failure(*study, error);
    throw with_resume_command(error, command_to_go_on(error, *study, budget_s));
  }
}

/// Returns the devices of a command that goes on with a study, which knows how many ranks there are.
DeviceOptions devices_of(TuneCommand command) {
  if (!command.devices.rank_count.empty() || rank_place().ranks > 1) return command.devices;
  if (study_of_model(command))
    if (const int ranks = ranks_of(split(command.devices.devices, ',')); ranks > 1) command.devices.rank_count = std::to_string(ranks);
  return command.devices;
}

}  // namespace

void add_tune_command(CLI::App& program, CommandBody& chosen) {
  auto command = std::make_shared<TuneCommand>();
  CLI::App* app = program.add_subcommand("tune", "Finds the fastest plan by profile, search and measured trials; resumable");
  add_model_options(*app, command->model);
  add_device_options(*app, command->devices, true);
  add_rank_options(*app, command->devices);
  add_plan_options(*app, command->choice, true);
  add_plan_file_options(*app, command->choice, "your present plan: measured as the baseline 'current'");
  add_step_options(*app, command->step);
  app->add_option("--budget", command->budget, "time for everything: 150s, 5min, 1h; default: 5min")
      ->type_name("TIME")
      ->group(kSearchGroup);
  app->add_option("--trials", command->trials, "largest number of trials; default: as many as the budget allows")
      ->type_name("N")
      ->group(kSearchGroup);
  app->add_option("--target", command->target, "stop when no untried plan can be faster by more than this percentage; default: 1")
      ->type_name("PCT")
      ->group(kSearchGroup);
  app->add_flag("--resume", command->resume, "go on with a study: --resume STUDY needs nothing else; with MODEL, the study of -o")
      ->group(kOutputGroup);
  add_output_options(*app, command->output, "study folder; default: MODEL.study in the current folder");
  app->footer(
      "Example:\n  mptune tune resnet50 --input 3x64x64 --devices cpu:0,cpu:1 --budget 150s\n  mptune tune "
      "resnet50 --devices cpu:0-15/auto\n  mptune tune --resume resnet50.study --budget 5min");
  app->callback([app, command, &chosen] {
    for (const CLI::Option* option : app->get_options())
      if (option->count() > 0) command->given.insert(option->get_name());
    chosen = [command](const Session& session) {
      return with_ranks(devices_of(*command), command->model.model,
                        [&](const RankPlace& place) { return run_tune(*command, place, session); });
    };
  });
}

}  // namespace mptune::reports

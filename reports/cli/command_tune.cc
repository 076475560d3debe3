#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <filesystem>
#include <memory>

#include "planner/cost/pool_costs.h"
#include "planner/plan_file.h"
#include "profiler/base/device_spec.h"
#include "profiler/base/error.h"
#include "profiler/base/text.h"
#include "profiler/base/units.h"
#include "profiler/device/device_list.h"
#include "profiler/store/store.h"
#include "reports/cli/commands.h"
#include "reports/cli/fit_errors.h"
#include "reports/cli/options.h"
#include "reports/cli/plan_choice.h"
#include "reports/cli/plan_output.h"
#include "reports/cli/progress.h"
#include "reports/cli/worker_calls.h"
#include "reports/html/html.h"
#include "reports/render/report_text.h"
#include "reports/render/units.h"
#include "reports/study_report.h"
#include "tuner/identity.h"
#include "tuner/live/live_runner.h"
#include "tuner/recommended_plan_file.h"
#include "tuner/tune.h"

namespace mptune::reports {
namespace {

constexpr int kTracedSteps = 5;

struct TuneCommand {
  ModelOptions model;
  DeviceOptions devices;
  PlanChoice choice;
  StepOptions step;
  std::string budget = "5min";
  std::string trials, target;
  bool resume = false;
  OutputOptions output;
};

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

tuner::TuneOptions tune_options(const TuneCommand& command, const Session& session, const tuner::TrainingSetup& setup,
                                const tuner::DescribedModel& model, double budget_s) {
  tuner::TuneOptions options;
  options.budget_s = budget_s;
  options.most_trials = static_cast<int>(parse_whole(command.trials, "--trials", 1, 1000000, options.most_trials));
  options.target_percent = parse_number(command.target, "--target", 0, 100, options.target_percent);
  check_memory_format(command.choice, model.convolutions);
  const std::vector<DeviceSpec> devices = parse_device_names(setup.devices);
  const std::vector<DevicePool> pools = parse_pools(setup.pools);
  options.space = search_space(command.choice, devices, memory_caps(command.devices.memory, devices, pools), setup.batch, model.layers,
                               divisions_with_caps(command.devices.memory, devices, pools));
  options.space.look_beyond = false;
  check_schedule_executable(options.space);
  if (!command.choice.plan.empty()) {
    const PlanFile file = load_plan_file(command.choice.plan);
    check_executable(file.plan, command.choice.plan);
    check_fingerprint(session, file, model, command.choice.plan, command.choice.strict);
    if (file.plan.global_batch_size() != setup.batch) {
      throw Error(fmt::format("the plan is for a batch of {}, not {}", file.plan.global_batch_size(), setup.batch), command.choice.plan,
                  "give the same --batch, or leave --plan out");
    }
    refuse_unlisted_devices(file.plan, options.space, command.choice.plan);
    options.current = file.plan;
  }
  return options;
}

tuner::Study open_study(const TuneCommand& command, const std::string& folder, const Session& session) {
  if (!command.resume) return {folder, tuner::Study::Open::create, command.output.force};
  if (command.output.force) throw Error("a study can't be both resumed and replaced", "--force", "leave --resume or --force out");
  tuner::Study study(folder, tuner::Study::Open::resume);
  if (study.identity().empty()) session.say("nothing to resume in " + folder + ": the study begins anew");
  return study;
}

/// The command that trains with the plan, with the options that a plan file does not hold. For sleeping devices, which can't train, the
/// command that records the plan.
std::string run_command_of(const TuneCommand& command, const Plan& plan, const std::string& plan_file) {
  const bool sleeping =
      std::ranges::any_of(plan.devices, [](const std::string& device) { return device_kind(device) == DeviceSpec::Kind::sleep; });
  std::string text = (sleeping ? "mptune profile " : "mptune run ") + shell_word(command.model.model);
  const auto add = [&](const char* option, const std::string& value) {
    if (!value.empty()) text += std::string(" ") + option + " " + shell_word(value);
  };
  add("--input", command.model.input);
  add("--link", command.devices.link);
  add("--optimizer", command.step.optimizer == "sgd" ? "" : command.step.optimizer);
  add("--lr", command.step.learning_rate);
  add("--loss", command.step.loss);
  add("--seed", command.step.seed);
  add("--data", command.step.data);
  add("--plan", plan_file);
  return text;
}

std::string compared_plans(const tuner::RecommendedPlan& best, const tuner::RecommendedPlan& other) {
  const auto peak = [](const tuner::RecommendedPlan& plan) { return plan.peak_bytes.empty() ? 0 : std::ranges::max(plan.peak_bytes); };
  const std::int64_t saved = peak(best) - peak(other);
  return (saved > 0 ? format_bytes(saved) + " less memory per device, " : "") + compared_time(other.step_s / best.step_s, 1) + ": " +
         other.description;
}

/// If no plan of the space is predicted to fit, throws an Error that names what would.
void explain_infeasible(const SearchSpace& space, const tuner::Study& study) {
  auto profile = profiler::read_recording(study.profile_path()).profile;
  if (!profile) return;
  profile = planner::with_pool_devices(*std::move(profile));
  const SearchResult result = search_plans(space, *profile);
  if (result.ranked.empty()) throw nothing_fits(space, result, CostModel(*profile, space.variants.front()));
}

/// Throws Error if the model's pieces do not train as the whole model does: a plan must not change the result.
void refuse_unless_agrees(tuner::TrainingSetup setup, double budget_s, const tuner::WaitOptions& wait, ProgressLine& progress) {
  setup.batch = 0;
  const tuner::CheckResult result = check_model(setup, std::nullopt, budget_s, wait, progress);
  if (const tuner::CheckPart* failed = tuner::first_failure(result)) {
    throw Error("the model's pieces do not train as the whole model does", tuner::difference_text(*failed),
                "see mptune check " + shell_word(setup.model) + "; " + failed->remedy);
  }
}

tuner::TuneResult run_trials(const tuner::TuneOptions& options, const tuner::TrainingSetup& setup, const PlanChoice& choice,
                             tuner::Study& study, const Session& session, double ends_s) {
  const tuner::WaitOptions wait = wait_options(session, ends_s);
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
  services.check = [&](double budget_s) { refuse_unless_agrees(setup, budget_s, wait, progress); };
  services.measure = [&](double budget_s) {
    measure_profile(setup, study.profile_path(), budget_s, choice, options.current ? &*options.current : nullptr, session, wait, progress);
    auto profile = profiler::read_recording(study.profile_path()).profile;
    if (!profile)
      throw Error("mptune-worker measured nothing", study.profile_path(), "make sure that both programs are of the same build",
                  ExitCode::internal);
    return std::move(*profile);
  };
  services.record = [&](const Plan& plan, const std::string& name) {
    const tuner::Recorded recorded = record_plan(setup, plan, kTracedSteps, study.trace_path(name), study.profile_path(), wait, progress);
    if (!recorded.warning.empty()) {
      session.warn(recorded.warning);
    }
  };
  services.runner = &runner;
  services.clock = [] { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); };
  services.progress = [&](const std::string& what, double fraction) { progress.update(what, fraction); };
  try {
    return tuner::tune(options, study, services);
  } catch (const Error& error) {
    if (error.code() == ExitCode::infeasible) explain_infeasible(options.space, study);
    throw;
  }
}

int run_tune(const TuneCommand& command, const Session& session) {
  const double ends_s = tuner::monotonic_seconds() + parse_budget(command.budget);
  session.say("tuning " + command.model.model + " for " + command.budget);
  const std::string folder = command.output.path.empty() ? model_stem(command.model.model) + ".study" : command.output.path;
  tuner::TrainingSetup setup = make_setup(command.model, command.devices, command.step);
  const tuner::DescribedModel model = describe_model(setup, session, ends_s);
  setup.batch = setup.batch > 0 ? setup.batch : model.batch;
  const tuner::TuneOptions options = tune_options(command, session, setup, model, std::max(1e-3, ends_s - tuner::monotonic_seconds()));
  const std::string identity = tuner::study_identity(setup, command.devices.link, model.fingerprint);
  tuner::Study study = open_study(command, folder, session);
  setup.sleep_profile = study.profile_path();
  study.set_identity(identity);

  tuner::TuneResult result = run_trials(options, setup, command.choice, study, session, ends_s);
  const auto measured = profiler::read_recording(study.profile_path()).profile;
  if (!measured) throw Error("the study lost its profile", study.profile_path(), "start a new study", ExitCode::internal);
  const Profile profile = planner::with_pool_devices(*measured);
  const PlanFile file = tuner::recommended_plan_file(result.recommendation, model.layers, profile.fingerprint, identity,
                                                     utc_text(std::chrono::system_clock::now()), compared_plans);
  save_plan_file(file, study.plan_path(), true);
  const tuner::StudySummary summary{.devices = options.space.devices,
                                    .whole_machine = options.space.whole_machine,
                                    .batch = setup.batch,
                                    .lower_bound_s = result.lower_bound_s,
                                    .gap = result.gap,
                                    .elapsed_s = result.elapsed_s,
                                    .stop_reason = result.stop_reason,
                                    .run_command = run_command_of(command, result.recommendation.recommended.trial.plan, study.plan_path()),
                                    .kinds = result.kind_facts,
                                    .stages_per_device = result.search.stages_per_device,
                                    .baselines = result.baselines};
  study.set_summary(summary);
  StudyReport report = report_of_study(study, summary, result.recommendation, profile);
  report.report_file = study.report_path();
  write_text_file(report.report_file, render_study_html(report), true, {});
  planner::Json json = result_of("tune");
  json.update(study_json(report, model.layers));
  session.result(render_study_report(report, session.style, session.options.verbose ? Listing::all : Listing::few), json);
  return static_cast<int>(result.recommendation.decided ? ExitCode::done : ExitCode::inconclusive);
}

}  // namespace

void add_tune_command(CLI::App& program, CommandBody& chosen) {
  auto command = std::make_shared<TuneCommand>();
  CLI::App* app = program.add_subcommand("tune", "Finds the fastest plan by profile, search and measured trials; resumable");
  add_model_options(*app, command->model);
  add_device_options(*app, command->devices, true);
  add_plan_options(*app, command->choice, true);
  add_plan_file_options(*app, command->choice, "your present plan: measured as the baseline 'current'");
  add_step_options(*app, command->step);
  app->add_option("--budget", command->budget, "time for everything: 150s, 5min, 1h; default: 5min")->type_name("TIME");
  app->add_option("--trials", command->trials, "largest number of trials")->type_name("N");
  app->add_option("--target", command->target, "stop when no untried plan can be faster by more than this percentage; default: 1")
      ->type_name("PCT");
  app->add_flag("--resume", command->resume, "continue the study in this folder");
  add_output_options(*app, command->output, "study folder; default: MODEL.study in the current folder");
  app->footer(
      "Example:\n  mptune tune resnet50 --input 3x64x64 --batch 32 --devices cpu:0,cpu:1 --budget 150s\n  mptune tune "
      "resnet50 --devices cpu:0-15/auto");
  app->callback([command, &chosen] { chosen = [command](const Session& session) { return run_tune(*command, session); }; });
}

}  // namespace mptune::reports

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <memory>

#include "planner/plan/file/plan_file.h"
#include "planner/plan/plan_words.h"
#include "profiler/base/device_spec.h"
#include "profiler/base/error.h"
#include "profiler/base/nearest_word.h"
#include "profiler/base/new_file.h"
#include "profiler/base/printable.h"
#include "profiler/base/rank.h"
#include "profiler/base/text.h"
#include "profiler/base/units.h"
#include "profiler/device/list/device_list.h"
#include "reports/cli/commands/commands.h"
#include "reports/cli/commands/fit_errors.h"
#include "reports/cli/commands/replan.h"
#include "reports/cli/commands/worker_calls.h"
#include "reports/cli/options/options.h"
#include "reports/cli/options/plan_choice.h"
#include "reports/cli/options/rank_options.h"
#include "reports/cli/options/training_options.h"
#include "reports/cli/program/option_values.h"
#include "reports/cli/program/progress.h"
#include "reports/render/report_text.h"
#include "reports/render/table.h"
#include "reports/render/units.h"
#include "tuner/trial/plan_failed.h"
#include "tuner/worker/host/worker_process.h"
#include "tuner/worker/step_log.h"

namespace mptune::reports {
namespace {

constexpr int kMostSteps = 50;

struct RunCommand {
  ModelOptions model;
  DeviceOptions devices;
  PlanChoice choice;
  StepOptions step;
  bool names_devices = false;
  bool replan = false;
  TrainingOptions training;
};

/// What is trained.
struct Chosen {
  tuner::TrainingSetup setup;
  PlanFile file;  ///< has only plan and modules where options name the plan
};

/// Returns the plan file: `MPTUNE_PLAN` if it is set, else --plan; "" if neither is given.
std::string plan_path(const RunCommand& command) {
  const char* path = std::getenv("MPTUNE_PLAN");
  return path != nullptr && *path != 0 ? path : command.choice.plan;
}

bool names_a_plan(const RunCommand& command) {
  return command.choice.any() || (command.names_devices && !command.replan);
}

tuner::TrainingSetup setup_for(const RunCommand& command, const PlanFile& file, const std::string& path,
                               const std::vector<std::string>& names) {
  const std::vector<DeviceSpec> devices = parse_device_names(names);
  DeviceOptions without = command.devices;
  without.devices = "auto";
  without.memory = "";
  tuner::TrainingSetup setup = make_setup(command.model, without, command.step);
  const std::vector<std::int64_t> caps = parse_memory(command.devices.memory, devices);
  setup.memory_bytes.clear();
  for (std::size_t i = 0; i < devices.size(); ++i)
    if (caps[i] > 0) setup.memory_bytes[devices[i].name] = caps[i];
  setup.devices = names;
  setup.whole_machine = "";
  const int batch = file.plan.global_batch_size();
  if (setup.batch > 0 && setup.batch != batch) {
    throw Error(fmt::format("the plan is for a batch of {}, not {}", batch, setup.batch), path,
                "leave --batch out, or tune for this batch");
  }
  setup.batch = batch;
  take_precision(file.plan, command.step, path, setup);
  return setup;
}

/// Returns the plan's devices, unless the plan may be made anew.
std::vector<std::string> devices_to_train_on(const RunCommand& command, const Plan& plan, const RankPlace& place) {
  if (!command.replan) return plan.devices;
  if (!command.names_devices) return of_started_ranks(plan.devices, place);
  return of_started_ranks(make_setup(command.model, command.devices, command.step).devices, place);
}

Chosen plan_of_file(const RunCommand& command, const std::string& path, const RankPlace& place, const Session& session) {
  check_one_plan(names_a_plan(command), path);
  Chosen chosen;
  chosen.file = load_plan_file(path);
  check_executable(chosen.file.plan, path);
  chosen.setup = setup_for(command, chosen.file, path, devices_to_train_on(command, chosen.file.plan, place));
  check_fingerprint(session, chosen.file, describe_model(chosen.setup, session), path, command.choice);
  if (has_other_devices(chosen.file.plan, chosen.setup.devices)) {
    chosen.file = replanned(chosen.file, chosen.setup, place, session);
    chosen.setup.devices = chosen.file.plan.devices;
  }
  refuse_by_plan_file(chosen.file, chosen.setup, training_spec(command.model, command.devices, command.step), path);
  return chosen;
}

Chosen plan_of_options(const RunCommand& command, const Session& session) {
  if (command.replan) throw Error("there is no plan file to plan again from", "--replan", "give --plan, or leave it out");
  if (!names_a_plan(command))
    throw Error("a plan is missing", "--plan",
                "give a plan file, which tune and plan write, or name a plan: --devices, --stages, --schedule");
  Chosen chosen;
  chosen.setup = make_setup(command.model, command.devices, command.step);
  check_before_model(command.choice, chosen.setup.devices, chosen.setup.batch);
  const tuner::DescribedModel model = describe_model(chosen.setup, session);
  check_memory_format(command.choice, model.convolutions);
  const int batch = chosen.setup.batch > 0 ? chosen.setup.batch : model.batch;
  Plan& plan = chosen.file.plan;
  plan = plan_from_options(command.choice, chosen.setup.devices, batch, model.layers);
  plan.options.precision = chosen.setup.precision;
  check_executable(plan, "--schedule");
  chosen.setup.batch = plan.global_batch_size();
  chosen.file.modules = stage_modules(plan, model.layers);
  return chosen;
}

/// Returns "validation 0.31, 91.2 % right"; "" without validation.
std::string validation_text(const tuner::EpochFinished& epoch) {
  if (!epoch.validation_loss) return "";
  return fmt::format("validation {:.4g}", *epoch.validation_loss) +
         (epoch.accuracy ? ", " + format_percent(*epoch.accuracy) + " right" : "");
}

/// Trains. A CSV file that is a pipe or a device of this process, such as /dev/stdout, is written here, as the worker does not have it.
tuner::TrainingFinished train(tuner::TrainRequest request, const Session& session) {
  tuner::TrainingFinished finished;
  tuner::StepLog log(is_written_directly(request.csv) ? std::exchange(request.csv, "") : "");
  std::optional<tuner::EpochFinished> ended;
  std::string validation;
  ProgressLine progress(session);
  progress.update("starting", 0);
  tuner::call_worker(request, wait_options(session), [&](const tuner::Reply& reply) {
    if (const auto* step = std::get_if<tuner::Trained>(&reply)) {
      log.add(*step, std::exchange(ended, std::nullopt));
      const int most = step->steps > 0 ? step->steps : kMostSteps;
      const std::string epoch = request.epochs > 0 ? fmt::format(", epoch {}", step->epoch + 1) : "";
      progress.note(fmt::format("loss {:.4g}, step {}", step->loss, format_seconds(step->step_s)) + validation);
      progress.update(fmt::format("training{}, step {}", epoch, step->step + 1), static_cast<double>(step->step + 1) / most);
    } else if (const auto* epoch = std::get_if<tuner::EpochFinished>(&reply)) {
      ended = *epoch;
      validation = epoch->validation_loss ? ", " + validation_text(*epoch) : "";
    } else if (const auto* done = std::get_if<tuner::TrainingFinished>(&reply)) {
      finished = *done;
    }
  });
  return finished;
}

tuner::TrainingFinished train_within_memory(const RunCommand& command, const tuner::TrainRequest& request, const Session& session) {
  try {
    return train(request, session);
  } catch (const tuner::PlanFailed& failed) {
    if (const auto* memory = std::get_if<tuner::OutOfMemory>(&failed.outcome()))
      throw ran_out_of_plan(failed, *memory, request.plan, training_spec(command.model, command.devices, command.step));
    throw;
  }
}

/// Returns what is known of the memory of a run: peaks and caps.
std::vector<MemoryRow> memory_of(const tuner::TrainingFinished& finished, const tuner::TrainingSetup& setup, const Plan& plan) {
  std::vector<MemoryRow> rows;
  for (std::size_t i = 0; i < std::min(finished.peak_bytes.size(), plan.devices.size()); ++i) {
    MemoryRow& row = rows.emplace_back();
    row.device = plan.devices[i];
    row.peak_bytes = finished.peak_bytes[i];
    const auto cap = setup.memory_bytes.find(row.device);
    row.cap_bytes = cap == setup.memory_bytes.end() ? 0 : cap->second;
  }
  return rows;
}

void check_result(const tuner::TrainingFinished& finished, const std::string& model) {
  if (finished.step_s.empty())
    throw Error("mptune-worker reported no step", model, "make sure that both programs are of the same build", ExitCode::internal);
  for (std::size_t i = 0; i < finished.loss.size(); ++i)
    if (!std::isfinite(finished.loss[i]) && finished.skipped_steps == 0)
      throw Error(fmt::format("the loss of step {} is not finite", i), model, "lower --lr, or look at the data", ExitCode::infeasible);
}

/// Returns the files that the command reads; no output replaces them.
std::vector<std::string> inputs_of(const RunCommand& command) {
  return {command.model.model, plan_path(command), command.step.data};
}

planner::Json text_or_null(const std::string& text) {
  return text.empty() ? planner::Json(nullptr) : planner::Json(text);
}

std::string count_text(int count, const char* what) {
  return fmt::format("{} {}{}", count, what, count == 1 ? "" : "s");
}

planner::Json epochs_json(const std::vector<tuner::EpochFinished>& epochs) {
  const auto number = [](const std::optional<double>& value) {
    return value && std::isfinite(*value) ? planner::Json(*value) : planner::Json(nullptr);
  };
  planner::Json json = planner::Json::array();
  for (const tuner::EpochFinished& epoch : epochs)
    json.push_back({{"epoch", epoch.epoch},
                    {"last_step", epoch.step},
                    {"loss", number(epoch.loss)},
                    {"validation_loss", number(epoch.validation_loss)},
                    {"accuracy", number(epoch.accuracy)}});
  return json;
}

/// Renders the last epochs, all of them with -v.
std::string epochs_text(const std::vector<tuner::EpochFinished>& epochs, const Session& session) {
  constexpr std::size_t kShown = 10;
  if (epochs.empty()) return "";
  const std::size_t first = session.options.verbose || epochs.size() <= kShown ? 0 : epochs.size() - kShown;
  const bool validates = epochs.back().validation_loss.has_value(), classifies = epochs.back().accuracy.has_value();
  std::vector<Column> columns{{"epoch", true}, {"steps", true}, {"loss", true}};
  if (validates) columns.push_back({"validation", true});
  if (classifies) columns.push_back({"right", true});
  std::vector<std::vector<Cell>> rows;
  for (std::size_t i = first; i < epochs.size(); ++i) {
    std::vector<Cell>& row = rows.emplace_back();
    row = {std::to_string(epochs[i].epoch + 1), std::to_string(epochs[i].step + 1), fmt::format("{:.4g}", epochs[i].loss)};
    if (validates) row.emplace_back(fmt::format("{:.4g}", epochs[i].validation_loss.value_or(0)));
    if (classifies) row.emplace_back(format_percent(epochs[i].accuracy.value_or(0)));
  }
  return render_table(columns, rows, session.style) + (first > 0 ? fmt::format("-v lists all {} epochs\n", epochs.size()) : "");
}

void show(const RunCommand& command, const Chosen& chosen, const tuner::TrainingFinished& finished, const Session& session) {
  const PlanFile& file = chosen.file;
  const double step_s = median(finished.step_s);
  const double rate = file.plan.global_batch_size() / step_s;
  planner::Json json = result_of("run");
  json["plan"] = planner::plan_object(file.plan, file.modules);
  json["plan_key"] = plan_key(file.plan);
  put_step(json, finished.step_s);
  json["samples_per_second"] = rate;
  json["loss"] = finished.loss;
  json["epochs"] = epochs_json(finished.epochs);
  json["first_step"] = finished.first_step;
  json["skipped_steps"] = finished.skipped_steps;
  json["resumed_from"] = text_or_null(finished.resumed_from);
  json["checkpoint"] = text_or_null(finished.checkpoint);
  json["peak_bytes"] = finished.peak_bytes;
  const std::vector<MemoryRow> memory = memory_of(finished, chosen.setup, file.plan);
  json["memory"] = memory_json(memory);
  std::string text = fmt::format("{}\nstep {}; {:.1f} samples/s\n", describe(file.plan),
                                 format_measured(step_s, interval95(finished.step_s), finished.step_s.size(), "step"), rate);
  if (!finished.resumed_from.empty())
    text += fmt::format("resumed {} of {}\n", count_text(finished.first_step, "step"), printable(finished.resumed_from));
  if (!finished.loss.empty()) text += fmt::format("loss {:.6g} to {:.6g}\n", finished.loss.front(), finished.loss.back());
  if (finished.skipped_steps > 0)
    text += fmt::format("skipped {}, whose gradients were not finite\n", count_text(finished.skipped_steps, "step"));
  for (const MemoryRow& row : memory) {
    const std::string cap = cap_text(row.peak_bytes, row.cap_bytes);
    text += fmt::format("peak memory {} {}{}\n", row.device, format_bytes(row.peak_bytes), cap.empty() ? "" : ", " + cap);
  }
  text += epochs_text(finished.epochs, session);
  if (!finished.checkpoint.empty()) text += "checkpoint " + printable(finished.checkpoint) + "\n";
  session.result(text + (command.training.save.empty() ? "" : "saved   " + printable(command.training.save) + "\n"), json);
}

int run_run(const RunCommand& command, const RankPlace& place, const Session& session) {
  const std::string path = plan_path(command);
  session.say("training " + command.model.model + (path.empty() ? "" : " with " + path));
  tuner::TrainRequest request = training_request(command.training, inputs_of(command));
  const Chosen chosen = path.empty() ? plan_of_options(command, session) : plan_of_file(command, path, place, session);
  request.setup = chosen.setup;
  request.plan = chosen.file.plan;
  check_reduce(request.setup.reduce, request.plan.devices);
  check_ranks(request.plan.devices, place);
  const tuner::TrainingFinished finished = train_within_memory(command, request, session);
  check_result(finished, command.model.model);
  show(command, chosen, finished, session);
  return 0;
}

}  // namespace

void add_run_command(CLI::App& program, CommandBody& chosen) {
  auto command = std::make_shared<RunCommand>();
  CLI::App* app = program.add_subcommand("run", "Trains with a plan; MPTUNE_PLAN in the environment takes the place of --plan");
  add_model_options(*app, command->model);
  add_plan_file_options(*app, command->choice, "train with this plan instead of one from options");
  add_device_options(*app, command->devices);
  add_rank_options(*app, command->devices);
  add_plan_options(*app, command->choice, false);
  app->add_flag("--replan", command->replan,
                "where other ranks were started than the plan names, or --devices names other devices, search a plan for the devices that "
                "these ranks have, of --devices or else of the plan; the batch and its micro-batches stay")
      ->group(kPlanGroup);
  add_step_options(*app, command->step);
  add_training_options(*app, command->training);
  app->footer(
      "Example:\n  mptune run resnet50 --input 3x64x64 --plan resnet50.plan.json --steps 100\n  mptune run resnet50 --input 3x64x64 "
      "--devices cpu:0,cpu:1 --schedule naive\n  mptune run mlp --devices 0@cpu:0,1@cpu:1 --ranks 2");
  app->callback([command, app, &chosen] {
    command->names_devices = app->count("--devices") > 0;
    chosen = [command](const Session& session) {
      return with_ranks(command->devices, command->model.model, [&](const RankPlace& place) { return run_run(*command, place, session); });
    };
  });
}

}  // namespace mptune::reports

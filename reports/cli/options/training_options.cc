#include "reports/cli/options/training_options.h"

#include <CLI/CLI.hpp>
#include <array>
#include <charconv>
#include <filesystem>
#include <fstream>
#include <utility>

#include "profiler/base/error.h"
#include "profiler/base/rate_schedule.h"
#include "reports/cli/options/options.h"
#include "reports/cli/program/option_values.h"
#include "reports/cli/program/session.h"
#include "reports/render/units.h"
#include "tuner/worker/step_log.h"

namespace mptune::reports {
namespace {

constexpr int kEvery = 100;  // steps between two checkpoints

/// Checkpoints need a given length: they make a training longer than a narrow interval takes.
void check_checkpoint_options(const TrainingOptions& options) {
  if (options.checkpoint.empty() && !options.every.empty())
    throw Error("there is no folder for checkpoints", "--every", "give --checkpoint, too");
  if (options.checkpoint.empty() && !options.checkpoint_step.empty())
    throw Error("there is no folder of checkpoints", "--checkpoint-step", "give --checkpoint, too");
  if (!options.checkpoint.empty() && options.steps.empty() && options.epochs.empty())
    throw Error("the training has no end", "--checkpoint", "give --steps or --epochs, which count those of earlier runs, too");
  std::error_code ignored;
  if (std::filesystem::exists(options.checkpoint, ignored) && !std::filesystem::is_directory(options.checkpoint, ignored))
    throw Error("this is not a folder", options.checkpoint, "name a folder with --checkpoint; it is made if it does not exist");
}

/// Returns true for a safetensors file, which begins with a length of 8 bytes and a JSON object.
bool is_safetensors_file(const std::string& path) {
  std::array<char, 9> start{};
  std::ifstream in(path, std::ios::binary);
  return in.read(start.data(), start.size()) && start[8] == '{';
}

void check_files(const TrainingOptions& options, const std::vector<std::string>& inputs) {
  std::error_code ignored;
  if (!options.load.empty() && !std::filesystem::is_regular_file(options.load, ignored))
    throw Error("the file does not exist", options.load, "give --load a state dict saved by torch.save, safetensors or --save");
  if (!options.save.empty()) {
    // Replaces any state dict (a zip archive or a safetensors file) without --force: training usually goes on from a file and saves to it.
    check_output(options.save, "PK", is_safetensors_file(options.save), inputs);
  }
  if (!options.csv.empty()) check_output(options.csv, tuner::StepLog::kMagic, false, inputs);
}

/// Returns a share of the samples, given as "0.1" or "10%".
double validation_share(const std::string& text) {
  const bool percent = text.ends_with('%');
  const std::string number = text.substr(0, text.size() - (percent ? 1 : 0));
  double value = 0;
  const auto [end, failed] = std::from_chars(number.data(), number.data() + number.size(), value);
  value /= percent ? 100 : 1;
  if (failed != std::errc() || end != number.data() + number.size() || !(value > 0 && value < 1))
    throw Error("'" + text + "' is neither a file nor a share of the samples", "--validation",
                "give a file or folder like --data's, or a share such as 0.1 or 10%");
  return value;
}

/// Sets how long to train, and on which samples.
void set_length(const TrainingOptions& options, tuner::TrainRequest& request) {
  request.steps = static_cast<int>(parse_whole(options.steps, "--steps", 1, 100000000, 0));
  request.epochs = static_cast<int>(parse_whole(options.epochs, "--epochs", 1, 1000000, 0));
  if (request.steps > 0 && request.epochs > 0) throw Error("steps and epochs are both given", "--epochs", "leave --steps or --epochs out");
  request.drop_last = options.drop_last;
  if (options.validation.empty()) return;
  std::error_code ignored;
  if (std::filesystem::exists(options.validation, ignored))
    request.validation_data = options.validation;
  else
    request.validation_share = validation_share(options.validation);
}

/// Sets the schedule of the learning rate. The worker counts the steps of epochs; a given number of steps is checked here.
void set_rate_schedule(const TrainingOptions& options, tuner::TrainRequest& request) {
  if (options.rate_schedule.empty()) return;
  const RateSchedule schedule = parse_rate_schedule(options.rate_schedule);
  if (request.steps == 0 && request.epochs == 0)
    throw Error("the training has no end", "--lr-schedule", "give --steps or --epochs, over which the rate changes");
  if (request.steps > 0) (void)rate_factor(schedule, 0, request.steps);
  request.rate_schedule = options.rate_schedule;
}

void add_length_options(CLI::App& app, TrainingOptions& options) {
  app.add_option("--steps", options.steps, "training steps; default: until the 95 % interval of the step time is narrow, at most 50")
      ->type_name("N")
      ->group(kStepGroup);
  app.add_option("--epochs", options.epochs, "passes over the samples of --data, in place of --steps; each in an order of its own")
      ->type_name("N")
      ->group(kStepGroup);
  app.add_flag("--drop-last", options.drop_last, "leave out an epoch's last step where fewer samples than a batch are left")
      ->group(kStepGroup);
  offer_values(*app.add_option("--validation", options.validation,
                               "samples to evaluate after each epoch: a file or folder like --data's, or a share of its samples, such as "
                               "10%, kept apart")
                    ->type_name("PATH|SHARE")
                    ->group(kStepGroup),
               {kFileValue});
}

void add_step_rules(CLI::App& app, TrainingOptions& options) {
  offer_values(*app.add_option("--lr-schedule", options.rate_schedule,
                               "how the learning rate changes: constant, linear or cosine; cosine:warmup=100:end=0.1 goes up in 100 steps "
                               "and down to a tenth of --lr, linear:warmup=5% up in a share of all steps and down to 0; default: constant")
                    ->type_name("NAME")
                    ->group(kStepGroup),
               {kRateDecayNames.begin(), kRateDecayNames.end()});
  app.add_option("--clip-norm", options.clip_norm, "most that the norm of all gradients may be, over all devices; default: any")
      ->type_name("X")
      ->group(kStepGroup);
  app.add_flag("--skip-non-finite", options.skip_non_finite,
               "leave out the optimizer's step on all devices where a gradient is not finite, instead of ending there")
      ->group(kStepGroup);
}

}  // namespace

void add_training_options(CLI::App& app, TrainingOptions& options) {
  const auto add_file = [&](const char* name, std::string& path, const char* type, const char* group, const char* help) {
    offer_values(*app.add_option(name, path, help)->type_name(type)->group(group), {kFileValue});
  };
  add_length_options(app, options);
  add_step_rules(app, options);
  add_file("--load", options.load, "FILE", kStepGroup,
           "state dict to begin with, as saved by torch.save or safetensors; default: weights from the seed");
  add_file("--checkpoint", options.checkpoint, "FOLDER", kOutputGroup,
           "folder of checkpoints: training goes on from the latest, under any plan, and adds more");
  app.add_option("--checkpoint-step", options.checkpoint_step,
                 "go on from the checkpoint of this step instead of the latest; the next one replaces those behind it")
      ->type_name("N")
      ->group(kOutputGroup);
  app.add_option("--every", options.every, "steps between two checkpoints; default: 100; one more follows the last step")
      ->type_name("N")
      ->group(kOutputGroup);
  add_file("--csv", options.csv, "FILE", kOutputGroup,
           "CSV file with a row per step: epoch, loss, time, learning rate, and after each epoch validation loss and accuracy");
  add_file("--save", options.save, "FILE", kOutputGroup, "state dict to write, as torch.load reads it; NAME.safetensors in that format");
}

tuner::TrainRequest training_request(const TrainingOptions& options, std::vector<std::string> inputs) {
  inputs.push_back(options.validation);
  tuner::TrainRequest request;
  set_length(options, request);
  check_files(options, inputs);
  check_checkpoint_options(options);
  set_rate_schedule(options, request);
  request.load = options.load;
  request.save = options.save;
  request.checkpoint = options.checkpoint;
  if (!options.checkpoint.empty()) request.every = static_cast<int>(parse_whole(options.every, "--every", 1, 100000000, kEvery));
  request.checkpoint_step = static_cast<int>(parse_whole(options.checkpoint_step, "--checkpoint-step", 1, 1'000'000'000, 0));
  request.csv = options.csv;
  request.clip_norm = parse_number(options.clip_norm, "--clip-norm", 0, 1e30, 0);
  request.skip_non_finite = options.skip_non_finite;
  return request;
}

}  // namespace mptune::reports

#include "reports/values/follow_up.h"

#include <algorithm>
#include <cmath>

#include "planner/plan/plan_error.h"
#include "planner/plan/threads.h"
#include "planner/search/make_plan.h"
#include "profiler/base/device_spec.h"
#include "profiler/base/error.h"
#include "profiler/base/rank.h"
#include "profiler/base/text.h"

namespace mptune::reports {
namespace {

bool sleeps(const Plan& plan) {
  return std::ranges::any_of(plan.devices, [](const std::string& device) { return device_kind(device) == DeviceSpec::Kind::sleep; });
}

/// Returns caps by device without those of devices that the plan leaves out, which a command on the plan refuses.
std::string caps_of_plan(const std::string& memory, const Plan& plan) {
  if (memory.find('=') == std::string::npos) return memory;
  std::vector<std::string> caps;
  for (const std::string& cap : split(memory, ','))
    if (std::ranges::find(plan.devices, cap.substr(0, cap.find('='))) != plan.devices.end()) caps.push_back(cap);
  return join(caps, ",");
}

/// Returns twice the time in whole minutes, at least one.
std::string twice(double spent_s) {
  return std::to_string(static_cast<int>(std::max(1.0, std::ceil(2 * spent_s / 60)))) + "min";
}

std::string numbers(const std::vector<int>& values) {
  std::vector<std::string> texts;
  for (const int value : values) texts.push_back(std::to_string(value));
  return join(texts, ",");
}

/// Returns the value of --recompute; nullopt where single layers are recomputed, which no option names.
std::optional<std::string> recompute_option(const Plan& plan) {
  std::vector<int> stages;
  for (int s = 0; s < plan.num_stages(); ++s) {
    const Recompute::Mode mode = plan.stages[static_cast<std::size_t>(s)].recompute.mode;
    if (mode == Recompute::Mode::some) return std::nullopt;
    if (mode == Recompute::Mode::all) stages.push_back(s);
  }
  if (stages.empty()) return "none";
  return static_cast<int>(stages.size()) == plan.num_stages() ? "all" : numbers(stages);
}

std::string offload_option(const Plan& plan) {
  std::vector<int> stages;
  for (int s = 0; s < plan.num_stages(); ++s)
    if (plan.stages[static_cast<std::size_t>(s)].offload) stages.push_back(s);
  if (stages.empty()) return "none";
  return static_cast<int>(stages.size()) == plan.num_stages() ? "all" : numbers(stages);
}

PlanOptions values_of(const Plan& plan, const std::string& recompute) {
  PlanOptions options;
  options.devices = plan.devices;
  options.batch = plan.global_batch_size();
  options.layers = plan.stages.back().last_layer;
  options.stages = plan.num_stages();
  for (std::size_t s = 1; s < plan.stages.size(); ++s) options.cuts.push_back(plan.stages[s].first_layer);
  options.schedule = plan.schedule;
  options.recompute = recompute;
  options.offload = offload_option(plan);
  if (has_replicas(plan))
    for (const Stage& stage : plan.stages) options.replicas.push_back(static_cast<int>(stage.devices.size()));
  else if (plan.num_stages() > static_cast<int>(plan.devices.size()))
    options.virtual_stages = plan.num_stages() / static_cast<int>(plan.devices.size());
  if (plan.microbatch_sizes == split_evenly(options.batch, plan.num_microbatches()))
    options.microbatches = plan.num_microbatches();
  else
    options.split_size = plan.microbatch_sizes.front();
  return options;
}

std::string plan_command(TrainingSpec spec, const Plan& plan, const std::string& file) {
  spec.memory = caps_of_plan(spec.memory, plan);
  spec.devices = devices_option(plan.devices);
  return training_command(sleeps(plan) ? "profile" : "run", spec, file).text();
}

/// Returns the threads that the option --threads gives each device; 0 for the default, nullopt where they differ.
std::optional<int> threads_of_plan(const Plan& plan) {
  if (plan.options.threads.empty()) return 0;
  const int most = std::ranges::max(plan.options.threads);
  return planner::threads_of_devices(plan.devices, most) == plan.options.threads ? std::optional(most) : std::nullopt;
}

/// Returns true if these options make exactly this plan.
bool makes(const PlanOptions& options, const Plan& plan) {
  std::optional<Plan> made = planner::if_possible([&] { return make_plan(options); });
  if (!made) return false;
  made->options.memory_format = plan.options.memory_format;
  made->options.precision = plan.options.precision;  // the training spec has it
  made->options.threads = plan.options.threads;
  made->options.idle_devices_help = plan.options.idle_devices_help;  // changes no result
  return *made == plan;
}

}  // namespace

std::string devices_option(const std::vector<std::string>& devices) {
  const auto sleeping = [](const std::string& device) { return device_kind(device) == DeviceSpec::Kind::sleep; };
  if (std::ranges::none_of(devices, sleeping)) return join(devices, ",");
  for (std::size_t d = 0; d < devices.size(); ++d)
    if (devices[d] != "sleep:" + std::to_string(d)) return "";
  return "sleep:" + std::to_string(devices.size());
}

std::optional<PlanOptionWords> options_of_plan(const Plan& plan) {
  const auto recompute = recompute_option(plan);
  const auto threads = threads_of_plan(plan);
  if (devices_option(plan.devices).empty() || !recompute || !threads || plan.stages.empty() || plan.microbatch_sizes.empty())
    return std::nullopt;
  const PlanOptions options = values_of(plan, *recompute);
  if (!makes(options, plan)) return std::nullopt;
  const auto count = [](int value) { return value > 0 ? std::to_string(value) : ""; };
  PlanOptionWords words = {{"--devices", devices_option(plan.devices)},
                           {"--batch", count(options.batch)},
                           {"--stages", count(options.stages)},
                           {"--virtual", count(options.virtual_stages)},
                           {"--cuts", numbers(options.cuts)},
                           {"--microbatches", count(options.microbatches)},
                           {"--split-size", count(options.split_size)},
                           {"--schedule", options.schedule},
                           {"--recompute", *recompute == "none" ? "" : *recompute},
                           {"--offload", options.offload == "none" ? "" : options.offload},
                           {"--replicas", numbers(options.replicas)},
                           {"--threads", count(*threads)}};
  if (plan.options.memory_format != MemoryFormat::contiguous) words.emplace_back("--memory-format", name_of(plan.options.memory_format));
  std::erase_if(words, [](const auto& word) { return word.second.empty(); });
  return words;
}

std::string command_with_plan_file(const TrainingSpec& spec, const Plan& plan, const std::string& file) {
  return plan_command(spec, plan, absolute_path(file));
}

std::optional<std::string> command_with_plan(const std::string& name, const TrainingSpec& spec, const Plan& plan) {
  const auto options = options_of_plan(plan);
  if (!options || spec.model.empty()) return std::nullopt;
  TrainingSpec of_plan = spec;
  of_plan.batch = of_plan.devices = "";
  of_plan.memory = caps_of_plan(spec.memory, plan);
  ShellCommand command = training_command(name == "run" && sleeps(plan) ? "profile" : name, of_plan);
  for (const auto& [option, value] : *options) command.option(option, value);
  if (const int ranks = ranks_of(plan.devices); ranks > 1 && name != "check") command.option("--ranks", std::to_string(ranks));
  return command.text();
}

std::optional<std::string> command_that_shows(const tuner::FailedAlike& failed, const TrainingSpec& spec) {
  const bool wrong = std::holds_alternative<tuner::WrongResult>(failed.cause);
  const bool hidden = std::holds_alternative<tuner::TimedOut>(failed.cause) || std::holds_alternative<tuner::Crashed>(failed.cause);
  if (!wrong && !hidden) return std::nullopt;
  for (const tuner::UnmeasuredPlan& plan : failed.plans)
    if (plan.plan)
      if (auto command = command_with_plan(wrong ? "check" : "run", spec, *plan.plan)) return command;
  return std::nullopt;
}

std::string resume_command(const std::string& study) {
  std::string path = absolute_path(study);
  while (path.size() > 1 && path.back() == '/') path.pop_back();
  return ShellCommand("mptune tune --resume").word(path).text();
}

std::string resume_command(const std::string& study, double spent_s) {
  return ShellCommand(resume_command(study)).option("--budget", twice(spent_s)).text();
}

std::string shared_command_with_plan_file(const TrainingSpec& spec, const Plan& plan, const std::string& file) {
  return plan_command(without_folders(spec), plan, file);
}

std::string shared_resume_command(const std::string& study, double spent_s) {
  return ShellCommand("mptune tune --resume").word(study).option("--budget", twice(spent_s)).text();
}

}  // namespace mptune::reports

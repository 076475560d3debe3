#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "planner/plan.h"
#include "profiler/trace/training_spec.h"
#include "tuner/unmeasured.h"

namespace mptune::reports {

/// The commands that outputs suggest. Each works as printed, from any folder.

/// Options of the command line and their values.
using PlanOptionWords = std::vector<std::pair<std::string, std::string>>;

/// Trains with a plan file; for sleeping devices, which can't train, records the plan. Requires: `spec` has a model.
[[nodiscard]] std::string command_with_plan_file(const TrainingSpec& spec, const Plan& plan, const std::string& file);

/// `mptune NAME` (run, profile or check) on a plan that is in no file, named by options; nullopt where options can't name it or the model
/// is not known.
[[nodiscard]] std::optional<std::string> command_with_plan(const std::string& name, const TrainingSpec& spec, const Plan& plan);

/// These devices as --devices has them: "cpu:0,cpu:1", "sleep:2"; "" where no option names them, as for one of several sleeping devices.
[[nodiscard]] std::string devices_option(const std::vector<std::string>& devices);

/// Devices, batch and all options that make this plan: {{"--devices", "cpu:0,cpu:1"}, {"--cuts", "7"}, ...}; nullopt where none do.
[[nodiscard]] std::optional<PlanOptionWords> options_of_plan(const Plan& plan);

/// Shows how plans failed that failed for one cause: trains with, or checks, the first of them that options can name. nullopt where there
/// is none, and where running it again shows nothing new, as for lack of memory.
[[nodiscard]] std::optional<std::string> command_that_shows(const tuner::FailedAlike& failed, const TrainingSpec& spec);

// On a page that is handed on, folders are private: these work in the folder that holds the study, where files are looked for by name.

/// command_with_plan_file() with `file` as it is given.
[[nodiscard]] std::string shared_command_with_plan_file(const TrainingSpec& spec, const Plan& plan, const std::string& file);
/// "mptune tune --resume resnet50.study --budget 5min": twice the time that it took so far.
[[nodiscard]] std::string shared_resume_command(const std::string& study, double spent_s);

/// "mptune tune --resume /home/me/resnet50.study".
[[nodiscard]] std::string resume_command(const std::string& study);
/// The same with twice the time that it took so far.
[[nodiscard]] std::string resume_command(const std::string& study, double spent_s);

}  // namespace mptune::reports

#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "planner/plan/plan.h"
#include "profiler/trace/values/training_spec.h"
#include "tuner/study/recommend/unmeasured.h"

namespace mptune::reports {

/// The commands that outputs suggest. Each works as printed, from any folder.

/// Options of the command line and their values.
using PlanOptionWords = std::vector<std::pair<std::string, std::string>>;

/// Returns the command that trains with a plan file; for sleeping devices, which can't train, the command that records the plan. Requires:
/// `spec` has a model.
[[nodiscard]] std::string command_with_plan_file(const TrainingSpec& spec, const Plan& plan, const std::string& file);

/// Returns `mptune NAME` (run, profile or check) for a plan that is in no file and is named by options; nullopt where options can't name it
/// or the model is not known.
[[nodiscard]] std::optional<std::string> command_with_plan(const std::string& name, const TrainingSpec& spec, const Plan& plan);

/// Returns these devices as --devices takes them: "cpu:0,cpu:1", "sleep:2"; "" where no option names them, as for one of several sleeping
/// devices.
[[nodiscard]] std::string devices_option(const std::vector<std::string>& devices);

/// Returns devices, batch and all options that make this plan: {{"--devices", "cpu:0,cpu:1"}, {"--cuts", "7"}, ...}; nullopt where none do.
[[nodiscard]] std::optional<PlanOptionWords> options_of_plan(const Plan& plan);

/// Returns the command that shows how plans failed for one cause: it trains with, or checks, the first of them that options can name.
/// Returns nullopt where there is none, and where running it again shows nothing new, as for lack of memory.
[[nodiscard]] std::optional<std::string> command_that_shows(const tuner::FailedAlike& failed, const TrainingSpec& spec);

// On a page that is handed on, folders are private: these commands work in the folder that holds the study, where files are looked for by
// name.

/// Returns command_with_plan_file() with `file` as it is given.
[[nodiscard]] std::string shared_command_with_plan_file(const TrainingSpec& spec, const Plan& plan, const std::string& file);
/// Returns "mptune tune --resume resnet50.study --budget 5min", with twice the time that the study took so far.
[[nodiscard]] std::string shared_resume_command(const std::string& study, double spent_s);

/// Returns "mptune tune --resume /home/me/resnet50.study".
[[nodiscard]] std::string resume_command(const std::string& study);
/// Does the same with a budget of twice the time that the study took so far.
[[nodiscard]] std::string resume_command(const std::string& study, double spent_s);

}  // namespace mptune::reports

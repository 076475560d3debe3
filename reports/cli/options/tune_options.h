#pragma once

#include <set>
#include <string>
#include <vector>

#include "profiler/base/error.h"
#include "reports/cli/options/options.h"
#include "reports/cli/options/plan_choice.h"

namespace mptune::reports {

/// Options of `tune` as typed; "" where not given.
struct TuneCommand {
  ModelOptions model;
  DeviceOptions devices;
  PlanChoice choice;
  StepOptions step;
  std::string budget = "5min";
  std::string trials, target;
  bool resume = false;
  OutputOptions output;
  std::set<std::string> given;  ///< names of the options on the command line: "--batch", "MODEL"
  std::string plan_text;        ///< content of the file of --plan, from the study that is resumed; "": the file is read
};

/// Returns the folder of a study that MODEL names in place of a model; "" where it names a model. Throws Error (usage) where --resume is
/// not given, where -o names another folder, or where MODEL looks like a study that is not there.
[[nodiscard]] std::string study_in_place_of_model(const TuneCommand& command);

/// Returns all that is needed to go on from any folder, as JSON text: every option, files named from the study's folder `folder` as its
/// records name them, the content of the plan's file, and digests of the model's and the data's files. `devices` replace `auto`. Throws
/// Error where a file can't be read.
[[nodiscard]] std::string stored_command(const TuneCommand& command, const std::vector<std::string>& devices, const std::string& folder);

/// Fills in what is not given from a text that stored_command() made; -o becomes `folder`. Files are then absolute. Throws Error (usage)
/// where a given option differs from the study's and is none of --budget, --trials and --target, and where `stored` is "" or no text of
/// stored_command().
void restore_command(TuneCommand& command, const std::string& stored, const std::string& folder);

/// Throws Error (usage) if a file that the study was made with is gone or has changed; files that `command` names may lie elsewhere now.
/// `stored` may be "".
void check_stored_files(const TuneCommand& command, const std::string& stored, const std::string& folder);

/// Names a model as a study in `folder` does: a file relative to the folder that holds the study.
[[nodiscard]] std::string model_in_study(const std::string& model, const std::string& folder);
[[nodiscard]] std::string file_in_study(const std::string& path, const std::string& folder);

/// Returns the error with the command that goes on in its remedy. Errors that would come again (usage, infeasible) stay as they are; so do
/// all errors where `command` is "".
[[nodiscard]] Error with_resume_command(const Error& error, const std::string& command);

}  // namespace mptune::reports

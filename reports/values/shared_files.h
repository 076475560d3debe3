#pragma once

#include <string>

#include "reports/values/report.h"

namespace mptune::reports {

// How pages and Markdown documents name files. They are handed on, and folders are private: files are named from the folder that holds the
// study, and commands work there (shared_command_with_plan_file, shared_resume_command).

/// Returns the name of the study's folder: "resnet50.study".
[[nodiscard]] std::string study_name(const StudyReport& report);
/// Names a file of the study from the folder that holds the study: "resnet50.study/resnet50.plan.json".
[[nodiscard]] std::string beside_study(const StudyReport& report, const std::string& file);
/// Returns "In the folder that holds resnet50.study and net.pt2".
[[nodiscard]] std::string where_to_give_commands(const StudyReport& report);

/// Returns a text with the names of files only, where it names them from the root. A quoted path ends at its closing quote; any other at a
/// blank, a quote, a bracket, a comma or a semicolon.
[[nodiscard]] std::string names_of_files(const std::string& text);

}  // namespace mptune::reports

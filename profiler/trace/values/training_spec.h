#pragma once

#include <array>
#include <string>
#include <vector>

#include "profiler/base/shell_command.h"

namespace mptune {

/// What a command line said about the model, the machine and the step, as it was typed; "" where it said nothing. Together with a plan it
/// is all that a later command needs to repeat the training.
struct TrainingSpec {
  std::string model;  ///< "transformer:d=64,layers=4", "/home/me/net.pt2"; "": not known, as of files of earlier versions
  std::string input, batch, devices, memory, link, reduce, loss, optimizer, learning_rate, precision, seed, data;
  bool operator==(const TrainingSpec&) const = default;
};

struct TrainingField {
  const char* name;    ///< in files: "lr"
  const char* option;  ///< "--lr"; "" for the model, which is the first argument
  std::string TrainingSpec::*value;
};
inline constexpr std::array<TrainingField, 13> kTrainingFields = {{{"model", "", &TrainingSpec::model},
                                                                   {"input", "--input", &TrainingSpec::input},
                                                                   {"batch", "--batch", &TrainingSpec::batch},
                                                                   {"devices", "--devices", &TrainingSpec::devices},
                                                                   {"memory", "--memory", &TrainingSpec::memory},
                                                                   {"link", "--link", &TrainingSpec::link},
                                                                   {"reduce", "--reduce", &TrainingSpec::reduce},
                                                                   {"loss", "--loss", &TrainingSpec::loss},
                                                                   {"optimizer", "--optimizer", &TrainingSpec::optimizer},
                                                                   {"lr", "--lr", &TrainingSpec::learning_rate},
                                                                   {"precision", "--precision", &TrainingSpec::precision},
                                                                   {"seed", "--seed", &TrainingSpec::seed},
                                                                   {"data", "--data", &TrainingSpec::data}}};

/// Returns the same spec with absolute paths of files: it works from any folder.
[[nodiscard]] TrainingSpec with_absolute_files(TrainingSpec spec);
/// Returns the same spec with names of files only, for files that are handed on: folders are private.
[[nodiscard]] TrainingSpec without_folders(TrainingSpec spec);
/// Returns the name of a file for texts that are handed on together with files: `path` from `folder`, "net.pt2" or "../data/batch.pt", so
/// that both can be moved together and folders above stay private. A file that shares no more than the first folder below the root is named
/// without its folders. "" stays "".
[[nodiscard]] std::string path_from_folder(const std::string& path, const std::string& folder);
/// Returns the absolute path of a name from path_from_folder(). Absolute paths stay, as do bare names of files that are not in the folder.
[[nodiscard]] std::string path_in_folder(const std::string& path, const std::string& folder);
/// Does what path_from_folder() does for a MODEL, if it is a file.
[[nodiscard]] std::string model_from_folder(const std::string& model, const std::string& folder);
[[nodiscard]] std::string model_in_folder(const std::string& model, const std::string& folder);
/// Does what path_from_folder() does for every file of a spec.
[[nodiscard]] TrainingSpec with_files_from_folder(TrainingSpec spec, const std::string& folder);
[[nodiscard]] TrainingSpec with_files_in_folder(TrainingSpec spec, const std::string& folder);
/// Undoes without_folders() for files that lie in one of `folders`, the first that has them. What is not found stays a bare name.
[[nodiscard]] TrainingSpec with_files_found(TrainingSpec spec, const std::vector<std::string>& folders);
/// Returns the files of `spec` that are bare names: a command with them works only in the folder where they lie.
[[nodiscard]] std::vector<std::string> bare_files(const TrainingSpec& spec);

/// Returns `mptune NAME MODEL ...` with all options of `spec` that the command NAME takes: profile, tune, run or check. With a plan file it
/// gets --plan with that file as given, and batch, devices and precision are the plan's.
/// Requires: the model is known.
[[nodiscard]] ShellCommand training_command(const std::string& name, const TrainingSpec& spec, const std::string& plan_file = "");

}  // namespace mptune

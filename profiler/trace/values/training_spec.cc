#include "profiler/trace/values/training_spec.h"

#include <algorithm>
#include <cassert>
#include <filesystem>

#include "profiler/base/rank.h"
#include "profiler/base/text.h"
#include "profiler/trace/values/model_text.h"

namespace mptune {
namespace {

/// Calls `change(path)` for each file that is named.
template <class Change>
TrainingSpec with_files(TrainingSpec spec, Change change) {
  if (const ModelText model = parse_model_text(spec.model); model.is_file)
    spec.model = change(model.name) + (model.has_rest ? ":" + model.rest : "");
  if (!spec.data.empty()) spec.data = change(spec.data);
  return spec;
}

bool is_bare(const std::string& path) {
  return path.substr(path.starts_with("./") ? 2 : 0).find('/') == std::string::npos;
}

// A file whose name does not end like a model's gets "./" in front, which tells it from a built-in model.
std::string bare_name(const std::string& path) {
  const std::string name = std::filesystem::path(path).filename().string();
  return parse_model_text(name).is_file ? name : "./" + name;
}

std::string found_in(const std::string& path, const std::vector<std::string>& folders) {
  std::error_code ignored;
  if (!is_bare(path)) return path;
  for (const std::string& folder : folders) {
    const std::filesystem::path file = std::filesystem::path(folder.empty() ? "." : folder) / path;
    if (std::filesystem::exists(file, ignored)) return absolute_path(file.string());
  }
  return path;
}

}  // namespace

TrainingSpec with_absolute_files(TrainingSpec spec) {
  return with_files(std::move(spec), absolute_path);
}

TrainingSpec without_folders(TrainingSpec spec) {
  return with_files(std::move(spec), bare_name);
}

std::string path_from_folder(const std::string& path, const std::string& folder) {
  if (path.empty()) return path;
  const std::filesystem::path file = absolute_path(path), from = absolute_path(folder);
  const auto [mine, theirs] = std::mismatch(file.begin(), file.end(), from.begin(), from.end());
  const bool inside = theirs == from.end();
  const auto shared = std::distance(file.begin(), mine);  // "/" counts
  constexpr int kPrivate = 2;                             // "/home", "/data"
  if (!inside && shared <= kPrivate) return bare_name(path);
  const std::string relative = file.lexically_relative(from).string();
  return is_bare(relative) ? bare_name(relative) : relative;
}

std::string path_in_folder(const std::string& path, const std::string& folder) {
  if (path.empty() || path.starts_with('/')) return path;
  return is_bare(path) ? found_in(path, {folder}) : absolute_path((std::filesystem::path(folder) / path).string());
}

std::string model_from_folder(const std::string& model, const std::string& folder) {
  TrainingSpec spec;
  spec.model = model;
  return with_files_from_folder(std::move(spec), folder).model;
}

std::string model_in_folder(const std::string& model, const std::string& folder) {
  TrainingSpec spec;
  spec.model = model;
  return with_files_in_folder(std::move(spec), folder).model;
}

TrainingSpec with_files_from_folder(TrainingSpec spec, const std::string& folder) {
  return with_files(std::move(spec), [&](const std::string& path) { return path_from_folder(path, folder); });
}

TrainingSpec with_files_in_folder(TrainingSpec spec, const std::string& folder) {
  return with_files(std::move(spec), [&](const std::string& path) { return path_in_folder(path, folder); });
}

TrainingSpec with_files_found(TrainingSpec spec, const std::vector<std::string>& folders) {
  if (spec.model.starts_with('-')) spec.model.clear();  // out of a file, it would be taken for an option
  return with_files(std::move(spec), [&](const std::string& path) { return found_in(path, folders); });
}

std::vector<std::string> bare_files(const TrainingSpec& spec) {
  std::vector<std::string> files;
  (void)with_files(spec, [&](const std::string& path) {
    if (is_bare(path)) files.push_back(path);
    return path;
  });
  return files;
}

ShellCommand training_command(const std::string& name, const TrainingSpec& spec, const std::string& plan_file) {
  assert(!spec.model.empty());
  ShellCommand command("mptune " + name);
  command.word(spec.model);
  for (const TrainingField& field : kTrainingFields) {
    const bool of_plan =
        field.value == &TrainingSpec::batch || field.value == &TrainingSpec::devices || field.value == &TrainingSpec::precision;
    const bool of_machine =
        field.value == &TrainingSpec::memory || field.value == &TrainingSpec::link || field.value == &TrainingSpec::reduce;
    if (field.value == &TrainingSpec::model || (of_plan && !plan_file.empty()) || (of_machine && name == "check")) continue;
    command.option(field.option, spec.*field.value);
  }
  const int ranks = name == "check" ? 1 : ranks_of(split(spec.devices, ','));
  if (ranks > 1) command.option("--ranks", std::to_string(ranks));
  return command.option("--plan", plan_file);
}

}  // namespace mptune

#include "reports/cli/options/tune_options.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <optional>

#include "profiler/base/index.h"
#include "profiler/base/json_field.h"
#include "profiler/base/sha256.h"
#include "profiler/base/shell_command.h"
#include "profiler/base/text.h"
#include "profiler/device/list/device_list.h"
#include "profiler/trace/values/model_text.h"
#include "reports/values/follow_up.h"
#include "tuner/study/store/study.h"

namespace mptune::reports {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

constexpr std::array kMayChange = {"--budget", "--trials", "--target"};
constexpr const char* kOn = "on";
constexpr std::streamoff kDigestedBytes = std::streamoff{1} << 20;

/// Returns the options that a study keeps.
std::map<std::string, std::string*> texts_of_options(TuneCommand& command) {
  std::map<std::string, std::string*> texts{
      {"MODEL", &command.model.model},         {"--batch", &command.model.batch}, {"--input", &command.model.input},
      {"--devices", &command.devices.devices}, {"--link", &command.devices.link}, {"--memory", &command.devices.memory},
      {"--reduce", &command.devices.reduce},   {"--plan", &command.choice.plan},  {"--optimizer", &command.step.optimizer},
      {"--lr", &command.step.learning_rate},   {"--loss", &command.step.loss},    {"--precision", &command.step.precision},
      {"--seed", &command.step.seed},          {"--data", &command.step.data},    {"--budget", &command.budget},
      {"--trials", &command.trials},           {"--target", &command.target}};
  for (const PlanChoiceOption& option : plan_choice_options())
    if (option.text != nullptr && option.of != PlanChoiceOption::Of::plan) texts[option.name] = &(command.choice.*option.text);
  return texts;
}

std::map<std::string, bool*> flags_of_options(TuneCommand& command) {
  std::map<std::string, bool*> flags{{"--strict", &command.choice.strict}, {"--allow-renamed", &command.choice.allow_renamed}};
  for (const PlanChoiceOption& option : plan_choice_options())
    if (option.flag != nullptr) flags[option.name] = &(command.choice.*option.flag);
  return flags;
}

std::string content_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) throw Error("the file can't be read", path, "check the path and its permissions");
  return {std::istreambuf_iterator<char>(file), {}};
}

/// Returns a digest of a file's size, its first and its last megabyte: the end of an archive has the checksums of all that is in it.
std::string digest_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  file.seekg(0, std::ios::end);
  const std::streamoff size = file.tellg();
  if (!file) throw Error("the file can't be read", path, "check the path and its permissions");
  std::string ends = std::to_string(size) + "\n";
  for (const std::streamoff from : {std::streamoff{0}, std::max<std::streamoff>(0, size - kDigestedBytes)}) {
    std::string part(as_index(std::min(size, kDigestedBytes)), '\0');
    file.seekg(from);
    file.read(part.data(), std::ssize(part));
    ends += part;
  }
  return sha256(ends);
}

/// Returns the digest of a file, or for a folder of all files in it.
std::string digest_at(const std::string& path) {
  if (!fs::is_directory(path)) return digest_of(path);
  std::map<std::string, std::string> files;
  for (const auto& entry : fs::directory_iterator(path))
    if (entry.is_regular_file()) files[entry.path().filename().string()] = digest_of(entry.path().string());
  std::string all;
  for (const auto& [name, digest] : files) all.append(name).append("\n").append(digest).append("\n");
  return sha256(all);
}

/// Returns the files that measurements depend on.
std::vector<std::string> files_of(const TuneCommand& command) {
  std::vector<std::string> files;
  if (const ModelText model = parse_model_text(command.model.model); model.is_file) files.push_back(absolute_path(model.name));
  if (!command.step.data.empty()) files.push_back(absolute_path(command.step.data));
  return files;
}

std::string home_of(const std::string& study) {
  return fs::path(absolute_path(study)).parent_path().string();
}

bool names_file(const std::string& option) {
  return option == "MODEL" || option == "--data" || option == "--plan";
}

/// Returns an option as a study holds it.
std::string canonical(const std::string& option, const std::string& text, const std::string& folder) {
  if (option == "MODEL") return model_in_study(text, folder);
  return names_file(option) ? file_in_study(text, folder) : text;
}

/// Undoes canonical().
std::string restored(const std::string& option, const std::string& stored, const std::string& folder) {
  if (option == "MODEL") return model_in_folder(stored, home_of(folder));
  return names_file(option) ? path_in_folder(stored, home_of(folder)) : stored;
}

/// Returns how a study now holds what a study of an earlier version holds as an absolute path.
std::string as_held_now(const std::string& option, const std::string& stored, const std::string& folder) {
  return stored.starts_with('/') ? canonical(option, stored, folder) : stored;
}

bool same(const std::string& option, const std::string& given, const std::string& stored, const std::string& folder) {
  if (canonical(option, given, folder) == as_held_now(option, stored, folder)) return true;
  if (option != "--devices") return false;
  const DeviceChoice a = parse_device_choice(given), b = parse_device_choice(stored);
  const auto name = [](const DevicePool& pool) { return pool.name(); };
  return a.devices == b.devices && std::ranges::equal(a.pools, b.pools, {}, name, name);
}

/// The study's JSON and where it comes from.
class StoredText {
 public:
  StoredText(const std::string& stored, const std::string& folder)
      : source_{folder, "the command of this study is damaged: ", "repeat the whole command with -o and --resume, or start a new study"},
        json_(parse_json(stored, source_)) {}

  [[nodiscard]] JsonField root() const { return {json_, source_}; }
  [[nodiscard]] std::string option(const std::string& name) const {
    const auto found = root().at("options").find(name);
    return found ? found->text() : "";
  }

 private:
  JsonSource source_;
  Json json_;
};

[[noreturn]] void refuse_other(const std::string& option, const std::string& given, const std::string& stored, const std::string& folder) {
  const std::string what = stored.empty() ? "without " + option : "with " + option + " " + stored + ", not " + given;
  throw Error("the study was made " + what, folder, "leave " + option + " out, or start a new study with another -o");
}

}  // namespace

std::string study_in_place_of_model(const TuneCommand& command) {
  const std::string& model = command.model.model;
  const bool names_path = model.find('/') != std::string::npos || model.ends_with(".study");
  std::error_code ignored;
  const bool folder = tuner::Study::is_study(model) || (names_path && fs::is_directory(model, ignored));
  if (folder && !command.resume)
    throw Error("this is a folder, not a model", model, "to go on with the study: `" + resume_command(model) + "`");
  if (folder && !command.output.path.empty() && !fs::equivalent(model, command.output.path, ignored))
    throw Error("MODEL is one study and -o another folder", command.output.path, "leave -o out: a study goes on where it is");
  if (folder && !tuner::Study::is_study(model))
    throw Error("the folder holds no study, or one that was cut off at its start", model,
                "repeat the whole command with -o " + shell_word(model) + " --resume");
  if (folder) return model;
  const bool file = model.ends_with(".so") || model.ends_with(".pt") || model.ends_with(".pt2") || model.find(':') != std::string::npos;
  if (command.resume && names_path && !file && !fs::exists(model, ignored))
    throw Error("there is no study to resume", model, "name the folder of a study, or repeat the whole command");
  return "";
}

std::string file_in_study(const std::string& path, const std::string& folder) {
  return path_from_folder(path, home_of(folder));
}

std::string model_in_study(const std::string& model, const std::string& folder) {
  return model_from_folder(model, home_of(folder));
}

std::string stored_command(const TuneCommand& command, const std::vector<std::string>& devices, const std::string& folder) {
  TuneCommand copy = command;
  if (copy.devices.devices == "auto") copy.devices.devices = join(devices, ",");
  Json options = Json::object(), files = Json::object();
  for (const auto& [name, text] : texts_of_options(copy))
    if (!text->empty()) options[name] = canonical(name, *text, folder);
  for (const auto& [name, flag] : flags_of_options(copy))
    if (*flag) options[name] = kOn;
  for (const std::string& file : files_of(copy)) files[file_in_study(file, folder)] = digest_at(file);
  const bool reads_plan = !copy.choice.plan.empty() && copy.plan_text.empty();
  const Json json = {{"options", options}, {"files", files}, {"plan", reads_plan ? content_of(copy.choice.plan) : copy.plan_text}};
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

void restore_command(TuneCommand& command, const std::string& stored, const std::string& folder) {
  if (stored.empty())
    throw Error("the study does not hold the command that made it: it was cut off at its start, or is of an earlier mptune", folder,
                "repeat the whole command with -o " + shell_word(folder) + " --resume");
  const StoredText text(stored, folder);
  command.given.erase("MODEL");
  for (const auto& [name, option] : texts_of_options(command)) {
    const std::string kept = text.option(name);
    const bool given = command.given.contains(name);
    if (!given) *option = restored(name, kept, folder);
    const bool may_change = std::ranges::find(kMayChange, name) != kMayChange.end();
    if (given && !may_change && !same(name, *option, kept, folder)) refuse_other(name, *option, kept, folder);
    if (given && !may_change && !names_file(name)) *option = kept;
  }
  for (const auto& [name, flag] : flags_of_options(command)) {
    const bool kept = !text.option(name).empty();
    if (command.given.contains(name) && !kept) refuse_other(name, kOn, "", folder);
    *flag = kept;
  }
  command.plan_text = text.root().at("plan").text();
  command.output.path = folder;
}

void check_stored_files(const TuneCommand& command, const std::string& stored, const std::string& folder) {
  if (stored.empty()) return;
  const std::vector<std::string> named = files_of(command);
  StoredText(stored, folder).root().at("files").each_member([&](const std::string& name, const JsonField& digest) {
    std::error_code ignored;
    const std::string kept = path_in_folder(name, home_of(folder));
    const auto given = std::ranges::find_if(
        named, [&](const std::string& file) { return file_in_study(file, folder) == as_held_now("--data", name, folder); });
    const std::string path = given == named.end() ? kept : *given;
    if (!fs::exists(path, ignored))
      throw Error(
          "a file that the study needs is missing", path.starts_with('/') ? path : home_of(folder) + "/" + path,
          "put it back, or repeat the command with the name that it has now, with -o and --resume; or start a new study with another -o");
    if (digest_at(path) != digest.text())
      throw Error("the file changed since the study began, so that old and new measurements can't be compared", path,
                  "put the old file back, or start a new study with another -o");
  });
}

Error with_resume_command(const Error& error, const std::string& command) {
  if (command.empty()) return error;
  switch (error.code()) {
    case ExitCode::usage:
    case ExitCode::infeasible:
      return error;
    case ExitCode::interrupted:
    case ExitCode::terminated:
      return {error.problem(), error.where(), "every finished trial is kept, go on with `" + command + "`", error.code()};
    default:
      return {error.problem(), error.where(), error.remedy() + ", then go on with `" + command + "`", error.code()};
  }
}

}  // namespace mptune::reports

#include "tuner/runtime/training/checkpoint.h"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>

#include "profiler/base/error.h"
#include "profiler/base/json_field.h"
#include "profiler/base/new_file.h"
#include "profiler/base/sha256.h"
#include "profiler/model/files/safetensors.h"

namespace mptune {
namespace {

namespace fs = std::filesystem;

constexpr const char* kFormat = "mptune.checkpoint";
constexpr int kVersion = 2;  // 2: checksums
constexpr std::string_view kFolderPrefix = "step-";
constexpr const char* kTensors = "tensors.safetensors";
constexpr const char* kJson = "checkpoint.json";  // written last: a folder without it is no checkpoint
constexpr const char* kChecksums = "checksums";
constexpr std::string_view kModelPrefix = "model.";
constexpr std::string_view kOptimizerPrefix = "optimizer.";

/// Returns the steps that a folder's name says; -1 where it is not the name of a checkpoint.
std::int64_t steps_in(const fs::path& path) {
  const std::string name = path.filename();
  if (!name.starts_with(kFolderPrefix)) return -1;
  const char* first = name.data() + kFolderPrefix.size();
  const char* last = name.data() + name.size();
  std::int64_t steps = -1;
  const auto [end, error] = std::from_chars(first, last, steps);
  return first != last && error == std::errc() && end == last ? steps : -1;
}

/// Returns the checkpoints in a folder, by their steps.
std::map<std::int64_t, fs::path> checkpoints_in(const std::string& folder) {
  std::map<std::int64_t, fs::path> found;
  std::error_code error;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error)) {
    const std::int64_t steps = steps_in(entry->path());
    std::error_code ignored;
    if (steps >= 0 && fs::is_regular_file(entry->path() / kJson, ignored)) found[steps] = entry->path();
  }
  return found;
}

/// Says what to do about a damaged checkpoint. No other checkpoint is used instead unless the user asks for it.
std::string remedy_for(const fs::path& path) {
  const auto all = checkpoints_in(path.parent_path());
  const auto before = all.lower_bound(steps_in(path));
  if (before == all.begin()) return "remove " + path.string() + " and begin anew: there is no checkpoint before it";
  return "go on from the one before it with --checkpoint-step " + std::to_string(std::prev(before)->first);
}

/// Removes the JSON first, so that a part of a checkpoint is never taken for a checkpoint.
void remove_checkpoint(const fs::path& path) {
  std::error_code ignored;
  fs::remove(path / kJson, ignored);
  fs::remove_all(path, ignored);
}

profiler::TensorDict tensors_of(const TrainingState& state) {
  profiler::TensorDict tensors;
  for (const auto* some : {&state.parameters, &state.buffers})
    for (const NamedTensor& named : *some) tensors.emplace_back(std::string(kModelPrefix) + named.name, named.tensor);
  for (const auto& [parameter, entries] : state.optimizer)
    for (const auto& [entry, tensor] : entries) tensors.emplace_back(std::string(kOptimizerPrefix) + entry + "." + parameter, tensor);
  return tensors;
}

nlohmann::json names_of(const std::vector<NamedTensor>& tensors) {
  nlohmann::json names = nlohmann::json::array();
  for (const NamedTensor& named : tensors) names.push_back(named.name);
  return names;
}

/// The tensors of a file, each taken once.
class Stored {
 public:
  Stored(const std::string& path, std::string remedy) : path_(path), remedy_(std::move(remedy)) {
    for (auto& [name, tensor] : profiler::read_safetensors(path)) tensors_[name] = tensor;
  }
  std::vector<NamedTensor> take(const JsonField& names) {
    std::vector<NamedTensor> taken;
    names.each([&](const JsonField& name) {
      const auto found = tensors_.extract(std::string(kModelPrefix) + name.text());
      if (!found) throw Error("the checkpoint lacks the tensor '" + name.text() + "'", path_, remedy_);
      taken.push_back({name.text(), found.mapped()});
    });
    return taken;
  }
  OptimizerState take_optimizer() const {
    OptimizerState state;
    for (const auto& [name, tensor] : tensors_) {
      if (!name.starts_with(kOptimizerPrefix)) continue;
      const std::string rest = name.substr(kOptimizerPrefix.size());
      const std::size_t dot = rest.find('.');
      if (dot != std::string::npos) state[rest.substr(dot + 1)][rest.substr(0, dot)] = tensor;
    }
    return state;
  }

 private:
  std::string path_, remedy_;
  std::map<std::string, at::Tensor> tensors_;
};

/// Returns float32 where the checkpoint does not say its precision, as earlier versions did not.
Precision precision_in(const JsonField& json) {
  const auto field = json.find("precision");
  if (!field) return Precision::float32;
  const auto precision = precision_of(field->text());
  if (!precision) field->refuse("is none of float32, bf16 and fp16");
  return *precision;
}

LossScale loss_scale_from(const JsonField& json) {
  const JsonField scale = json.at("scale");
  if (!(scale.number() > 0)) scale.refuse("must be positive");
  return {scale.number(), static_cast<int>(json.at("finite_steps").whole(0, std::numeric_limits<int>::max()))};
}

std::string content_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) throw Error("the checkpoint can't be read", path, "check the path and its permissions");
  return {std::istreambuf_iterator<char>(file), {}};
}

}  // namespace

void save_checkpoint(const std::string& folder, const CheckpointInfo& info, const TrainingState& state) {
  const fs::path path = fs::path(folder) / (std::string(kFolderPrefix) + std::to_string(state.steps));
  std::error_code error;
  fs::create_directories(path, error);
  if (error) throw Error("the folder can't be made: " + error.message(), path, "choose another --checkpoint", ExitCode::environment);
  fs::remove(path / kJson, error);
  profiler::write_safetensors(path / kTensors, tensors_of(state));
  nlohmann::json json = {{"format", kFormat},
                         {"version", kVersion},
                         {"steps", state.steps},
                         {"model", info.model},
                         {"fingerprint", info.fingerprint},
                         {"optimizer", info.optimizer},
                         {"seed", info.seed},
                         {"batch", info.batch},
                         {"precision", name_of(info.precision)},
                         {"parameters", names_of(state.parameters)},
                         {"buffers", names_of(state.buffers)}};
  if (state.loss_scale) json["loss_scale"] = {{"scale", state.loss_scale->scale}, {"finite_steps", state.loss_scale->finite_steps}};
  json[kChecksums] = {{kTensors, sha256_of_file(path / kTensors)}};
  json[kChecksums][kJson] = sha256(json.dump());
  NewFile file(path / kJson, ExitCode::environment);
  file << json.dump(2) + "\n";
  file.commit();
  auto others = checkpoints_in(folder);
  const auto own = others.find(state.steps);
  if (own != others.begin()) others.erase(std::prev(own));
  others.erase(state.steps);
  for (const auto& [steps, other] : others) remove_checkpoint(other);
}

std::string latest_checkpoint(const std::string& folder) {
  const auto found = checkpoints_in(folder);
  return found.empty() ? "" : found.rbegin()->second.string();
}

std::string checkpoint_of(const std::string& folder, std::int64_t steps) {
  const auto all = checkpoints_in(folder);
  if (const auto found = all.find(steps); found != all.end()) return found->second.string();
  std::string names;
  for (const auto& [known, path] : all) names += (names.empty() ? "" : ", ") + std::to_string(known);
  throw Error("there is no checkpoint of step " + std::to_string(steps), folder,
              names.empty() ? "leave --checkpoint-step out" : "there are those of steps " + names);
}

Checkpoint load_checkpoint(const std::string& path) {
  const std::string json_path = fs::path(path) / kJson, remedy = remedy_for(path);
  const JsonSource source{json_path, "the checkpoint is damaged: ", remedy};
  const nlohmann::json document = parse_json(content_of(json_path), source, JsonLimits{16, 10'000'000});
  const JsonField json(document, source);
  if (json.at("format").text() != kFormat) throw Error("this is not a checkpoint of mptune", json_path, "name the folder of --checkpoint");
  if (const auto version = json.at("version").whole(); version > kVersion)
    throw Error("the checkpoint was written by a newer version of mptune (format " + std::to_string(version) + ")", json_path,
                "use that version");
  if (json.at("version").whole() > 1) {
    const std::string tensors = json.at(kChecksums).at(kTensors).text(), own = json.at(kChecksums).at(kJson).text();
    nlohmann::json content = document;
    content[kChecksums].erase(kJson);
    if (sha256(content.dump()) != own) throw Error("the checkpoint is damaged: its checksum is another", json_path, remedy);
    if (sha256_of_file(fs::path(path) / kTensors) != tensors)
      throw Error("the checkpoint is damaged: the file's checksum is another", fs::path(path) / kTensors, remedy);
  }
  Checkpoint checkpoint;
  checkpoint.info = {json.at("model").text(),       json.at("fingerprint").text(),
                     json.at("optimizer").text(),   json.at("seed").whole<std::uint64_t>(),
                     json.at("batch").whole<int>(), precision_in(json)};
  checkpoint.state.steps = json.at("steps").whole(0, std::numeric_limits<std::int64_t>::max() - 1);
  Stored stored(fs::path(path) / kTensors, remedy);
  checkpoint.state.parameters = stored.take(json.at("parameters"));
  checkpoint.state.buffers = stored.take(json.at("buffers"));
  checkpoint.state.optimizer = stored.take_optimizer();
  if (const auto scale = json.find("loss_scale")) checkpoint.state.loss_scale = loss_scale_from(*scale);
  return checkpoint;
}

}  // namespace mptune

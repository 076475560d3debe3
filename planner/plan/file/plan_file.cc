#include "planner/plan/file/plan_file.h"

#include <sys/stat.h>

#include <algorithm>
#include <cstdlib>
#include <limits>
#include <map>

#include "planner/plan/file/plan_json.h"
#include "profiler/base/device_pool.h"
#include "profiler/base/error.h"
#include "profiler/base/index.h"
#include "profiler/base/new_file.h"
#include "profiler/base/whole_file.h"

namespace mptune {
namespace {

constexpr const char* kSchema = "mptune.plan/1";
constexpr const char* kFamily = "mptune.plan/";
constexpr std::int64_t kLargestFile = std::int64_t{64} << 20;

std::string text_or_empty(const JsonField& object, const char* key) {
  const auto found = object.find(key);
  return found ? planner::label_of(*found) : "";
}

Fingerprint fingerprint_from(const JsonField& object) {
  Fingerprint fingerprint;
  fingerprint.model = text_or_empty(object, "model");
  fingerprint.input = text_or_empty(object, "input");
  if (const auto devices = object.find("devices")) fingerprint.devices = planner::labels_of(*devices);
  fingerprint.libtorch = text_or_empty(object, "libtorch");
  fingerprint.cuda = text_or_empty(object, "cuda");
  return fingerprint;
}

planner::Json predicted_object(const PredictedStep& predicted) {
  planner::Json object;
  object["step_s"] = predicted.step_s;
  object["lower_bound_s"] = predicted.lower_bound_s;
  object["peak_bytes"] = predicted.peak_bytes;
  if (predicted.runtime != Runtime::mptune) object["runtime"] = name_of(predicted.runtime);
  return object;
}

std::vector<std::int64_t> byte_counts(const JsonField& field) {
  return field.list([](const JsonField& count) { return count.whole(0, std::int64_t{1} << 60); });
}

double seconds_of(const JsonField& field) {
  constexpr double kLongest = 1e7;
  const double seconds = field.number();
  if (seconds < 0 || seconds > kLongest) field.refuse("is not a time of 0 to 1e7 s");
  return seconds;
}

PredictedStep predicted_from(const JsonField& object) {
  PredictedStep predicted;
  predicted.step_s = seconds_of(object.at("step_s"));
  predicted.lower_bound_s = seconds_of(object.at("lower_bound_s"));
  predicted.peak_bytes = byte_counts(object.at("peak_bytes"));
  if (const auto named = object.find("runtime")) {
    const auto runtime = runtime_of(named->text());
    if (!runtime) named->refuse("is none of mptune, torch, megatron and deepspeed");
    predicted.runtime = *runtime;
  }
  return predicted;
}

planner::Json measured_object(const MeasuredStep& measured) {
  planner::Json object;
  object["step_s"] = measured.step_s;
  object["step_ci95_s"] = planner::interval_json(measured.step_ci95_s);
  object["step_samples"] = measured.step_samples;
  object["peak_bytes"] = measured.peak_bytes;
  object["verdict"] = to_string(measured.verdict);
  if (!measured.speedup_over.empty()) {
    object["speedup"]["over"] = measured.speedup_over;
    object["speedup"]["estimate"] = measured.speedup.estimate;
    object["speedup"]["ci95"] = planner::interval_json(measured.speedup.ci95);
    object["speedup"]["range"] = planner::interval_json(measured.speedup.range);
    object["speedup"]["pairs"] = measured.speedup.pairs;
  }
  return object;
}

/// Returns nullopt where the member is absent or null.
std::optional<Interval> interval_in(const JsonField& object, const char* key) {
  const auto field = object.find(key);
  if (!field) return std::nullopt;
  const std::vector<double> ends = field->numbers();
  if (ends.size() != 2 || ends[0] < 0 || ends[0] > ends[1]) field->refuse("must be [low, high], both positive");
  return Interval{ends[0], ends[1]};
}

Verdict verdict_of(const JsonField& field) {
  try {
    return verdict_from(field.text());
  } catch (const Error&) {
    field.refuse("is not a verdict, like FAST");
  }
}

MeasuredStep measured_from(const JsonField& object) {
  MeasuredStep measured;
  measured.step_s = seconds_of(object.at("step_s"));
  measured.step_ci95_s = interval_in(object, "step_ci95_s");
  measured.step_samples = static_cast<int>(object.at("step_samples").whole(0, std::numeric_limits<int>::max()));
  // Earlier versions wrote the range of a few samples as their interval.
  if (measured.step_samples < static_cast<int>(kLeastForInterval)) measured.step_ci95_s.reset();
  measured.peak_bytes = byte_counts(object.at("peak_bytes"));
  measured.verdict = verdict_of(object.at("verdict"));
  if (const auto speedup = object.find("speedup")) {
    measured.speedup_over = planner::label_of(speedup->at("over"));
    measured.speedup.estimate = speedup->at("estimate").number();
    measured.speedup.ci95 = interval_in(*speedup, "ci95");
    measured.speedup.range = interval_in(*speedup, "range");
    if (const auto pairs = speedup->find("pairs"))
      measured.speedup.pairs = static_cast<int>(pairs->whole(0, std::numeric_limits<int>::max()));
    if (measured.step_samples < static_cast<int>(kLeastForInterval)) measured.speedup.ci95.reset();
    measured.speedup.verdict = measured.verdict;
  }
  return measured;
}

planner::Json training_object(const TrainingSpec& given) {
  const TrainingSpec training = without_folders(given);
  planner::Json object;
  for (const TrainingField& field : kTrainingFields)
    if (const std::string& value = training.*field.value; !value.empty()) object[field.name] = value;
  return object;
}

TrainingSpec training_from(const JsonField& object) {
  TrainingSpec training;
  for (const TrainingField& field : kTrainingFields) training.*field.value = text_or_empty(object, field.name);
  return training;
}

void check_peaks(const std::vector<std::int64_t>& peaks, const Plan& plan, const JsonField& field) {
  if (peaks.size() > plan.devices.size()) field.at("peak_bytes").refuse("has more entries than the plan has devices");
}

void check_schema(const JsonField& file) {
  const std::string& schema = file.at("schema").text();
  if (schema == kSchema) return;
  const std::string shown = schema.substr(0, 40);
  const std::string& where = file.source().file;
  if (schema.starts_with(kFamily))
    throw Error("a plan of another version, '" + shown + "'", where, "upgrade mptune, or write the plan again with this version");
  throw Error("not a plan file: its schema is '" + shown + "'", where, "use a file that mptune tune or mptune plan wrote");
}

std::string read_file(const std::string& path) {
  return read_whole_file(path, kLargestFile, "plan file");
}

bool is_plan_file(const std::string& path) {
  try {
    const JsonSource source = planner::plan_source(path);
    const nlohmann::json json = planner::parse_plan_json(read_file(path), source);
    return text_or_empty(JsonField(json, source), "schema").starts_with(kFamily);
  } catch (const Error&) {
    return false;
  }
}

}  // namespace

std::vector<std::vector<std::string>> stage_modules(const Plan& plan, const std::vector<ProfileLayer>& layers) {
  std::vector<std::vector<std::string>> stages;
  for (const Stage& stage : plan.stages) {
    std::vector<std::string>& names = stages.emplace_back();
    for (int layer = stage.first_layer; layer < stage.last_layer && layer < static_cast<int>(layers.size()); ++layer) {
      const std::vector<std::string>& modules = layers[as_index(layer)].modules;
      names.insert(names.end(), modules.begin(), modules.end());
    }
  }
  return stages;
}

std::string check_modules(const PlanFile& file, const std::vector<ProfileLayer>& layers, const std::string& where) {
  const std::vector<std::vector<std::string>> expected = stage_modules(file.plan, layers);
  std::map<std::string, std::size_t> last_stage;  // the last stage with a layer that has the module
  for (std::size_t s = 0; s < expected.size(); ++s)
    for (const std::string& name : expected[s]) last_stage[name] = s;
  std::string unknown;
  for (std::size_t s = 0; s < file.modules.size(); ++s) {
    auto rest = expected[s].begin();
    for (const std::string& name : file.modules[s]) {
      const auto known = last_stage.find(name);
      const auto found = std::find(rest, expected[s].end(), name);
      if (found != expected[s].end()) rest = found + 1;
      if (known == last_stage.end() && unknown.empty()) unknown = name;
      if (known == last_stage.end() || found != expected[s].end()) continue;
      const bool here = std::ranges::find(expected[s], name) != expected[s].end();
      throw Error("stage " + std::to_string(s) + " names module '" + name.substr(0, 80) + "', which " +
                      (here ? "comes earlier in its layers" : "is in the layers of stage " + std::to_string(known->second)),
                  where, "correct the layers or the modules, or write the plan again with mptune tune or mptune plan");
    }
  }
  return unknown;
}

PlanFile new_plan_file(const Plan& plan, const std::vector<ProfileLayer>& layers, const Fingerprint& fingerprint,
                       const std::string& created) {
  PlanFile file;
  file.plan = plan;
  file.modules = stage_modules(plan, layers);
  file.fingerprint = fingerprint;
  // The fingerprint may name the pool that the search could choose from; the plan runs on the devices that the search chose.
  if (std::ranges::any_of(fingerprint.devices, names_pool)) file.fingerprint.devices = plan.devices;
  file.created = created;
  return file;
}

std::string to_json(const PlanFile& file) {
  planner::Json object;
  object["schema"] = kSchema;
  object["created"] = file.created;
  object["tool"]["name"] = "mptune";
  object["tool"]["version"] = MPTUNE_VERSION;
  object["study"] = file.study;
  object["trial"] = file.trial;
  object["fingerprint"] = planner::fingerprint_object(file.fingerprint);
  if (file.training != TrainingSpec{}) object["training"] = training_object(file.training);
  object["plan"] = planner::plan_object(file.plan, file.modules);
  if (file.predicted) object["predicted"] = predicted_object(*file.predicted);
  if (file.measured) object["measured"] = measured_object(*file.measured);
  object["alternatives"] = planner::Json::array();
  for (const AlternativePlan& alternative : file.alternatives) {
    planner::Json entry;
    entry["reason"] = alternative.reason;
    entry["plan"] = planner::plan_object(alternative.plan, {});
    object["alternatives"].push_back(entry);
  }
  return object.dump(2, ' ', false, planner::Json::error_handler_t::replace) + "\n";
}

PlanFile parse_plan_file(const std::string& text, const std::string& where) {
  const JsonSource source = planner::plan_source(where);
  const nlohmann::json json = planner::parse_plan_json(text, source);
  const JsonField object(json, source);
  check_schema(object);
  PlanFile file;
  planner::PlanWithModules read = planner::plan_from_object(object.at("plan"));
  file.plan = std::move(read.plan);
  file.modules = std::move(read.modules);
  file.created = text_or_empty(object, "created");
  file.study = text_or_empty(object, "study");
  if (const auto trial = object.find("trial")) file.trial = static_cast<int>(trial->whole(-1, std::numeric_limits<int>::max()));
  if (const auto fingerprint = object.find("fingerprint")) file.fingerprint = fingerprint_from(*fingerprint);
  if (const auto predicted = object.find("predicted")) file.predicted = predicted_from(*predicted);
  if (const auto measured = object.find("measured")) file.measured = measured_from(*measured);
  if (const auto training = object.find("training")) file.training = training_from(*training);
  if (file.predicted) check_peaks(file.predicted->peak_bytes, file.plan, object.at("predicted"));
  if (file.measured) check_peaks(file.measured->peak_bytes, file.plan, object.at("measured"));
  const auto alternatives = object.find("alternatives");
  if (!alternatives) return file;
  alternatives->each([&](const JsonField& entry) {
    file.alternatives.push_back({text_or_empty(entry, "reason"), planner::plan_from_object(entry.at("plan")).plan});
  });
  return file;
}

PlanFile load_plan_file(const std::string& path) {
  return parse_plan_file(read_file(path), path);
}

PlanFile load_plan(const std::string& path) {
  const char* instead = std::getenv("MPTUNE_PLAN");
  return load_plan_file(instead != nullptr && *instead != '\0' ? instead : path);
}

void save_plan_file(const PlanFile& file, const std::string& path, bool force) {
  struct stat status {};
  if (::stat(path.c_str(), &status) == 0 && !is_written_directly(path) && !force && !is_plan_file(path))
    throw Error("the file exists and was not written by mptune", path, "choose another name with -o, or add --force");
  NewFile output(path);
  output << to_json(file);
  output.commit();
}

}  // namespace mptune

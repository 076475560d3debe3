#include "mptune/planner/plan_json.h"

#include <algorithm>
#include <numeric>

#include "mptune/planner/plan_file.h"
#include "mptune/planner/schedule/schedule.h"
#include "mptune/profiler/base/error.h"
#include "mptune/profiler/base/sha256.h"

namespace mptune {
namespace {

constexpr int kMostMicrobatches = 1 << 20;

// Sizes that follow from the largest one alone need no list.
bool follows_from_size(const std::vector<int>& sizes) {
  const std::int64_t batch = std::accumulate(sizes.begin(), sizes.end(), std::int64_t{0});
  return !sizes.empty() && sizes.front() > 0 && sizes == split_by_size(static_cast<int>(batch), sizes.front());
}

int largest(const std::vector<int>& sizes) {
  return sizes.empty() ? 0 : *std::max_element(sizes.begin(), sizes.end());
}

int common_replicas(const Plan& plan) {
  const std::size_t replicas = plan.stages.empty() ? 1 : plan.stages.front().devices.size();
  const bool common = std::all_of(plan.stages.begin(), plan.stages.end(), [&](const Stage& s) { return s.devices.size() == replicas; });
  return common ? static_cast<int>(replicas) : 1;
}

Json recompute_value(const Recompute& recompute) {
  if (recompute.mode == Recompute::Mode::none) return "none";
  if (recompute.mode == Recompute::Mode::all) return "all";
  Json value;
  value["layers"] = recompute.layers;
  value["microbatches"] = recompute.microbatches;
  return value;
}

Json stage_object(const Plan& plan, std::size_t index, const std::vector<std::vector<std::string>>& modules) {
  const Stage& stage = plan.stages[index];
  Json object;
  object["index"] = index;
  object["devices"] = Json::array();
  for (const int device : stage.devices) object["devices"].push_back(plan.devices.at(static_cast<std::size_t>(device)));
  object["layers"] = {stage.first_layer, stage.last_layer};
  if (index < modules.size()) {
    object["modules"] = modules[index];
    object["first_module"] = modules[index].empty() ? "" : modules[index].front();
  }
  object["recompute"] = recompute_value(stage.recompute);
  return object;
}

Recompute recompute_from(const JsonObject& stage) {
  Recompute recompute;
  const Json& value = stage.at("recompute");
  if (value.is_object()) {
    const JsonObject parts = stage.object("recompute");
    recompute.mode = Recompute::Mode::some;
    recompute.layers = parts.integers("layers");
    if (parts.find("microbatches") != nullptr) recompute.microbatches = parts.integers("microbatches");
    return recompute;
  }
  const std::string mode = stage.text("recompute");
  if (mode != "none" && mode != "all") stage.refuse("recompute", "is neither none, all nor an object");
  if (mode == "all") recompute.mode = Recompute::Mode::all;
  return recompute;
}

Stage stage_from(const JsonObject& object, const std::vector<std::string>& devices) {
  Stage stage;
  const std::vector<int> layers = object.integers("layers");
  if (layers.size() != 2) object.refuse("layers", "must be [first, last)");
  stage.first_layer = layers[0];
  stage.last_layer = layers[1];
  for (const std::string& name : object.texts("devices")) {
    const auto found = std::find(devices.begin(), devices.end(), name);
    if (found == devices.end()) object.refuse("devices", "names '" + name.substr(0, 40) + "', which plan.devices does not list");
    stage.devices.push_back(static_cast<int>(found - devices.begin()));
  }
  stage.recompute = recompute_from(object);
  return stage;
}

std::vector<int> microbatch_sizes_from(const JsonObject& object) {
  const int batch = object.integer("global_batch_size");
  const int size = object.integer("micro_batch_size");
  const int count = object.integer("num_microbatches");
  if (batch < 1) object.refuse("global_batch_size", "must be positive");
  if (size < 1 || size > batch) object.refuse("micro_batch_size", "must lie between 1 and the global batch");
  if (count < 1 || count > batch || count > kMostMicrobatches) object.refuse("num_microbatches", "must lie between 1 and the global batch");
  if (object.find("microbatch_sizes") == nullptr) {
    if ((batch - 1) / size + 1 != count) object.refuse("num_microbatches", "disagrees with global_batch_size and micro_batch_size");
    return split_by_size(batch, size);
  }
  std::vector<int> sizes = object.integers("microbatch_sizes");
  if (sizes.size() != static_cast<std::size_t>(count)) object.refuse("microbatch_sizes", "disagrees with num_microbatches");
  if (largest(sizes) != size) object.refuse("microbatch_sizes", "disagrees with micro_batch_size, the largest of them");
  if (std::accumulate(sizes.begin(), sizes.end(), std::int64_t{0}) != batch)
    object.refuse("microbatch_sizes", "does not add up to global_batch_size");
  return sizes;
}

std::vector<std::string> modules_from(const JsonObject& stage) {
  if (stage.find("modules") == nullptr) return {};
  std::vector<std::string> modules = stage.texts("modules");
  if (stage.text_or("first_module", "") != (modules.empty() ? "" : modules.front())) stage.refuse("first_module", "disagrees with modules");
  return modules;
}

void read_stages(const JsonObject& object, PlanWithModules& read) {
  const Json& stages = object.array("stages");
  bool named = false;
  for (std::size_t i = 0; i < stages.size(); ++i) {
    const JsonObject stage(stages[i], object.path_of("stages") + "[" + std::to_string(i) + "]", object.where());
    if (stage.find("index") != nullptr && stage.integer("index") != static_cast<int>(i)) stage.refuse("index", "is out of order");
    read.plan.stages.push_back(stage_from(stage, read.plan.devices));
    read.modules.push_back(modules_from(stage));
    named |= stage.find("modules") != nullptr;
  }
  if (!named) read.modules.clear();
  if (object.integer("num_stages") != read.plan.num_stages()) object.refuse("num_stages", "disagrees with stages");
}

void read_schedule(const JsonObject& object, Plan& plan) {
  const JsonObject schedule = object.object("schedule");
  plan.schedule = schedule.text("name");
  for (const std::string& row : schedule.texts("actions")) plan.actions.push_back(actions_from_text(row, object.where()));
}

}  // namespace

Json plan_object(const Plan& plan, const std::vector<std::vector<std::string>>& modules) {
  Json object;
  object["global_batch_size"] = plan.global_batch_size();
  object["micro_batch_size"] = largest(plan.microbatch_sizes);
  object["num_microbatches"] = plan.num_microbatches();
  object["microbatch_sizes"] = follows_from_size(plan.microbatch_sizes) ? Json(nullptr) : Json(plan.microbatch_sizes);
  object["data_parallel_size"] = common_replicas(plan);
  object["num_stages"] = plan.num_stages();
  object["devices"] = plan.devices;
  object["schedule"]["name"] = plan.schedule;
  object["schedule"]["actions"] = Json::array();
  for (const std::vector<Action>& row : plan.actions) object["schedule"]["actions"].push_back(to_text(row));
  object["stages"] = Json::array();
  for (std::size_t i = 0; i < plan.stages.size(); ++i) object["stages"].push_back(stage_object(plan, i, modules));
  return object;
}

Json fingerprint_object(const Fingerprint& fingerprint) {
  Json object;
  object["model"] = fingerprint.model;
  object["input"] = fingerprint.input;
  object["devices"] = fingerprint.devices;
  object["libtorch"] = fingerprint.libtorch;
  object["cuda"] = fingerprint.cuda;
  return object;
}

PlanWithModules plan_from_object(const Json& value, const std::string& where) {
  const JsonObject object(value, "plan", where);
  PlanWithModules read;
  read.plan.devices = object.texts("devices");
  read.plan.microbatch_sizes = microbatch_sizes_from(object);
  read_stages(object, read);
  read_schedule(object, read.plan);
  validate(read.plan, -1, where);
  if (object.integer("data_parallel_size") != common_replicas(read.plan))
    object.refuse("data_parallel_size", "disagrees with the devices of the stages");
  validate_schedule(read.plan, where);
  return read;
}

std::string plan_to_json(const Plan& plan, const std::vector<std::vector<std::string>>& modules) {
  return plan_object(plan, modules).dump(-1, ' ', false, Json::error_handler_t::replace);
}

Plan plan_from_json(const std::string& text, const std::string& where) {
  return plan_from_object(parse_json(text, where), where).plan;
}

std::string plan_key(const Plan& plan) {
  return sha256(plan_to_json(plan, {})).substr(7, 12);
}

}  // namespace mptune

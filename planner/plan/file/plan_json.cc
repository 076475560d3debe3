#include "planner/plan/file/plan_json.h"

#include <algorithm>
#include <numeric>

#include "planner/plan/file/plan_file.h"
#include "planner/plan/threads.h"
#include "planner/schedule/schedule.h"
#include "profiler/base/error.h"
#include "profiler/base/index.h"
#include "profiler/base/printable.h"
#include "profiler/base/sha256.h"

namespace mptune::planner {
namespace {

constexpr int kMostMicrobatches = 1 << 20;

// Micro-batch sizes that follow from the largest one alone need no list.
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
  for (const int device : stage.devices) object["devices"].push_back(plan.devices.at(as_index(device)));
  object["layers"] = {stage.first_layer, stage.last_layer};
  if (index < modules.size()) {
    object["modules"] = modules[index];
    object["first_module"] = modules[index].empty() ? "" : modules[index].front();
  }
  object["recompute"] = recompute_value(stage.recompute);
  if (stage.offload) object["offload"] = true;
  return object;
}

Recompute recompute_from(const JsonField& field) {
  Recompute recompute;
  if (field.is_object()) {
    recompute.mode = Recompute::Mode::some;
    recompute.layers = field.at("layers").integers();
    if (const auto microbatches = field.find("microbatches")) recompute.microbatches = microbatches->integers();
    return recompute;
  }
  const std::string mode = field.text();
  if (mode != "none" && mode != "all") field.refuse("is neither none, all nor an object");
  if (mode == "all") recompute.mode = Recompute::Mode::all;
  return recompute;
}

Stage stage_from(const JsonField& object, const std::vector<std::string>& devices) {
  Stage stage;
  const std::vector<int> layers = object.at("layers").integers();
  if (layers.size() != 2) object.at("layers").refuse("must be [first, last)");
  stage.first_layer = layers[0];
  stage.last_layer = layers[1];
  for (const std::string& name : labels_of(object.at("devices"))) {
    const auto found = std::find(devices.begin(), devices.end(), name);
    if (found == devices.end()) object.at("devices").refuse("names '" + name.substr(0, 40) + "', which plan.devices does not list");
    stage.devices.push_back(static_cast<int>(found - devices.begin()));
  }
  stage.recompute = recompute_from(object.at("recompute"));
  if (const auto offload = object.find("offload")) stage.offload = offload->truth();
  return stage;
}

std::vector<int> microbatch_sizes_from(const JsonField& object) {
  const int batch = object.at("global_batch_size").whole<int>();
  const int size = object.at("micro_batch_size").whole<int>();
  const int count = object.at("num_microbatches").whole<int>();
  if (batch < 1) object.at("global_batch_size").refuse("must be positive");
  if (size < 1 || size > batch) object.at("micro_batch_size").refuse("must lie between 1 and the global batch");
  if (count < 1 || count > batch || count > kMostMicrobatches)
    object.at("num_microbatches").refuse("must lie between 1 and the global batch");
  const auto listed = object.find("microbatch_sizes");
  if (!listed) {
    if ((batch - 1) / size + 1 != count) object.at("num_microbatches").refuse("disagrees with global_batch_size and micro_batch_size");
    return split_by_size(batch, size);
  }
  std::vector<int> sizes = listed->integers();
  if (sizes.size() != as_index(count)) listed->refuse("disagrees with num_microbatches");
  if (largest(sizes) != size) listed->refuse("disagrees with micro_batch_size, the largest of them");
  if (std::accumulate(sizes.begin(), sizes.end(), std::int64_t{0}) != batch) listed->refuse("does not add up to global_batch_size");
  return sizes;
}

std::vector<std::string> modules_from(const JsonField& stage) {
  const auto listed = stage.find("modules");
  if (!listed) return {};
  std::vector<std::string> modules = labels_of(*listed);
  const auto first = stage.find("first_module");
  if ((first ? first->text() : "") != (modules.empty() ? "" : modules.front())) stage.at("first_module").refuse("disagrees with modules");
  return modules;
}

void read_stages(const JsonField& object, PlanWithModules& read) {
  bool named = false;
  object.at("stages").each([&](const JsonField& stage) {
    const auto index = stage.find("index");
    if (index && index->whole<int>() != read.plan.num_stages()) index->refuse("is out of order");
    read.plan.stages.push_back(stage_from(stage, read.plan.devices));
    read.modules.push_back(modules_from(stage));
    named |= stage.has("modules");
  });
  if (!named) read.modules.clear();
  if (object.at("num_stages").whole<int>() != read.plan.num_stages()) object.at("num_stages").refuse("disagrees with stages");
}

Json options_object(const Plan& plan) {
  Json object;
  object["memory_format"] = name_of(plan.options.memory_format);
  if (plan.options.precision != Precision::float32) object["precision"] = name_of(plan.options.precision);
  object["replace_slow_kernels"] = plan.options.replace_slow_kernels;
  object["idle_devices_help"] = plan.options.idle_devices_help;
  if (!has_default_threads(plan)) object["threads"] = plan.options.threads;
  object["exact"] = is_exact(plan);
  return object;
}

// Options that are not written have their defaults.
bool has_options(const Plan& plan) {
  ExecutionOptions options = plan.options;
  options.threads.clear();
  return options != ExecutionOptions() || !is_exact(plan);
}

MemoryFormat memory_format_from(const JsonField& field) {
  const auto format = memory_format_of(field.text());
  if (!format) field.refuse("is neither contiguous nor channels_last");
  return *format;
}

Precision precision_from(const JsonField& field) {
  const auto precision = precision_of(field.text());
  if (!precision) field.refuse("is none of float32, bf16 and fp16");
  return *precision;
}

void read_options(const JsonField& object, Plan& plan) {
  const auto options = object.find("options");
  if (!options) return;
  if (const auto format = options->find("memory_format")) plan.options.memory_format = memory_format_from(*format);
  if (const auto precision = options->find("precision")) plan.options.precision = precision_from(*precision);
  if (const auto replace = options->find("replace_slow_kernels")) plan.options.replace_slow_kernels = replace->truth();
  if (const auto help = options->find("idle_devices_help")) plan.options.idle_devices_help = help->truth();
  if (const auto threads = options->find("threads")) plan.options.threads = threads->integers();
  if (has_default_threads(plan)) plan.options.threads.clear();
  const auto exact = options->find("exact");
  if (exact && exact->truth() != is_exact(plan)) exact->refuse("disagrees with the other options and the actions");
}

void read_schedule(const JsonField& schedule, Plan& plan) {
  plan.schedule = label_of(schedule.at("name"));
  for (const std::string& row : schedule.at("actions").texts()) plan.actions.push_back(actions_from_text(row, schedule.source().file));
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
  if (has_options(plan)) object["options"] = options_object(plan);
  return object;
}

Json interval_json(const std::optional<Interval>& interval) {
  return interval ? Json::array({interval->low, interval->high}) : Json(nullptr);
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

std::string label_of(const JsonField& field) {
  constexpr std::size_t kLongest = 1000;
  const std::string& label = field.text();
  if (label.size() > kLongest) field.refuse("is longer than " + std::to_string(kLongest) + " bytes");
  if (printable(label) != label) field.refuse("holds a control character");
  return label;
}

std::vector<std::string> labels_of(const JsonField& field) {
  return field.list(label_of);
}

JsonSource plan_source(const std::string& file) {
  return {file, "", "correct it, or write it again with mptune tune or mptune plan"};
}

nlohmann::json parse_plan_json(const std::string& text, const JsonSource& source) {
  return parse_json(text, source, JsonLimits{.depth = 64, .values = 4'000'000});
}

PlanWithModules plan_from_object(const JsonField& object) {
  const std::string& where = object.source().file;
  PlanWithModules read;
  read.plan.devices = labels_of(object.at("devices"));
  read.plan.microbatch_sizes = microbatch_sizes_from(object);
  read_stages(object, read);
  read_schedule(object.at("schedule"), read.plan);
  read_options(object, read.plan);
  validate(read.plan, -1, where);
  const JsonField replicas = object.at("data_parallel_size");
  if (replicas.whole<int>() != common_replicas(read.plan)) replicas.refuse("disagrees with the devices of the stages");
  validate_schedule(read.plan, where);
  return read;
}

}  // namespace mptune::planner

namespace mptune {

std::string plan_to_json(const Plan& plan, const std::vector<std::vector<std::string>>& modules) {
  return planner::plan_object(plan, modules).dump(-1, ' ', false, planner::Json::error_handler_t::replace);
}

Plan plan_from_json(const std::string& text, const std::string& where) {
  const JsonSource source = planner::plan_source(where);
  const nlohmann::json json = planner::parse_plan_json(text, source);
  return planner::plan_from_object(JsonField(json, source, "plan")).plan;
}

std::string plan_key(const Plan& plan) {
  return sha256(plan_to_json(plan, {})).substr(7, 12);
}

}  // namespace mptune

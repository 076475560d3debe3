#include "tuner/study/store/summary.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>

#include "profiler/base/json_field.h"
#include "profiler/base/printable.h"
#include "profiler/base/shell_command.h"
#include "profiler/base/text.h"
#include "tuner/study/store/study_rows.h"

namespace mptune::tuner {
namespace {

using Json = nlohmann::json;

Json no_plan_json(const NoPlan& none) {
  return {{"why", to_string(none.why)},        {"needed", none.needed},      {"available", none.available}, {"device", none.device},
          {"needed_bytes", none.needed_bytes}, {"cap_bytes", none.cap_bytes}};
}

constexpr std::size_t kLongestText = 10'000;
constexpr std::size_t kMostDevices = 4096;

std::string words(const JsonField& field) {
  return printable(field.text()).substr(0, kLongestText);
}

double seconds(const JsonField& field) {
  const double value = field.number();
  if (value < 0 || value > kLongestSeconds) field.refuse("is out of range");
  return value;
}

std::int64_t bytes(const JsonField& field) {
  return field.whole(0, std::int64_t{1} << 60);
}

int count(const JsonField& field) {
  return static_cast<int>(field.whole(0, 1 << 30));
}

std::vector<std::string> devices_from(const JsonField& field) {
  std::vector<std::string> devices;
  field.each([&](const JsonField& device) {
    const std::string& name = device.text();
    if (name.empty() || name.size() > 200 || printable(name) != name) device.refuse("is not the name of a device");
    if (std::ranges::find(devices, name) != devices.end()) device.refuse("is listed twice");
    if (devices.size() == kMostDevices) field.refuse("is too long");
    devices.push_back(name);
  });
  return devices;
}

NoPlan no_plan_from(const JsonField& json) {
  return {.why = why_from(json.at("why").text()),
          .needed = count(json.at("needed")),
          .available = count(json.at("available")),
          .device = words(json.at("device")),
          .needed_bytes = bytes(json.at("needed_bytes")),
          .cap_bytes = bytes(json.at("cap_bytes"))};
}

/// Studies of earlier versions hold the sentence alone. Its first words say whether memory is the reason.
NoPlan no_plan_in_words(const std::string& words) {
  return {.why = words.starts_with("does not fit") ? NoPlan::Why::none_within_caps : NoPlan::Why::none_found, .words = words};
}

Json kind_facts_json(const KindFacts& facts) {
  Json json = {
      {"on_paper", Json::object()}, {"no_plan", Json::object()}, {"why_no_plan", Json::object()}, {"other_devices", Json::array()}};
  for (const auto& [kind, none] : facts.no_plan) {
    json["no_plan"][to_string(kind)] = text_of(none);
    json["why_no_plan"][to_string(kind)] = no_plan_json(none);
  }
  for (const auto& [kind, best] : facts.predicted)
    json["on_paper"][to_string(kind)] = {{"description", best.description}, {"step_s", best.step_s}, {"peak_bytes", best.peak_bytes}};
  for (const OtherDevices& other : facts.other_devices)
    json["other_devices"].push_back({{"devices", other.devices}, {"kind", to_string(other.kind)}, {"step_s", other.step_s}});
  return json;
}

planner::Parallelism kind_from(const std::string& name, const JsonField& field) {
  if (const auto kind = planner::parallelism_named(name)) return *kind;
  field.refuse("names '" + printable(name.substr(0, 40)) + "', no kind of parallelism");
}

PredictedKind predicted_from(const JsonField& best) {
  return {words(best.at("description")), seconds(best.at("step_s")), best.at("peak_bytes").list(bytes)};
}

void read_no_plan(const JsonField& words_of_kinds, const std::optional<JsonField>& values, KindFacts& facts) {
  words_of_kinds.each_member([&](const std::string& kind, const JsonField& text) {
    const std::optional<JsonField> value = values ? values->find(kind) : std::nullopt;
    facts.no_plan[kind_from(kind, words_of_kinds)] = value ? no_plan_from(*value) : no_plan_in_words(words(text));
  });
}

/// Studies of earlier versions have none.
KindFacts kind_facts_from(const std::optional<JsonField>& json, const std::vector<std::string>& whole_machine) {
  KindFacts facts;
  facts.whole_machine = whole_machine;
  if (!json) return facts;
  if (const auto no_plan = json->find("no_plan")) read_no_plan(*no_plan, json->find("why_no_plan"), facts);
  if (const auto predicted = json->find("on_paper")) {
    predicted->each_member(
        [&](const std::string& kind, const JsonField& best) { facts.predicted[kind_from(kind, *predicted)] = predicted_from(best); });
  }
  if (const auto others = json->find("other_devices")) {
    others->each([&](const JsonField& other) {
      const JsonField kind = other.at("kind");
      facts.other_devices.push_back({count(other.at("devices")), kind_from(kind.text(), kind), seconds(other.at("step_s"))});
    });
  }
  return facts;
}

Json stages_json(const StagesPerDevice& stages) {
  return {{"searched", stages.searched}, {"possible", stages.possible}, {"end", static_cast<int>(stages.end)}};
}

// Studies of earlier versions do not say how many stages per device were searched.
StagesPerDevice stages_from(const std::optional<JsonField>& json) {
  const auto value = [&](const char* key, int most) {
    const auto field = json ? json->find(key) : std::nullopt;
    return field ? static_cast<int>(field->whole(0, most)) : 0;
  };
  const int end = value("end", static_cast<int>(StagesPerDevice::End::not_reached));
  return {value("searched", 1 << 20), value("possible", 1 << 20), static_cast<StagesPerDevice::End>(end)};
}

// The gap is below 0 where the measured step is shorter than the predicted lower bound.
double gap_from(const JsonField& field) {
  const double gap = field.number();
  if (gap < -1 || gap > kLongestSeconds / kShortestStep) field.refuse("is out of range");
  return gap;
}

Json baselines_json(const std::vector<PlannedBaseline>& baselines) {
  Json json = Json::array();
  for (const PlannedBaseline& baseline : baselines) {
    json.push_back({{"name", baseline.name},
                    {"plan_key", baseline.plan_key},
                    {"description", baseline.description},
                    {"predicted_step_s", baseline.predicted_step_s}});
  }
  return json;
}

// Studies of earlier versions have none.
std::vector<PlannedBaseline> baselines_from(const std::optional<JsonField>& json) {
  std::vector<PlannedBaseline> baselines;
  if (!json) return baselines;
  json->each([&](const JsonField& baseline) {
    baselines.push_back({words(baseline.at("name")), words(baseline.at("plan_key")), words(baseline.at("description")),
                         seconds(baseline.at("predicted_step_s"))});
  });
  return baselines;
}

Json training_json(const TrainingSpec& training) {
  Json json = Json::object();
  for (const TrainingField& field : kTrainingFields)
    if (const std::string& value = training.*field.value; !value.empty()) json[field.name] = value;
  return json;
}

TrainingSpec training_from(const std::optional<JsonField>& json) {
  TrainingSpec training;
  for (const TrainingField& field : kTrainingFields)
    if (const auto value = json ? json->find(field.name) : std::nullopt) training.*field.value = value->text();
  return training;
}

}  // namespace

std::string summary_to_json(const StudySummary& summary) {
  const Json json = {{"devices", summary.devices},
                     {"whole_machine", summary.whole_machine},
                     {"batch", summary.batch},
                     {"lower_bound_s", summary.lower_bound_s},
                     {"gap", summary.gap},
                     {"elapsed_s", summary.elapsed_s},
                     {"stop_reason", summary.stop_reason},
                     {"training", training_json(summary.training)},
                     {"kinds", kind_facts_json(summary.kinds)},
                     {"stages_per_device", stages_json(summary.stages_per_device)},
                     {"baselines", baselines_json(summary.baselines)},
                     {"asked", summary.asked}};
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

StudySummary summary_from_json(const std::string& text, const std::string& folder) {
  const JsonSource source{folder, "the summary of this study is damaged: ",
                          "write it again with `" + ShellCommand("mptune tune --resume").file(folder).text() + "`"};
  const Json document = parse_json(text, source, JsonLimits{.depth = 16, .values = 1'000'000});
  const JsonField json(document, source);
  StudySummary summary;
  summary.devices = devices_from(json.at("devices"));
  if (summary.devices.empty()) json.at("devices").refuse("is empty");
  summary.whole_machine = devices_from(json.at("whole_machine"));
  summary.batch = static_cast<int>(json.at("batch").whole(1, 1 << 30));
  summary.lower_bound_s = seconds(json.at("lower_bound_s"));
  summary.gap = gap_from(json.at("gap"));
  summary.elapsed_s = seconds(json.at("elapsed_s"));
  summary.stop_reason = words(json.at("stop_reason"));
  summary.training = training_from(json.find("training"));
  summary.kinds = kind_facts_from(json.find("kinds"), summary.whole_machine);
  summary.stages_per_device = stages_from(json.find("stages_per_device"));
  summary.baselines = baselines_from(json.find("baselines"));
  if (const auto asked = json.find("asked")) summary.asked = words(*asked);
  return summary;
}

}  // namespace mptune::tuner

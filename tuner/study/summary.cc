#include "tuner/study/summary.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "profiler/base/error.h"

namespace mptune::tuner {
namespace {

using Json = nlohmann::json;

Json no_plan_json(const NoPlan& none) {
  return {{"why", to_string(none.why)},        {"needed", none.needed},      {"available", none.available}, {"device", none.device},
          {"needed_bytes", none.needed_bytes}, {"cap_bytes", none.cap_bytes}};
}

NoPlan no_plan_from(const Json& json) {
  return {.why = why_from(json.at("why").get<std::string>()),
          .needed = json.at("needed").get<int>(),
          .available = json.at("available").get<int>(),
          .device = json.at("device").get<std::string>(),
          .needed_bytes = json.at("needed_bytes").get<std::int64_t>(),
          .cap_bytes = json.at("cap_bytes").get<std::int64_t>()};
}

/// Studies of earlier versions hold the sentence alone. Its first words say whether memory is why.
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

planner::Parallelism kind_from(const std::string& name) {
  if (const auto kind = planner::parallelism_named(name)) return *kind;
  throw Error("'" + name + "' is not a kind of parallelism", "the study's summary", "tune again with --force");
}

/// Studies of earlier versions have none.
KindFacts kind_facts_from(const Json& json, const std::vector<std::string>& whole_machine) {
  KindFacts facts;
  facts.whole_machine = whole_machine;
  const Json values = json.value("why_no_plan", Json::object()), words = json.value("no_plan", Json::object());
  for (const auto& [kind, text] : words.items())
    facts.no_plan[kind_from(kind)] = values.contains(kind) ? no_plan_from(values.at(kind)) : no_plan_in_words(text.get<std::string>());
  const Json predicted = json.value("on_paper", Json::object());
  for (const auto& [kind, best] : predicted.items()) {
    facts.predicted[kind_from(kind)] = {best.at("description").get<std::string>(), best.at("step_s").get<double>(),
                                        best.at("peak_bytes").get<std::vector<std::int64_t>>()};
  }
  for (const Json& other : json.value("other_devices", Json::array())) {
    facts.other_devices.push_back(
        {other.at("devices").get<int>(), kind_from(other.at("kind").get<std::string>()), other.at("step_s").get<double>()});
  }
  return facts;
}

Json stages_json(const StagesPerDevice& stages) {
  return {{"searched", stages.searched}, {"possible", stages.possible}, {"end", static_cast<int>(stages.end)}};
}

// Studies of earlier versions do not say it.
StagesPerDevice stages_from(const Json& json) {
  const int end = std::clamp(json.value("end", 0), 0, static_cast<int>(StagesPerDevice::End::not_reached));
  return {json.value("searched", 0), json.value("possible", 0), static_cast<StagesPerDevice::End>(end)};
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
std::vector<PlannedBaseline> baselines_from(const Json& json) {
  std::vector<PlannedBaseline> baselines;
  for (const Json& baseline : json) {
    baselines.push_back({baseline.at("name").get<std::string>(), baseline.at("plan_key").get<std::string>(),
                         baseline.at("description").get<std::string>(), baseline.at("predicted_step_s").get<double>()});
  }
  return baselines;
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
                     {"run_command", summary.run_command},
                     {"kinds", kind_facts_json(summary.kinds)},
                     {"stages_per_device", stages_json(summary.stages_per_device)},
                     {"baselines", baselines_json(summary.baselines)}};
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

StudySummary summary_from_json(const std::string& text, const std::string& folder) {
  try {
    const Json json = Json::parse(text);
    StudySummary summary;
    json.at("devices").get_to(summary.devices);
    json.at("whole_machine").get_to(summary.whole_machine);
    json.at("batch").get_to(summary.batch);
    json.at("lower_bound_s").get_to(summary.lower_bound_s);
    json.at("gap").get_to(summary.gap);
    json.at("elapsed_s").get_to(summary.elapsed_s);
    json.at("stop_reason").get_to(summary.stop_reason);
    json.at("run_command").get_to(summary.run_command);
    summary.kinds = kind_facts_from(json.value("kinds", Json::object()), summary.whole_machine);
    summary.stages_per_device = stages_from(json.value("stages_per_device", Json::object()));
    summary.baselines = baselines_from(json.value("baselines", Json::array()));
    return summary;
  } catch (const Json::exception&) {
    throw Error("the summary of this study is damaged", folder, "run mptune tune --resume to write it again");
  }
}

}  // namespace mptune::tuner

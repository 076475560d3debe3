#include "mptune/tuner/study/summary.h"

#include <nlohmann/json.hpp>

#include "mptune/profiler/base/error.h"

namespace mptune {
namespace {

using Json = nlohmann::json;

Json kind_facts_json(const KindFacts& facts) {
  Json json = {{"on_paper", Json::object()}, {"no_plan", facts.no_plan}, {"other_devices", Json::array()}};
  for (const auto& [kind, paper] : facts.on_paper) {
    json["on_paper"][kind] = {{"description", paper.description}, {"step_s", paper.step_s}, {"peak_bytes", paper.peak_bytes}};
  }
  for (const OtherDevices& other : facts.other_devices) {
    json["other_devices"].push_back({{"devices", other.devices}, {"kind", other.kind}, {"step_s", other.step_s}});
  }
  return json;
}

/// Studies of earlier versions have none.
KindFacts kind_facts_from(const Json& json, const std::vector<std::string>& whole_machine) {
  KindFacts facts;
  facts.whole_machine = whole_machine;
  facts.no_plan = json.value("no_plan", facts.no_plan);
  const Json on_paper = json.value("on_paper", Json::object());
  for (const auto& [kind, paper] : on_paper.items()) {
    facts.on_paper[kind] = {paper.at("description").get<std::string>(), paper.at("step_s").get<double>(),
                            paper.at("peak_bytes").get<std::vector<std::int64_t>>()};
  }
  for (const Json& other : json.value("other_devices", Json::array())) {
    facts.other_devices.push_back({other.at("devices").get<int>(), other.at("kind").get<std::string>(), other.at("step_s").get<double>()});
  }
  return facts;
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
                     {"kinds", kind_facts_json(summary.kinds)}};
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
    return summary;
  } catch (const Json::exception&) {
    throw Error("the summary of this study is damaged", folder, "run mptune tune --resume to write it again");
  }
}

}  // namespace mptune

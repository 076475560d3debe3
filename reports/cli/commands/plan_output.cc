#include "reports/cli/commands/plan_output.h"

#include <cmath>
#include <filesystem>

#include "planner/partition/gap.h"
#include "planner/plan/numerics.h"
#include "planner/plan/plan_words.h"
#include "profiler/base/error.h"
#include "reports/cli/commands/recordings.h"
#include "reports/cli/program/session.h"
#include "reports/render/json.h"
#include "reports/render/search_text.h"
#include "reports/values/plan_report.h"

namespace mptune::reports {
namespace {

planner::Json described(const Candidate& candidate, const std::vector<ProfileLayer>& layers) {
  return {{"description", describe(candidate.plan)},
          {"plan", planner::plan_object(candidate.plan, stage_modules(candidate.plan, layers))},
          {"predicted", to_json_object(candidate.prediction)}};
}

planner::Json with_reason(const std::string& reason, const Candidate& candidate, const std::vector<ProfileLayer>& layers) {
  planner::Json json = described(candidate, layers);
  json["reason"] = reason;
  return json;
}

planner::Json rejected_json(const SearchResult& result) {
  planner::Json rejected = planner::Json::array();
  for (const Rejection& rejection : result.rejected)
    rejected.push_back({{"reason", text_of(rejection.reason)}, {"count", rejection.count}});
  for (const RejectedClass& rejected_class : result.classes)
    rejected.push_back({{"class", text_of(rejected_class.choice)}, {"reason", text_of(rejected_class)}, {"count", rejected_class.count}});
  return rejected;
}

std::string name_of(StagesPerDevice::End end) {
  switch (end) {
    case StagesPerDevice::End::all:
      return "all";
    case StagesPerDevice::End::slower:
      return "slower";
    case StagesPerDevice::End::nothing_faster:
      return "nothing_faster";
    case StagesPerDevice::End::not_reached:
      break;
  }
  return "not_reached";
}

planner::Json stages_json(const StagesPerDevice& stages) {
  if (stages.searched == 0) return nullptr;
  return {{"searched", stages.searched}, {"possible", stages.possible}, {"end", name_of(stages.end)}};
}

/// Returns how the plan's training differs from training on one device; null where it does not.
planner::Json changed_json(const std::optional<planner::ChangedNumerics>& changed) {
  if (!changed) return nullptr;
  return {{"norms", changed->norms}, {"writers", changed->writers},           {"samples", changed->samples},
          {"batch", changed->batch}, {"microbatches", changed->microbatches}, {"text", text_of(*changed)}};
}

}  // namespace

planner::Json gap_json(double gap) {
  return std::isfinite(gap) ? planner::Json(gap) : planner::Json(nullptr);
}

planner::Json searched_plan_json(const SearchResult& result, const std::vector<Candidate>& front, const Profile& profile, double search_s,
                                 const std::string& file) {
  const Candidate& best = result.ranked.front();
  const std::vector<ProfileLayer>& layers = profile.layers;
  planner::Json json = result_of("plan");
  json["plan_file"] = file;
  json["fingerprint"] = planner::fingerprint_object(profile.fingerprint);
  json["plan"] = planner::plan_object(best.plan, stage_modules(best.plan, layers));
  json["plan_key"] = plan_key(best.plan);
  json["predicted"] = to_json_object(best.prediction);
  json["lower_bound_s"] = result.lower_bound_s;
  json["gap"] = gap_json(planner::gap_to(result.lower_bound_s, best.prediction.step_s));
  json["proved"] = result.complete;
  json["search_s"] = search_s;
  json["simulated"] = result.simulated;
  json["stages_per_device"] = stages_json(result.stages_per_device);
  json["alternatives"] = planner::Json::array();
  for (std::size_t i = 1; i < result.ranked.size(); ++i)
    json["alternatives"].push_back(with_reason(compared_with(best, result.ranked[i]), result.ranked[i], layers));
  json["pareto"] = planner::Json::array();
  for (const Candidate& candidate : front) json["pareto"].push_back(described(candidate, layers));
  json["changed_numerics"] = changed_json(planner::changed_numerics(best.plan, layers));
  json["rejected"] = rejected_json(result);
  json["not_executable_yet"] = planner::Json::array();
  for (const NotExecutable& plan : result.not_executable)
    json["not_executable_yet"].push_back(with_reason(text_of(plan.missing), plan.candidate, layers));
  return json;
}

void check_plan_output(const std::string& path, bool force, const std::vector<std::string>& inputs) {
  check_output(path, kJsonMagic, force, inputs);
  std::error_code ignored;
  if (!force && std::filesystem::is_regular_file(path, ignored) && !is_plan_file(path))
    throw Error("the file exists and was not written by mptune", path, "name another with -o, or add --force");
}

}  // namespace mptune::reports

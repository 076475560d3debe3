#include "profiler/base/text.h"
#include "reports/render/compare_text.h"
#include "reports/render/compare_words.h"
#include "reports/render/recommendation_text.h"

namespace mptune::reports {
namespace {

planner::Json recordings_json(const ComparedSide& side) {
  planner::Json recordings = planner::Json::array();
  for (std::size_t i = 0; i < side.recordings.size(); ++i) {
    const MedianEstimate& step = side.recordings[i];
    recordings.push_back({{"name", side.names.at(i)},
                          {"step_s", step.samples > 0 ? planner::Json(step.median) : planner::Json(nullptr)},
                          {"step_ci95_s", planner::interval_json(step.ci95)},
                          {"step_samples", step.samples}});
  }
  return recordings;
}

planner::Json not_measured_json(const std::vector<tuner::UnmeasuredPlan>& plans) {
  planner::Json json = planner::Json::array();
  for (const tuner::UnmeasuredPlan& plan : plans)
    json.push_back({{"name", plan.name}, {"description", plan.description}, {"why_not", text_of(plan.why)}});
  return json;
}

planner::Json compared_json(const ComparedSide& side) {
  planner::Json json = {{"name", join(side.names, ", ")},
                        {"predicted", side.predicted},
                        {"step_s", nullptr},
                        {"step_ci95_s", nullptr},
                        {"step_samples", 0},
                        {"batch", side.batch > 0 ? planner::Json(side.batch) : planner::Json(nullptr)},
                        {"samples_per_second", nullptr},
                        {"recordings", recordings_json(side)},
                        {"baselines_not_measured", not_measured_json(side.unmeasured.baselines)},
                        {"failed_plans", not_measured_json(side.unmeasured.candidates)}};
  if (side.step_s) {
    json["step_s"] = side.step_s->median;
    json["step_ci95_s"] = planner::interval_json(side.step_s->ci95);
    json["step_samples"] = side.step_s->samples;
  }
  if (const auto rate = samples_per_second(side)) json["samples_per_second"] = *rate;
  return json;
}

planner::Json part_json(const PartChange& part, const DeviceChange& device) {
  const bool both = device.in_both();
  return {{"a_s", device.a.empty() ? planner::Json(nullptr) : planner::Json(part.a_s)},
          {"b_s", device.b.empty() ? planner::Json(nullptr) : planner::Json(part.b_s)},
          {"difference_s", both ? planner::Json(part.difference_s()) : planner::Json(nullptr)},
          {"difference_ci95_s", planner::interval_json(part.ci95_s)},
          {"clear", both ? planner::Json(part.is_clear()) : planner::Json(nullptr)},
          {"percent_of_step", both ? planner::Json(100 * device.share(part)) : planner::Json(nullptr)}};
}

planner::Json device_json(const DeviceChange& device) {
  planner::Json json = {{"device", device.name()},
                        {"a", device.a.empty() ? planner::Json(nullptr) : planner::Json(device.a)},
                        {"b", device.b.empty() ? planner::Json(nullptr) : planner::Json(device.b)},
                        {"parts", planner::Json::object()},
                        {"idle", planner::Json::object()}};
  for (const PartChange& part : device.parts) json["parts"][part.part] = part_json(part, device);
  for (const PartChange& part : device.idle) json["idle"][part.part] = part_json(part, device);
  return json;
}

planner::Json main_cause_json(const MainCause& cause) {
  return {{"device", cause.device},
          {"part", cause.part.part},
          {"difference_s", cause.part.difference_s()},
          {"difference_ci95_s", planner::interval_json(cause.part.ci95_s)},
          {"share_of_difference", cause.share},
          {"text", sentence(cause)}};
}

planner::Json largest_json(const LargestChange& change) {
  return {{"device", change.device},
          {"part", change.part.part},
          {"difference_s", change.part.difference_s()},
          {"percent_of_step", 100 * change.share},
          {"text", sentence(change)}};
}

}  // namespace

planner::Json comparison_json(const Comparison& comparison) {
  planner::Json json = {{"kind", comparison.kind},
                        {"a", compared_json(comparison.a)},
                        {"b", compared_json(comparison.b)},
                        {"verdict", to_string(comparison.verdict)},
                        {"reason", reason_text(comparison)},
                        {"ratio", nullptr},
                        {"drift_covered", comparison.drift_covered},
                        {"unlike", planner::Json::array()},
                        {"warnings", warnings_of(comparison)},
                        {"main_cause", nullptr},
                        {"all_devices", nullptr},
                        {"per_device", planner::Json::array()},
                        {"largest_changes", planner::Json::array()},
                        {"plan_changes", nullptr}};
  if (comparison.ratio) json["ratio"] = {{"estimate", *comparison.ratio}, {"ci95", planner::interval_json(comparison.ratio_ci95)}};
  for (const Unlike& thing : comparison.unlike)
    json["unlike"].push_back({{"what", name_of(thing.what)}, {"a", thing.a}, {"b", thing.b}, {"text", text_of(thing)}});
  if (comparison.cause) json["main_cause"] = main_cause_json(*comparison.cause);
  if (comparison.all_devices) json["all_devices"] = device_json(*comparison.all_devices);
  for (const DeviceChange& device : comparison.devices) json["per_device"].push_back(device_json(device));
  for (const LargestChange& change : comparison.largest) json["largest_changes"].push_back(largest_json(change));
  if (comparison.plan_changes) json["plan_changes"] = *comparison.plan_changes;
  return json;
}

}  // namespace mptune::reports

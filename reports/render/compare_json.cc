#include "reports/render/compare_text.h"

namespace mptune::reports {
namespace {

planner::Json optional_interval(const std::optional<Interval>& interval) {
  return interval ? planner::Json::array({interval->low, interval->high}) : planner::Json(nullptr);
}

planner::Json compared_json(const ComparedSide& side) {
  planner::Json json = {
      {"name", side.name}, {"predicted", side.predicted}, {"step_s", nullptr}, {"step_ci95_s", nullptr}, {"step_samples", 0}};
  if (side.step_s) {
    json["step_s"] = side.step_s->median;
    json["step_ci95_s"] = side.predicted ? planner::Json(nullptr) : optional_interval(side.step_s->ci95);
    json["step_samples"] = side.step_s->samples;
  }
  return json;
}

planner::Json part_json(const PartChange& part, const DeviceChange& device) {
  const bool both = device.in_both();
  return {{"a_s", device.a.empty() ? planner::Json(nullptr) : planner::Json(part.a_s)},
          {"b_s", device.b.empty() ? planner::Json(nullptr) : planner::Json(part.b_s)},
          {"difference_s", both ? planner::Json(part.difference_s()) : planner::Json(nullptr)},
          {"difference_ci95_s", optional_interval(part.ci95_s)},
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

}  // namespace

planner::Json comparison_json(const Comparison& comparison) {
  planner::Json json = {{"kind", comparison.kind},
                        {"a", compared_json(comparison.a)},
                        {"b", compared_json(comparison.b)},
                        {"verdict", to_string(comparison.verdict)},
                        {"reason", comparison.reason},
                        {"ratio", nullptr},
                        {"per_device", planner::Json::array()},
                        {"largest_changes", planner::Json::array()},
                        {"plan_changes", nullptr}};
  if (comparison.ratio) json["ratio"] = {{"estimate", *comparison.ratio}, {"ci95", optional_interval(comparison.ratio_ci95)}};
  for (const DeviceChange& device : comparison.devices) json["per_device"].push_back(device_json(device));
  for (const LargestChange& change : comparison.largest) {
    json["largest_changes"].push_back({{"device", change.device},
                                       {"part", change.part.part},
                                       {"difference_s", change.part.difference_s()},
                                       {"percent_of_step", 100 * change.share},
                                       {"text", sentence(change)}});
  }
  if (comparison.plan_changes) json["plan_changes"] = *comparison.plan_changes;
  return json;
}

}  // namespace mptune::reports

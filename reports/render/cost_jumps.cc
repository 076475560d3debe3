#include "reports/render/cost_jumps.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "profiler/base/index.h"
#include "profiler/base/units.h"
#include "profiler/trace/analyze/cost_jumps.h"
#include "reports/render/table.h"

namespace mptune::reports {

namespace {

using profiler::CostJump;

/// Returns the operator that takes most time in the layer of a jump; null where it was not measured.
const LayerOperator* operator_at(const Profile& profile, const CostJump& jump, int samples) {
  const auto found = std::ranges::find_if(profile.operators, [&](const LayerOperator& o) {
    return o.device_class == jump.device_class && o.layer == jump.layer && o.samples == samples;
  });
  return found == profile.operators.end() ? nullptr : &*found;
}

std::string operator_text(const LayerOperator& o) {
  return fmt::format("{:.0f} % in {}", 100 * o.share, o.name);
}

std::string cause_text(const Profile& profile, const CostJump& jump) {
  const LayerOperator* here = operator_at(profile, jump, jump.samples);
  const LayerOperator* larger = operator_at(profile, jump, jump.larger_samples);
  if (here == nullptr) return "";
  std::string text = operator_text(*here);
  if (larger != nullptr) {
    text += larger->name == here->name ? fmt::format(" ({:.0f} % at {} samples)", 100 * larger->share, jump.larger_samples)
                                       : fmt::format(", at {} samples {}", jump.larger_samples, operator_text(*larger));
  }
  if (here->replaced_seconds > 0)
    text +=
        fmt::format("; {} instead of {} with slow kernels replaced", format_seconds(here->replaced_seconds), format_seconds(here->seconds));
  return text;
}

planner::Json operator_json(const LayerOperator* o) {
  if (o == nullptr) return nullptr;
  planner::Json json{{"name", o->name}, {"share", o->share}, {"seconds", o->seconds}};
  json["replaced_seconds"] = o->replaced_seconds > 0 ? planner::Json(o->replaced_seconds) : planner::Json(nullptr);
  return json;
}

}  // namespace

std::string cost_jumps_text(const Profile& profile, const TextStyle& style) {
  const std::vector<CostJump> jumps = profiler::cost_jumps(profile);
  if (jumps.empty()) return "";
  std::vector<std::vector<Cell>> rows;
  std::vector<std::string> causes;
  for (const CostJump& jump : jumps) {
    rows.push_back({std::to_string(jump.layer), profile.layers.at(as_index(jump.layer)).name, std::to_string(jump.samples),
                    std::to_string(jump.larger_samples), fmt::format("{:.1f} times", jump.factor),
                    fmt::format("{:.0f} %", 100 * jump.step_share), profile.classes.at(as_index(jump.device_class)).name});
    causes.push_back(cause_text(profile, jump));
  }
  const profiler::JumpLimits limits;
  return "\n" + heading(style, "Cost jumps") +
         hanging(
             "",
             fmt::format("Layers of {} or more that take over {} times as long per sample as at the next larger size, {:.0f} % of the step "
                         "or more:",
                         format_seconds(limits.seconds), limits.factor, 100 * limits.step_share),
             style) +
         render_table(
             {{"layer", true}, {"name"}, {"samples", true}, {"against", true}, {"per sample", true}, {"of the step", true}, {"devices"}},
             rows, causes, style);
}

planner::Json cost_jumps_json(const Profile& profile) {
  planner::Json json = planner::Json::array();
  for (const CostJump& jump : profiler::cost_jumps(profile))
    json.push_back({{"devices", profile.classes.at(as_index(jump.device_class)).name},
                    {"layer", jump.layer},
                    {"name", profile.layers.at(as_index(jump.layer)).name},
                    {"samples", jump.samples},
                    {"larger_samples", jump.larger_samples},
                    {"factor", jump.factor},
                    {"step_share", jump.step_share},
                    {"operator", operator_json(operator_at(profile, jump, jump.samples))},
                    {"larger_operator", operator_json(operator_at(profile, jump, jump.larger_samples))}});
  return json;
}

}  // namespace mptune::reports

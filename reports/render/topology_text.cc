#include "reports/render/topology_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "profiler/base/text.h"
#include "profiler/base/units.h"
#include "reports/render/table.h"

namespace mptune::reports {
namespace {

constexpr std::size_t kNamedDevices = 3;
constexpr std::size_t kShownStages = 20;
constexpr std::size_t kShownEnds = 8;

std::string devices_text(const std::vector<std::string>& devices) {
  if (devices.size() <= kNamedDevices) return join(devices, " ");
  return fmt::format("{} .. {} ({})", devices.front(), devices.back(), devices.size());
}

bool any_recomputes(const TopologyReport& report) {
  return std::ranges::any_of(report.stages, [](const PaperStage& stage) { return stage.recomputed > 0; });
}

// Devices come last, because the last column is wrapped.
std::vector<Cell> stage_row(const TopologyReport& report, std::size_t s) {
  const PaperStage& stage = report.stages[s];
  const int layers = stage.last_layer - stage.first_layer;
  std::vector<Cell> row = {
      std::to_string(s), layers == 1 ? std::to_string(stage.first_layer) : fmt::format("{} to {}", stage.first_layer, stage.last_layer - 1),
      format_seconds(stage.busy_s), format_bytes(stage.parameters_bytes), format_bytes(stage.peak_bytes)};
  if (any_recomputes(report)) row.emplace_back(stage.recomputed > 0 ? fmt::format("{} of {}", stage.recomputed, layers) : "-");
  row.emplace_back(devices_text(stage.devices));
  return row;
}

std::vector<Cell> left_out_row(const TopologyReport& report) {
  std::vector<Cell> row = {"..", "", "", "", ""};
  if (any_recomputes(report)) row.emplace_back("");
  row.emplace_back(fmt::format("{} more stages", report.stages.size() - 2 * kShownEnds));
  return row;
}

std::string stages_text(const TopologyReport& report, const TextStyle& style) {
  std::vector<std::vector<Cell>> rows;
  const bool all = report.stages.size() <= kShownStages;
  for (std::size_t s = 0; s < report.stages.size(); ++s) {
    if (all || s < kShownEnds || s + kShownEnds >= report.stages.size()) rows.push_back(stage_row(report, s));
    if (!all && s == kShownEnds) rows.push_back(left_out_row(report));
  }
  std::vector<Column> columns = {{"stage", true}, {"layers"}, {"busy", true}, {"params", true}, {"peak", true}};
  if (any_recomputes(report)) columns.push_back({"recomputed"});
  columns.push_back({"devices"});
  return render_table(columns, rows, style);
}

std::string filled(const std::string& text, const TextStyle& style) {
  return join(wrap(text, style.width), "\n") + "\n";
}

std::string bound_text(const TopologyReport& report) {
  std::string text = "predicted step " + format_seconds(report.step_s);
  if (report.proved) return text + "; no plan is faster of " + report.bound_of;
  if (report.lower_bound_s <= 0) return text;
  return text + fmt::format("; lower bound of {} {} (gap {})", report.bound_of, format_seconds(report.lower_bound_s),
                            format_percent(report.step_s / report.lower_bound_s - 1));
}

std::string sum_text(const GradientSum& sum) {
  const planner::ReplicaGroup& group = sum.group;
  std::vector<std::string> ways;
  const auto add = [&](const std::string& name, double seconds) {
    if (std::isfinite(seconds))
      ways.push_back(fmt::format("{} {}{}", name, format_seconds(seconds), name == sum.costs.least_name() ? " (used)" : ""));
  };
  add("ring", sum.costs.ring_s);
  add("tree", sum.costs.tree_s);
  add("hierarchical", sum.costs.hierarchical_s);
  return fmt::format("gradients of stage {}, {} over {} replicas on {} host{}: {}", sum.stage, format_bytes(sum.bytes), group.replicas,
                     group.hosts, group.hosts == 1 ? "" : "s", join(ways, ", "));
}

planner::Json sum_json(const GradientSum& sum) {
  return {{"stage", sum.stage},
          {"bytes", sum.bytes},
          {"replicas", sum.group.replicas},
          {"hosts", sum.group.hosts},
          {"ring_s", sum.costs.ring_s},
          {"tree_s", sum.costs.tree_s},
          {"hierarchical_s", std::isfinite(sum.costs.hierarchical_s) ? planner::Json(sum.costs.hierarchical_s) : planner::Json(nullptr)},
          {"used", sum.costs.least_name()}};
}

}  // namespace

std::string render_topology_report(const TopologyReport& report, const TextStyle& style) {
  std::string text = heading(style, report.title) + filled(report.description, style) + filled(bound_text(report), style);
  text +=
      filled(fmt::format("{} of {} devices used, busy {} of the step", report.used, report.devices, format_percent(report.busy)), style);
  text += "\n" + stages_text(report, style) + "\n";
  if (report.sum) text += filled(sum_text(*report.sum), style);
  if (report.cap_bytes > 0) text += "memory of a device: " + format_bytes(report.cap_bytes) + "\n";
  if (report.extrapolated)
    text += filled("some micro-batch sizes lie outside the profiled ones: profile again for a better prediction", style);
  for (const std::string& note : report.notes) text += filled(note, style);
  return text;
}

planner::Json topology_json(const TopologyReport& report) {
  return {{"hosts", report.hosts},
          {"devices", report.devices},
          {"used_devices", report.used},
          {"bound_of", report.bound_of},
          {"gradient_sum", report.sum ? sum_json(*report.sum) : planner::Json(nullptr)}};
}

}  // namespace mptune::reports

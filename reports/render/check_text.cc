#include "reports/render/check_text.h"

#include <fmt/format.h>

#include <cmath>

#include "reports/render/table.h"

namespace mptune::reports {
namespace {

std::string agreement_of(const tuner::CheckPart& part) {
  if (part.bit_equal == part.tensors) return fmt::format("{} tensors, equal in every bit", part.tensors);
  const std::string most = std::isfinite(part.largest) ? fmt::format("{:.1e} at {}", part.largest, part.largest_at)
                                                       : "at " + part.largest_at + " another shape, or numbers that are not finite";
  return fmt::format("{} tensors, {} equal in every bit; largest difference {}", part.tensors, part.bit_equal, most) +
         (part.only_measures ? "" : fmt::format(" (allowed {:.0e})", part.tolerance));
}

std::vector<Cell> row_of(const tuner::CheckPart& part) {
  if (!part.left_out.empty()) return {part.name, {"left out", Color::yellow}, part.compared + ": " + part.left_out};
  const Cell verdict = part.only_measures ? Cell{"measured"} : part.difference ? Cell{"differs", Color::red} : Cell{"agrees", Color::green};
  return {part.name, verdict, part.compared + ": " + agreement_of(part)};
}

/// Returns null for a value that is not finite.
planner::Json number_json(double value) {
  return std::isfinite(value) ? planner::Json(value) : planner::Json();
}

planner::Json difference_json(const tuner::CheckPart& part) {
  const tuner::CheckDifference& difference = *part.difference;
  return {{"part", part.name},
          {"what", difference.what},
          {"layer", difference.layer < 0 ? planner::Json() : planner::Json(difference.layer)},
          {"layer_name", difference.layer_name},
          {"operation", difference.operation},
          {"relative", number_json(difference.relative)},
          {"text", tuner::difference_text(part)},
          {"remedy", part.remedy}};
}

}  // namespace

std::string render_check(const tuner::CheckResult& result, const std::string& model, const TextStyle& style) {
  std::vector<std::vector<Cell>> rows;
  bool any_made = false;
  for (const tuner::CheckPart& part : result.parts) {
    rows.push_back(row_of(part));
    any_made = any_made || part.left_out.empty();
  }
  const std::string table = render_table({{"part"}, {"verdict"}, {"compared"}}, rows, style);
  if (const tuner::CheckPart* failed = tuner::first_failure(result)) {
    return table + "\n" + hanging(paint(style, Color::red, "differs "), tuner::difference_text(*failed), style) +
           hanging("to do   ", failed->remedy, style);
  }
  if (!any_made) return table + "\n" + paint(style, Color::yellow, "nothing of " + model + " was compared") + "\n";
  return table + "\n" + paint(style, Color::green, model + " agrees: its pieces train as the whole model does") + "\n";
}

planner::Json check_json(const tuner::CheckResult& result) {
  const tuner::CheckPart* failed = tuner::first_failure(result);
  planner::Json json = {{"agrees", failed == nullptr},
                        {"first_difference", failed == nullptr ? planner::Json() : difference_json(*failed)},
                        {"samples", result.samples},
                        {"microbatch_sizes", result.microbatch_sizes},
                        {"parts", planner::Json::array()}};
  for (const tuner::CheckPart& part : result.parts) {
    const bool judged = part.left_out.empty() && !part.only_measures;
    json["parts"].push_back({{"name", part.name},
                             {"compared", part.compared},
                             {"left_out", part.left_out.empty() ? planner::Json() : planner::Json(part.left_out)},
                             {"agrees", judged ? planner::Json(!part.difference.has_value()) : planner::Json()},
                             {"tensors", part.tensors},
                             {"bit_equal", part.bit_equal},
                             {"largest_difference", number_json(part.largest)},
                             {"largest_at", part.largest_at},
                             {"tolerance", part.only_measures ? planner::Json() : planner::Json(part.tolerance)}});
  }
  return json;
}

}  // namespace mptune::reports

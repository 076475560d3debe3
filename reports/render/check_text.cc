#include "mptune/reports/render/check_text.h"

#include <fmt/format.h>

#include <cmath>

#include "mptune/reports/render/table.h"

namespace mptune {
namespace {

std::string agreement_of(const CheckPart& part) {
  if (part.bit_equal == part.tensors) {
    return fmt::format("{} tensors, equal in every bit", part.tensors);
  }
  const std::string most = std::isfinite(part.largest) ? fmt::format("{:.1e} at {}", part.largest, part.largest_at)
                                                       : "at " + part.largest_at + " another shape, or numbers that are not finite";
  return fmt::format("{} tensors, {} equal in every bit; largest difference {} (allowed {:.0e})", part.tensors, part.bit_equal, most,
                     part.tolerance);
}

std::vector<Cell> row_of(const CheckPart& part) {
  if (!part.left_out.empty()) {
    return {part.name, {"left out", Color::yellow}, part.compared + ": " + part.left_out};
  }
  const Cell verdict = part.difference ? Cell{"differs", Color::red} : Cell{"agrees", Color::green};
  return {part.name, verdict, part.compared + ": " + agreement_of(part)};
}

/// What is not finite is null.
Json number_json(double value) {
  return std::isfinite(value) ? Json(value) : Json();
}

Json difference_json(const CheckPart& part) {
  const CheckDifference& difference = *part.difference;
  return {{"part", part.name},
          {"what", difference.what},
          {"layer", difference.layer < 0 ? Json() : Json(difference.layer)},
          {"layer_name", difference.layer_name},
          {"operation", difference.operation},
          {"relative", number_json(difference.relative)},
          {"text", difference_text(part)},
          {"remedy", part.remedy}};
}

}  // namespace

std::string render_check(const CheckResult& result, const std::string& model, const TextStyle& style) {
  std::vector<std::vector<Cell>> rows;
  bool any_made = false;
  for (const CheckPart& part : result.parts) {
    rows.push_back(row_of(part));
    any_made = any_made || part.left_out.empty();
  }
  const std::string table = render_table({{"part"}, {"verdict"}, {"compared"}}, rows, style);
  if (const CheckPart* failed = first_failure(result)) {
    return table + "\n" + hanging(paint(style, Color::red, "differs "), difference_text(*failed), style) +
           hanging("to do   ", failed->remedy, style);
  }
  if (!any_made) {
    return table + "\n" + paint(style, Color::yellow, "nothing of " + model + " was compared") + "\n";
  }
  return table + "\n" + paint(style, Color::green, model + " agrees: its pieces train as the whole model does") + "\n";
}

Json check_json(const CheckResult& result) {
  const CheckPart* failed = first_failure(result);
  Json json = {{"agrees", failed == nullptr},
               {"first_difference", failed == nullptr ? Json() : difference_json(*failed)},
               {"samples", result.samples},
               {"microbatch_sizes", result.microbatch_sizes},
               {"parts", Json::array()}};
  for (const CheckPart& part : result.parts) {
    json["parts"].push_back({{"name", part.name},
                             {"compared", part.compared},
                             {"left_out", part.left_out.empty() ? Json() : Json(part.left_out)},
                             {"agrees", part.left_out.empty() ? Json(!part.difference.has_value()) : Json()},
                             {"tensors", part.tensors},
                             {"bit_equal", part.bit_equal},
                             {"largest_difference", number_json(part.largest)},
                             {"largest_at", part.largest_at},
                             {"tolerance", part.tolerance}});
  }
  return json;
}

}  // namespace mptune

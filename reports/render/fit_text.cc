#include "reports/render/fit_text.h"

#include <fmt/format.h>

#include <algorithm>

#include "profiler/base/text.h"
#include "profiler/base/units.h"
#include "reports/render/option_names.h"
#include "reports/render/table.h"

namespace mptune::reports {
namespace {

constexpr std::size_t kShownInALine = 3;
constexpr std::size_t kShownInATable = 6;

std::string sizes_text(const std::vector<std::int64_t>& bytes) {
  std::vector<std::string> texts;
  for (const std::int64_t one : bytes) texts.push_back(format_bytes(one));
  return (texts.size() == 1 ? "peak " : "peaks ") + join(texts, ", ");
}

std::string devices_text(const planner::FitAnswer& answer) {
  std::string text = fmt::format("{} such device{} of {} would do (--stages {}", answer.needed.count, answer.needed.count == 1 ? "" : "s",
                                 format_bytes(answer.excess.cap_bytes), answer.needed.count);
  for (const std::string& option : option_texts(answer.needed.options)) text += " " + option;
  return text + ")";
}

/// Says what would help where nothing on these devices does.
std::string beyond_text(const planner::FitAnswer& answer) {
  const planner::Excess& nearest = answer.nearest;
  std::string text = answer.complete         ? "nothing on these devices fits"
                     : answer.raised.empty() ? "nothing that was tried fits"
                                             : "nothing else was found that fits";
  if (answer.raised.empty() && nearest.bytes > 0)
    text += fmt::format(": {} more are missing on {}", format_bytes(nearest.bytes), nearest.device);
  if (!answer.nearest_options.empty()) {
    text += fmt::format("; nearest is {}, {} over on {}", join(option_texts(answer.nearest_options), " "), format_bytes(nearest.bytes),
                        nearest.device);
  }
  if (!answer.raised.empty()) text += "; it fits with " + join(option_texts(answer.raised), " ");
  if (answer.needed.count > 0) text += (answer.raised.empty() ? "; " : ", or ") + devices_text(answer);
  return text;
}

planner::Json options_json(const std::vector<planner::FieldValue>& options) {
  return options.empty() ? planner::Json::array() : planner::Json(option_texts(options));
}

}  // namespace

std::string fit_remedy(const planner::FitAnswer& answer) {
  if (answer.changes.empty()) return beyond_text(answer);
  std::vector<std::string> texts;
  for (std::size_t i = 0; i < std::min(kShownInALine, answer.changes.size()); ++i) {
    const planner::FittingChange& change = answer.changes[i];
    texts.push_back(fmt::format("with {} ({} a step, {})", join(option_texts(change.options), " "),
                                format_seconds(change.prediction.step_s), sizes_text(change.prediction.peak_bytes)));
  }
  if (!answer.raised.empty()) texts.push_back("with " + join(option_texts(answer.raised), " "));
  return "it fits " + join(texts, ", or ");
}

std::string render_fit(const planner::FitAnswer& answer, double step_s, const TextStyle& style) {
  if (answer.excess.bytes == 0) return "";
  std::string text = hanging("",
                             fmt::format("{} needs {} more than its cap of {}{}", answer.excess.device, format_bytes(answer.excess.bytes),
                                         format_bytes(answer.excess.cap_bytes),
                                         answer.changes.empty() ? ": " + beyond_text(answer) : "; the smallest changes that fit:"),
                             style);
  std::vector<std::vector<Cell>> rows;
  for (std::size_t i = 0; i < std::min(kShownInATable, answer.changes.size()); ++i) {
    const planner::FittingChange& change = answer.changes[i];
    const double share = step_s > 0 ? change.prediction.step_s / step_s - 1 : 0;
    rows.push_back({format_seconds(change.prediction.step_s), (share < 0 ? "-" : "+") + format_percent(share < 0 ? -share : share),
                    format_bytes(*std::ranges::max_element(change.prediction.peak_bytes)), join(option_texts(change.options), " ")});
  }
  return text + (rows.empty() ? "" : render_table({{"step", true}, {"", true}, {"peak", true}, {"options"}}, rows, style));
}

planner::Json fit_json(const planner::FitAnswer& answer) {
  const bool fits = answer.excess.bytes == 0;
  planner::Json json = {{"fits", fits},
                        {"excess_bytes", answer.excess.bytes},
                        {"device", fits ? planner::Json(nullptr) : planner::Json(answer.excess.device)},
                        {"changes", planner::Json::array()},
                        {"nearest", nullptr},
                        {"devices_needed", nullptr}};
  if (answer.needed.count > 0) json["devices_needed"] = {{"count", answer.needed.count}, {"options", options_json(answer.needed.options)}};
  for (const planner::FittingChange& change : answer.changes) {
    json["changes"].push_back({{"options", options_json(change.options)},
                               {"changes", change.changes},
                               {"step_s", change.prediction.step_s},
                               {"peak_bytes", change.prediction.peak_bytes},
                               {"plan", planner::plan_object(change.plan, {})}});
  }
  if (!fits && answer.changes.empty()) {
    json["nearest"] = {
        {"options", options_json(answer.nearest_options)}, {"excess_bytes", answer.nearest.bytes}, {"device", answer.nearest.device}};
  }
  return json;
}

}  // namespace mptune::reports

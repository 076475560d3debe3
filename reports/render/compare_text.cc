#include "reports/render/compare_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "profiler/base/text.h"
#include "profiler/base/units.h"
#include "reports/render/compare_words.h"
#include "reports/render/table.h"
#include "reports/render/units.h"

namespace mptune::reports {
namespace {

constexpr std::size_t kMostTables = 8;

Color color_of(Verdict verdict) {
  return verdict == Verdict::slow ? Color::red : verdict == Verdict::fast ? Color::green : Color::bold;
}

std::string bullets(const std::vector<std::string>& lines, const TextStyle& style) {
  std::string text;
  for (const std::string& line : lines) text += hanging("  ", line, style);
  return text;
}

std::string headline(const Comparison& comparison, const TextStyle& style) {
  const std::string verdict = paint(style, color_of(comparison.verdict), to_string(comparison.verdict)) + ": ";
  if (!comparison.ratio) return hanging(verdict, comparison.reason, style);
  return verdict + ratio_text(comparison) + "\n" + hanging("  ", reason_text(comparison), style);
}

/// Says what is not alike, before any number is read.
std::string unlike_text(const Comparison& comparison, const TextStyle& style) {
  std::vector<std::string> lines;
  for (const Unlike& thing : comparison.unlike) lines.push_back(text_of(thing));
  std::string text = lines.empty() ? "" : paint(style, Color::yellow, "Not alike, A -> B") + "\n" + bullets(lines, style);
  for (const std::string& warning : warnings_of(comparison)) text += hanging(paint(style, Color::yellow, "warning") + ": ", warning, style);
  return text;
}

std::string side_text(const std::string& label, const ComparedSide& side, const TextStyle& style) {
  return hanging(label + "  ", join(side.names, ", "), style) + hanging("   ", step_text(side), style);
}

std::string largest_text(const Comparison& comparison, const TextStyle& style) {
  std::vector<std::string> lines;
  for (const LargestChange& change : comparison.largest) lines.push_back(sentence(change));
  if (lines.empty()) lines.emplace_back("nothing on any device by more than noise, or by 0.05 % of the step");
  return heading(style, "What changed most") + bullets(lines, style);
}

std::string plans_text(const std::vector<std::string>& changes, const TextStyle& style) {
  return heading(style, "Plans, A -> B") + (changes.empty() ? "  the same\n" : bullets(changes, style));
}

std::string not_measured_text(const Comparison& comparison, const TextStyle& style) {
  std::string text;
  for (const ComparedSide* side : {&comparison.a, &comparison.b})
    for (const std::string& line : unmeasured_lines(*side)) text += hanging(side == &comparison.a ? "  A  " : "  B  ", line, style);
  return text.empty() ? "" : "\n" + heading(style, "Not measured") + text;
}

std::string device_table(const DeviceChange& device, const TextStyle& style) {
  std::vector<std::vector<Cell>> rows;
  for (const PartChange* part : shown_parts(device)) {
    const bool is_cause = part >= device.idle.data() && part < device.idle.data() + device.idle.size();
    rows.push_back({(is_cause ? "  " : "") + cause_in_words(part->part), format_seconds(part->a_s), format_seconds(part->b_s),
                    change_text(*part, device), part->ci95_s ? format_interval_seconds(*part->ci95_s) : "-"});
  }
  return "\n" + heading(style, clip_text(device.name(), style.width - 8)) +
         render_table({{"mean"}, {"A", true}, {"B", true}, {"B - A, of the step", true}, {"95 % of B - A", true}}, rows, style);
}

double largest_difference(const DeviceChange& device) {
  double most = 0;
  for (const PartChange& part : device.parts) most = std::max(most, std::abs(part.difference_s()));
  return most;
}

std::string only_in(const std::string& label, const std::vector<DeviceChange>& devices, std::string DeviceChange::*other,
                    const TextStyle& style) {
  std::vector<std::string> names;
  for (const DeviceChange& device : devices)
    if ((device.*other).empty()) names.push_back(device.name());
  return names.empty() ? "" : hanging(label, join(names, ", "), style);
}

std::string devices_text(const std::vector<DeviceChange>& devices, const TextStyle& style) {
  std::vector<const DeviceChange*> both;
  for (const DeviceChange& device : devices)
    if (device.in_both()) both.push_back(&device);
  const std::size_t shown = std::min(both.size(), kMostTables);
  std::vector<const DeviceChange*> most = both;
  std::ranges::stable_sort(most, std::ranges::greater{}, [](const DeviceChange* device) { return largest_difference(*device); });
  most.resize(shown);
  std::string text;
  for (const DeviceChange* device : both)
    if (std::ranges::find(most, device) != most.end()) text += device_table(*device, style);
  text += shown < both.size() ? fmt::format("\n{} more devices changed less; --json shows them\n", both.size() - shown) : "";
  const std::string lonely =
      only_in("only in A: ", devices, &DeviceChange::b, style) + only_in("only in B: ", devices, &DeviceChange::a, style);
  return text + (lonely.empty() ? "" : "\n" + lonely);
}

}  // namespace

std::string render_compared(const Comparison& comparison, const TextStyle& style) {
  std::string text = headline(comparison, style) + unlike_text(comparison, style);
  text += side_text("A", comparison.a, style) + side_text("B", comparison.b, style);
  if (!comparison.devices.empty()) text += "\n" + largest_text(comparison, style);
  if (comparison.plan_changes) text += "\n" + plans_text(*comparison.plan_changes, style);
  text += not_measured_text(comparison, style);
  if (comparison.all_devices) text += device_table(*comparison.all_devices, style);
  return text + devices_text(comparison.devices, style);
}

}  // namespace mptune::reports

#include "reports/render/compare_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "profiler/base/text.h"
#include "profiler/base/units.h"
#include "reports/render/table.h"
#include "reports/render/units.h"

namespace mptune::reports {
namespace {

constexpr std::size_t kMostTables = 8;
/// Less than this share of the step would be printed as 0.0 %.
constexpr double kLeastShown = 0.0005;

Color color_of(Verdict verdict) {
  return verdict == Verdict::slow ? Color::red : verdict == Verdict::fast ? Color::green : Color::bold;
}

/// "1.343", "0.0474", "177.5": enough digits for the distance from 1.
std::string times(double ratio) {
  return ratio < 0.1 ? fmt::format("{:.3g}", ratio) : fmt::format("{:.{}f}", ratio, ratio < 10 ? 3 : ratio < 100 ? 2 : 1);
}

std::string headline(const Comparison& comparison, const TextStyle& style) {
  const std::string verdict = paint(style, color_of(comparison.verdict), to_string(comparison.verdict));
  std::string text = verdict + ": ";
  if (!comparison.ratio) return text + comparison.reason + "\n";
  text += "B takes " + times(*comparison.ratio) + " times as long as A";
  if (comparison.ratio_ci95) text += ", 95 % [" + times(comparison.ratio_ci95->low) + ", " + times(comparison.ratio_ci95->high) + "]";
  return text + "\n" + hanging("  ", comparison.reason, style);
}

std::string side_text(const std::string& label, const ComparedSide& side, const TextStyle& style) {
  std::string text = "no step time";
  if (side.step_s) {
    text = side.predicted ? "predicted step " + format_seconds(side.step_s->median)
                          : "step " + format_measured(side.step_s->median, side.step_s->ci95, side.step_s->samples);
  }
  return hanging(label + "  ", side.name, style) + hanging("   ", text, style);
}

std::string with_sign(double seconds) {
  return (seconds > 0 ? "+" : "") + format_seconds(seconds);
}

std::string share_text(double share) {
  return (share > 0 ? "+" : "") + format_percent(share);
}

bool is_busy(const std::string& part) {
  return part == "compute" || part == "copy" || part == "overlap";
}

std::string bullets(const std::vector<std::string>& lines, const TextStyle& style) {
  std::string text;
  for (const std::string& line : lines) text += hanging("  ", line, style);
  return text;
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

void add_rows(std::vector<std::vector<Cell>>& rows, const DeviceChange& device, const std::vector<PartChange>& parts,
              const std::string& indent) {
  const double window = std::max(device.parts.front().a_s, device.parts.front().b_s);
  for (const PartChange& part : parts) {
    if (std::max(part.a_s, part.b_s) < kLeastShown * window) continue;
    rows.push_back({indent + cause_in_words(part.part), format_seconds(part.a_s), format_seconds(part.b_s), with_sign(part.difference_s()),
                    share_text(device.share(part)), part.ci95_s ? format_interval_seconds(*part.ci95_s) : "-"});
  }
}

std::string device_table(const DeviceChange& device, const TextStyle& style) {
  std::vector<std::vector<Cell>> rows;
  add_rows(rows, device, device.parts, "");
  add_rows(rows, device, device.idle, "  ");
  return "\n" + heading(style, clip_text(device.name(), style.width - 8)) +
         render_table({{"mean"}, {"A", true}, {"B", true}, {"B - A", true}, {"of step", true}, {"95 % of B - A", true}}, rows, style);
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

std::string sentence(const LargestChange& change) {
  return change.device + ": " + cause_in_words(change.part.part) + (is_busy(change.part.part) ? " " : " idle ") +
         with_sign(change.part.difference_s()) + ", " + share_text(change.share) + " of the step";
}

std::string render_compared(const Comparison& comparison, const TextStyle& style) {
  std::string text = headline(comparison, style) + side_text("A", comparison.a, style) + side_text("B", comparison.b, style);
  if (!comparison.devices.empty()) text += "\n" + largest_text(comparison, style);
  if (comparison.plan_changes) text += "\n" + plans_text(*comparison.plan_changes, style);
  return text + devices_text(comparison.devices, style);
}

}  // namespace mptune::reports

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "profiler/base/printable.h"
#include "profiler/base/units.h"
#include "reports/render/pictures.h"

namespace mptune::reports {
namespace {

struct Part {
  const char* name;
  const char* block;
  const char* ascii;
  Color color;
  double DeviceRow::*seconds;
};

/// The parts in the order in which they are drawn.
constexpr std::array<Part, 4> kParts = {{{"compute", "█", "#", Color::green, &DeviceRow::compute_s},
                                         {"overlap", "▓", "%", Color::cyan, &DeviceRow::overlap_s},
                                         {"copy", "▒", "=", Color::blue, &DeviceRow::copy_s},
                                         {"idle", "·", ".", Color::red, &DeviceRow::idle_s}}};
constexpr int kNumberWidth = 9;
constexpr int kLeastBar = 12;

std::string bar(const DeviceRow& row, int width, const TextStyle& style) {
  std::string text;
  double sum = 0;
  int drawn = 0;
  for (const Part& part : kParts) {
    sum += row.window_s > 0 ? row.*part.seconds / row.window_s : 0;
    // Rounds the ends of parts, not their lengths, so that the parts fill the bar.
    const int end = std::clamp(static_cast<int>(std::lround(sum * width)), drawn, width);
    text += paint(style, part.color, repeat(style.unicode ? part.block : part.ascii, end - drawn));
    drawn = end;
  }
  return pad_right(text, width);
}

std::string legend(const TextStyle& style) {
  std::string text;
  for (const Part& part : kParts)
    text += (text.empty() ? "" : "  ") + paint(style, part.color, style.unicode ? part.block : part.ascii) + " " + part.name;
  return text;
}

/// Returns the whole name, on as many lines as it needs.
std::string name_in_lines(const std::string& name, const TextStyle& style) {
  std::string rest = printable(name), text;
  for (std::string line; display_width(rest) > style.width; rest.erase(0, line.size())) {
    line = clip_text(rest, style.width);
    text += line + "\n";
  }
  return text + rest + "\n";
}

std::string share(double part, double window) {
  return pad_left(format_percent(window > 0 ? part / window : 0), kNumberWidth);
}

}  // namespace

std::string render_breakdown(const std::vector<DeviceRow>& devices, const TextStyle& style) {
  int label = 6;
  bool peaks = false;
  for (const DeviceRow& row : devices) {
    label = std::max(label, display_width(row.device));
    peaks = peaks || row.peak_bytes > 0;
  }
  const int numbers = 4 * kNumberWidth + (peaks ? kNumberWidth + 1 : 0);
  const int room = style.width - label - 2 - numbers;
  // A narrow terminal gets the bars, and before that long names of devices, on lines of their own.
  const bool bars_below = room < kLeastBar, names_above = room < 0;
  const int before = names_above ? style.width - numbers : bars_below ? label + 2 : label + 2 + room;
  std::string titles = pad_right("device", before);
  for (const char* name : {"compute", "copy", "overlap", "idle"}) titles += pad_left(name, kNumberWidth);
  std::string text = paint(style, Color::bold, titles + (peaks ? pad_left("peak", kNumberWidth + 1) : "")) + "\n";
  for (const DeviceRow& row : devices) {
    const std::string name = names_above ? name_in_lines(row.device, style) + repeat(" ", before) : pad_right(row.device, label + 2);
    text += name + (bars_below ? "" : bar(row, room, style));
    text += share(row.compute_s, row.window_s) + share(row.copy_s, row.window_s);
    text += share(row.overlap_s, row.window_s) + share(row.idle_s, row.window_s);
    text += (peaks ? pad_left(format_bytes(row.peak_bytes), kNumberWidth + 1) : "") + "\n";
    if (bars_below) text += "  " + bar(row, style.width - 2, style) + "\n";
  }
  return text + legend(style) + "\n";
}

}  // namespace mptune::reports

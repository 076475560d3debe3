#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "profiler/base/units.h"
#include "reports/render/pictures.h"

namespace mptune::reports {
namespace {

constexpr int kMostPanels = 4;
/// The most rows of devices over all panels, about one or two screens.
constexpr int kMostBands = 12;
/// More devices than this are drawn as a line each, not as boxes.
constexpr std::size_t kMostBoxed = 8;
constexpr std::size_t kMostLines = 32;

/// Lines of a box: corners and edges of its left border, top and bottom.
struct BoxGlyphs {
  const char *top_left, *left, *bottom_left, *line, *top_right, *right, *bottom_right;
};
constexpr BoxGlyphs kLight = {"┌", "│", "└", "─", "┐", "│", "┘"};
constexpr BoxGlyphs kHeavy = {"┏", "┃", "┗", "━", "┓", "┃", "┛"};
constexpr BoxGlyphs kDouble = {"╔", "║", "╚", "═", "╗", "║", "╝"};
constexpr BoxGlyphs kLightAscii = {"+", "|", "+", "-", "+", "|", "+"};
constexpr BoxGlyphs kHeavyAscii = {"#", "#", "#", "=", "#", "#", "#"};
constexpr BoxGlyphs kDoubleAscii = {"%", "%", "%", "~", "%", "%", "%"};

bool is_backward(EventKind kind) {
  return kind == EventKind::backward || kind == EventKind::backward_input || kind == EventKind::recompute;
}

const BoxGlyphs& glyphs_for(EventKind kind, const TextStyle& style) {
  if (kind == EventKind::backward_weight) return style.unicode ? kDouble : kDoubleAscii;
  if (is_backward(kind)) return style.unicode ? kHeavy : kHeavyAscii;
  return style.unicode ? kLight : kLightAscii;
}

/// Returns the glyph of a device that is drawn as one line: shades alternate between neighbouring micro-batches.
const char* block_for(EventKind kind, bool odd, const TextStyle& style) {
  const auto pick = [&](const char* even_block, const char* odd_block, const char* even_letter, const char* odd_letter) {
    return style.unicode ? (odd ? odd_block : even_block) : odd ? odd_letter : even_letter;
  };
  switch (kind) {
    case EventKind::forward:
      return pick("░", "▒", "f", "F");
    case EventKind::backward_weight:
      return pick("▚", "▞", "w", "W");
    case EventKind::optimizer:
      return "o";
    case EventKind::reduce:
      return "r";
    default:
      return is_backward(kind) ? pick("▓", "█", "b", "B") : "x";
  }
}

Color color_for(EventKind kind) {
  if (kind == EventKind::backward_weight) return Color::blue;
  return kind == EventKind::forward ? Color::cyan : is_backward(kind) ? Color::magenta : Color::yellow;
}

/// Returns the devices that run several stages: their boxes are labelled stage.micro-batch.
std::set<int> devices_with_stages(const TraceReport& report) {
  std::map<int, std::set<int>> stages;
  for (const TimelineBox& box : report.timeline) stages[box.device].insert(box.stage);
  std::set<int> several;
  for (const auto& [device, numbers] : stages)
    if (numbers.size() > 1) several.insert(device);
  return several;
}

std::string label_of(const TimelineBox& box, bool with_stage) {
  switch (box.kind) {
    case EventKind::optimizer:
      return "o";
    case EventKind::reduce:
      return "r";
    default:
      break;
  }
  if (box.microbatch < 0) return "";
  return with_stage ? fmt::format("{}.{}", box.stage, box.microbatch) : std::to_string(box.microbatch);
}

/// The part of the step that one panel shows.
struct Panel {
  double start_s = 0;
  double end_s = 0;
  int columns = 0;
  [[nodiscard]] int column(double time_s) const {
    const double share = (time_s - start_s) / (end_s - start_s);
    return std::clamp(static_cast<int>(std::lround(share * columns)), 0, columns);
  }
};

void draw_box(Canvas& canvas, int row, int begin, int end, const TimelineBox& box, const std::string& label, const TextStyle& style) {
  const BoxGlyphs& glyphs = glyphs_for(box.kind, style);
  const Color color = color_for(box.kind);
  for (int column = begin; column < end; ++column) {
    canvas.put(row, column, glyphs.line, color);
    canvas.put(row + 1, column, " ");
    canvas.put(row + 2, column, glyphs.line, color);
  }
  canvas.put(row, begin, glyphs.top_left, color);
  canvas.put(row + 1, begin, glyphs.left, color);
  canvas.put(row + 2, begin, glyphs.bottom_left, color);
  // A box that follows without a gap draws its left border over this one.
  canvas.put(row, end, glyphs.top_right, color);
  canvas.put(row + 1, end, glyphs.right, color);
  canvas.put(row + 2, end, glyphs.bottom_right, color);
  if (static_cast<int>(label.size()) < end - begin) canvas.text(row + 1, begin + 1, label, color);
}

bool as_lines(const TraceReport& report) {
  return report.devices.size() > kMostBoxed;
}

std::size_t drawn_devices(const TraceReport& report) {
  return std::min(report.devices.size(), kMostLines);
}

/// Draws a device's part of a panel: three rows of boxes, or a line.
Canvas draw_device(const TraceReport& report, int device, const Panel& panel, bool with_stage, const TextStyle& style) {
  const bool line = as_lines(report);
  Canvas canvas(line ? 1 : 3, panel.columns + 1);
  for (int column = 0; column < panel.columns; ++column) canvas.put(line ? 0 : 1, column, style.unicode ? "·" : ".", Color::dim);
  for (const TimelineBox& box : report.timeline) {
    if (box.device != device || box.end_s <= panel.start_s || box.start_s >= panel.end_s) continue;
    const int begin = std::min(panel.column(box.start_s), panel.columns - 1);
    const int end = std::max(panel.column(box.end_s), begin + 1);
    if (!line) {
      draw_box(canvas, 0, begin, end, box, label_of(box, with_stage), style);
      continue;
    }
    for (int column = begin; column < end; ++column)
      canvas.put(0, column, block_for(box.kind, box.microbatch % 2 != 0, style), color_for(box.kind));
  }
  return canvas;
}

std::string render_panel(const TraceReport& report, const Panel& panel, int label_width, const TextStyle& style) {
  const std::set<int> several = devices_with_stages(report);
  const int rows = as_lines(report) ? 1 : 3;
  std::string text = repeat(" ", label_width);
  const std::string from = format_seconds(panel.start_s);
  text += from + pad_left(format_seconds(panel.end_s), panel.columns + 1 - display_width(from)) + "\n";
  for (std::size_t device = 0; device < drawn_devices(report); ++device) {
    const Canvas canvas = draw_device(report, static_cast<int>(device), panel, several.contains(static_cast<int>(device)), style);
    for (int row = 0; row < rows; ++row) {
      text +=
          pad_right(row == rows / 2 ? shortened(report.devices[device].device, label_width - 2) : "", label_width) + canvas.row(row, style);
      text.erase(text.find_last_not_of(' ') + 1);
      text += "\n";
    }
  }
  return text;
}

/// Joins parts by commas; breaks lines after commas only.
std::string in_lines(const std::vector<std::string>& parts, int columns) {
  std::string text;
  int used = 0;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const std::string part = parts[i] + (i + 1 < parts.size() ? "," : "");
    const bool fits = used == 0 || used + 1 + display_width(part) <= columns;
    text += (used == 0 ? "" : fits ? " " : "\n") + part;
    used = display_width(part) + (fits && used > 0 ? used + 1 : 0);
  }
  return text + "\n";
}

/// Returns the legend of what is drawn.
std::string legend(const TraceReport& report, const TextStyle& style) {
  const auto has = [&](EventKind kind) {
    return std::ranges::any_of(report.timeline, [&](const TimelineBox& box) { return box.kind == kind; });
  };
  const bool lines = as_lines(report);
  const auto mark = [&](const char* block, const char* letters, const char* box, const char* ascii) {
    return std::string(lines ? (style.unicode ? block : letters) : style.unicode ? box : ascii);
  };
  std::vector<std::string> parts = {mark("░▒", "fF", "light box", "|n") + " forward"};
  if (has(EventKind::backward) || has(EventKind::backward_input))
    parts.push_back(mark("▓█", "bB", "heavy box", "#n") + (has(EventKind::backward) ? " backward" : " gradients of inputs"));
  if (has(EventKind::backward_weight)) parts.push_back(mark("▚▞", "wW", "double box", "%n") + " gradients of weights");
  if (lines)
    parts.emplace_back("neighbouring micro-batches by turns");
  else if (!devices_with_stages(report).empty())
    parts.emplace_back(style.unicode ? "numbers: stage.micro-batch" : "n: stage.micro-batch");
  else
    parts.emplace_back(style.unicode ? "number: micro-batch" : "n: micro-batch");
  if (has(EventKind::optimizer)) parts.emplace_back("o optimizer");
  if (has(EventKind::reduce)) parts.emplace_back("r sum over replicas");
  if (lines && has(EventKind::collective)) parts.emplace_back("x collective");
  parts.emplace_back(style.unicode ? "· idle" : ". idle");
  return in_lines(parts, style.width);
}

/// Returns the least number of panels in which a box of median width has room for its label, within the limits above.
int panels_for(const TraceReport& report, int columns) {
  std::vector<double> widths;
  std::size_t digits = 1;
  const std::set<int> several = devices_with_stages(report);
  for (const TimelineBox& box : report.timeline) {
    if (box.microbatch >= 0) {
      widths.push_back(box.end_s - box.start_s);
      digits = std::max(digits, label_of(box, several.contains(box.device)).size());
    }
  }
  if (widths.empty() || as_lines(report)) return 1;
  const double typical = median(widths) / report.timeline_s * columns;
  const double wanted = static_cast<double>(digits) + 1.5;
  const int most = std::clamp(kMostBands / static_cast<int>(drawn_devices(report)), 1, kMostPanels);
  return std::clamp(static_cast<int>(std::ceil(wanted / typical)), 1, most);
}

}  // namespace

std::string render_timeline(const TraceReport& report, const TextStyle& style) {
  if (report.timeline.empty() || report.timeline_s <= 0) return "";
  int label_width = 0;
  for (const DeviceRow& row : report.devices)
    label_width = std::max(label_width, display_width(shortened(row.device, most_label(style))) + 2);
  const int columns = std::max(20, style.width - label_width - 1);
  const int panels = panels_for(report, columns);
  std::string text;
  for (int i = 0; i < panels; ++i) {
    const Panel panel{report.timeline_s * i / panels, report.timeline_s * (i + 1) / panels, columns};
    text += render_panel(report, panel, label_width, style);
  }
  text += legend(report, style);
  if (const std::size_t drawn = drawn_devices(report); drawn < report.devices.size())
    text += std::to_string(report.devices.size() - drawn) + " more devices are not drawn\n";
  return text;
}

}  // namespace mptune::reports

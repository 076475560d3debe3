#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "mptune/reports/render/pictures.h"
#include "mptune/reports/render/units.h"

namespace mptune {
namespace {

constexpr int kMostPanels = 4;
/// Devices over all panels: a screen or two.
constexpr int kMostBands = 12;
constexpr std::size_t kMostDevices = 8;

/// Lines of a box: corners and edges of its left border, top and bottom.
struct BoxGlyphs {
  const char *top_left, *left, *bottom_left, *line, *top_right, *right, *bottom_right;
};
constexpr BoxGlyphs kLight = {"┌", "│", "└", "─", "┐", "│", "┘"};
constexpr BoxGlyphs kHeavy = {"┏", "┃", "┗", "━", "┓", "┃", "┛"};
constexpr BoxGlyphs kLightAscii = {"+", "|", "+", "-", "+", "|", "+"};
constexpr BoxGlyphs kHeavyAscii = {"#", "#", "#", "=", "#", "#", "#"};

bool is_backward(What what) {
  return what == What::backward || what == What::backward_input || what == What::backward_weight || what == What::recompute;
}

const BoxGlyphs& glyphs_for(What what, const TextStyle& style) {
  if (style.unicode) {
    return is_backward(what) ? kHeavy : kLight;
  }
  return is_backward(what) ? kHeavyAscii : kLightAscii;
}

Color color_for(What what) {
  return what == What::forward ? Color::cyan : is_backward(what) ? Color::magenta : Color::yellow;
}

/// Devices that run several stages say which.
std::set<int> devices_with_stages(const TraceReport& report) {
  std::map<int, std::set<int>> stages;
  for (const TimelineBox& box : report.timeline) {
    stages[box.device].insert(box.stage);
  }
  std::set<int> several;
  for (const auto& [device, numbers] : stages) {
    if (numbers.size() > 1) {
      several.insert(device);
    }
  }
  return several;
}

std::string label_of(const TimelineBox& box, bool with_stage) {
  switch (box.what) {
    case What::optimizer:
      return "o";
    case What::reduce:
      return "r";
    default:
      break;
  }
  if (box.microbatch < 0) {
    return "";
  }
  return with_stage ? fmt::format("{}.{}", box.stage, box.microbatch) : std::to_string(box.microbatch);
}

/// Part of the step that one panel shows.
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
  const BoxGlyphs& glyphs = glyphs_for(box.what, style);
  const Color color = color_for(box.what);
  for (int column = begin; column < end; ++column) {
    canvas.put(row, column, glyphs.line, color);
    canvas.put(row + 1, column, " ");
    canvas.put(row + 2, column, glyphs.line, color);
  }
  canvas.put(row, begin, glyphs.top_left, color);
  canvas.put(row + 1, begin, glyphs.left, color);
  canvas.put(row + 2, begin, glyphs.bottom_left, color);
  // The right border is the left one of a box that follows at once.
  canvas.put(row, end, glyphs.top_right, color);
  canvas.put(row + 1, end, glyphs.right, color);
  canvas.put(row + 2, end, glyphs.bottom_right, color);
  if (static_cast<int>(label.size()) < end - begin) {
    canvas.text(row + 1, begin + 1, label, color);
  }
}

std::size_t drawn_devices(const TraceReport& report) {
  return std::min(report.devices.size(), kMostDevices);
}

std::string render_panel(const TraceReport& report, const Panel& panel, int label_width, const TextStyle& style) {
  const std::set<int> several = devices_with_stages(report);
  std::string text = repeat(" ", label_width);
  const std::string from = format_seconds(panel.start_s);
  text += from + pad_left(format_seconds(panel.end_s), panel.columns + 1 - display_width(from)) + "\n";
  for (std::size_t device = 0; device < drawn_devices(report); ++device) {
    Canvas canvas(3, panel.columns + 1);
    for (int column = 0; column < panel.columns; ++column) {
      canvas.put(1, column, style.unicode ? "·" : ".", Color::dim);
    }
    for (const TimelineBox& box : report.timeline) {
      if (box.device != static_cast<int>(device) || box.end_s <= panel.start_s || box.start_s >= panel.end_s) {
        continue;
      }
      const int begin = std::min(panel.column(box.start_s), panel.columns - 1);
      const int end = std::max(panel.column(box.end_s), begin + 1);
      draw_box(canvas, 0, begin, end, box, label_of(box, several.contains(box.device)), style);
    }
    for (int row = 0; row < 3; ++row) {
      text += pad_right(row == 1 ? report.devices[device].device : "", label_width) + canvas.row(row, style);
      text.erase(text.find_last_not_of(' ') + 1);
      text += "\n";
    }
  }
  return text;
}

/// As many panels as make the typical box wide enough for its number.
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
  if (widths.empty()) {
    return 1;
  }
  const double typical = median(widths) / report.timeline_s * columns;
  const double wanted = static_cast<double>(digits) + 1.5;
  const int most = std::clamp(kMostBands / static_cast<int>(drawn_devices(report)), 1, kMostPanels);
  return std::clamp(static_cast<int>(std::ceil(wanted / typical)), 1, most);
}

}  // namespace

std::string render_timeline(const TraceReport& report, const TextStyle& style) {
  if (report.timeline.empty() || report.timeline_s <= 0) {
    return "";
  }
  int label_width = 0;
  for (const DeviceRow& row : report.devices) {
    label_width = std::max(label_width, display_width(row.device) + 2);
  }
  const int columns = std::max(20, style.width - label_width - 1);
  const int panels = panels_for(report, columns);
  std::string text;
  for (int i = 0; i < panels; ++i) {
    const Panel panel{report.timeline_s * i / panels, report.timeline_s * (i + 1) / panels, columns};
    text += render_panel(report, panel, label_width, style);
  }
  const char* legend = style.unicode
                           ? "light box forward, heavy box backward, number: micro-batch, o optimizer, r sum over replicas, · idle"
                           : "|n forward, #n backward, n: micro-batch, o optimizer, r sum over replicas, . idle";
  text += join(wrap(legend, style.width), "\n") + "\n";
  if (const std::size_t drawn = drawn_devices(report); drawn < report.devices.size()) {
    text += std::to_string(report.devices.size() - drawn) + " more devices are not drawn\n";
  }
  return text;
}

}  // namespace mptune

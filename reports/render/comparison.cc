#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "profiler/base/units.h"
#include "reports/render/pictures.h"
#include "reports/render/units.h"

namespace mptune::reports {
namespace {

struct Texts {
  std::string name, step, interval, speedup, peak;
};

std::string largest(const std::vector<std::int64_t>& bytes) {
  return bytes.empty() || *std::ranges::max_element(bytes) <= 0 ? "" : format_bytes(*std::ranges::max_element(bytes));
}

std::string bar(const ComparisonRow& row, double longest, int width, const TextStyle& style) {
  const auto column = [&](double seconds) {
    return std::clamp(static_cast<int>(std::lround(seconds / longest * (width - 1))), 0, width - 1);
  };
  const int low = column(row.step_ci95_s.low), middle = column(row.step_s), high = column(row.step_ci95_s.high);
  Canvas canvas(1, width);
  const Color color = row.reference ? Color::green : Color::none;
  for (int i = 0; i < width; ++i)
    if (i < low)
      canvas.put(0, i, style.unicode ? "█" : "#", color);
    else if (i <= high)
      canvas.put(0, i, style.unicode ? "─" : "-", color);
  canvas.put(0, low, style.unicode ? "├" : "[", color);
  canvas.put(0, high, style.unicode ? "┤" : "]", color);
  canvas.put(0, middle, style.unicode ? "●" : "o", color);
  return pad_right(canvas.row(0, style), width);
}

}  // namespace

std::string render_comparison(const std::vector<ComparisonRow>& rows, const TextStyle& style) {
  if (rows.empty()) return "";
  std::vector<Texts> texts = {{"", "step", "95 %", "speed-up", "peak"}};
  double longest = 0;
  for (const ComparisonRow& row : rows) {
    if (!row.note.empty()) {
      texts.push_back({row.name, "", "", "", ""});
      continue;
    }
    texts.push_back({row.name, format_seconds(row.step_s),
                     row.step_ci95_s.low < row.step_ci95_s.high ? format_interval_seconds(row.step_ci95_s) : "-", row.speedup,
                     largest(row.peak_bytes)});
    longest = std::max(longest, row.step_ci95_s.high);
  }
  const auto widest = [&](std::string Texts::*member) {
    int width = 0;
    for (const Texts& line : texts) width = std::max(width, display_width(line.*member));
    return width;
  };
  const int name = widest(&Texts::name), step = widest(&Texts::step), interval = widest(&Texts::interval), peak = widest(&Texts::peak);
  const int speedup = widest(&Texts::speedup);
  const int numbers = name + step + interval + speedup + peak + 10;
  // A narrow terminal gets the bars on lines of their own.
  const bool below = style.width - numbers < 12;
  const int width = below ? style.width - name - 2 : style.width - numbers;
  std::string text;
  for (std::size_t i = 0; i < texts.size(); ++i) {
    const Texts& line = texts[i];
    if (i > 0 && !rows[i - 1].note.empty()) {
      text += hanging(pad_right(line.name, name) + "  ", rows[i - 1].note, style);
      continue;
    }
    const std::string picture = i == 0 ? repeat(" ", width) : bar(rows[i - 1], longest, width, style);
    std::string out = pad_right(line.name, name) + "  " + (below ? "" : picture + "  ") + pad_left(line.step, step) + "  " +
                      pad_left(line.interval, interval) + "  " + pad_right(line.speedup, speedup) + "  " + pad_left(line.peak, peak);
    out.erase(out.find_last_not_of(' ') + 1);
    text += paint(style, i == 0 ? Color::bold : Color::none, out) + "\n";
    if (below && i > 0) {
      std::string second = repeat(" ", name + 2) + picture;
      second.erase(second.find_last_not_of(' ') + 1);
      text += second + "\n";
    }
  }
  return text;
}

std::string render_card(const std::string& title, const std::vector<std::string>& lines, const TextStyle& style) {
  const int inner = style.width - 4;
  const bool u = style.unicode;
  const std::string shown = clip_text(title, inner - 3);
  std::string text = (u ? "╭─ " : "+- ") + paint(style, Color::bold, shown) + " " +
                     repeat(u ? "─" : "-", inner - 1 - display_width(shown)) + (u ? "╮\n" : "+\n");
  for (const std::string& line : lines) {
    bool first = true;
    for (const std::string& piece : wrap(line, inner - 2)) {
      text += (u ? "│ " : "| ") + pad_right((first ? "" : "  ") + clip_text(piece, inner - 2), inner) + (u ? " │\n" : " |\n");
      first = false;
    }
  }
  return text + (u ? "╰" : "+") + repeat(u ? "─" : "-", style.width - 2) + (u ? "╯\n" : "+\n");
}

}  // namespace mptune::reports

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
  const Interval ends = row.step_ci95_s.value_or(Interval{row.step_s, row.step_s});
  const int low = column(ends.low), middle = column(row.step_s), high = column(ends.high);
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

std::string without_end_blanks(std::string line) {
  line.erase(line.find_last_not_of(' ') + 1);
  return line;
}

/// Returns the numbers of a row after its name, for a terminal that is too narrow for columns.
std::string numbers_in_words(const Texts& texts) {
  std::string text = "step " + texts.step + (texts.interval == "-" ? "" : ", 95 % " + texts.interval);
  if (!texts.speedup.empty()) text += ", " + texts.speedup;
  return text + (texts.peak.empty() ? "" : ", peak " + texts.peak);
}

std::string comparison_as_lines(const std::vector<ComparisonRow>& rows, const std::vector<Texts>& texts, const TextStyle& style) {
  std::string text;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    text += hanging("", texts[i + 1].name, style);
    text += hanging("  ", rows[i].note.empty() ? numbers_in_words(texts[i + 1]) : rows[i].note, style);
  }
  return text;
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
    texts.push_back({row.name, format_seconds(row.step_s), interval_cell(row.step_ci95_s), row.speedup, largest(row.peak_bytes)});
    longest = std::max(longest, row.step_ci95_s ? row.step_ci95_s->high : row.step_s);
  }
  const auto widest = [&](std::string Texts::*member) {
    int width = 0;
    for (const Texts& line : texts) width = std::max(width, display_width(line.*member));
    return width;
  };
  const int name = widest(&Texts::name), step = widest(&Texts::step), interval = widest(&Texts::interval), peak = widest(&Texts::peak);
  const int longest_speedup = widest(&Texts::speedup);
  const int without_speedup = name + step + interval + peak + 6;
  if (without_speedup > style.width || name + 2 + longest_speedup > style.width) return comparison_as_lines(rows, texts, style);
  // Where all columns are too wide, speed-ups get lines of their own.
  const bool apart = without_speedup + 2 + longest_speedup > style.width;
  const int speedup = apart ? 0 : longest_speedup;
  const int numbers = without_speedup + (apart ? 0 : speedup + 2) + 2;
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
                      pad_left(line.interval, interval) + "  " + (apart ? "" : pad_right(line.speedup, speedup) + "  ") +
                      pad_left(line.peak, peak);
    text += paint(style, i == 0 ? Color::bold : Color::none, without_end_blanks(out)) + "\n";
    if (apart && !line.speedup.empty()) text += repeat(" ", name + 2) + line.speedup + "\n";
    if (below && i > 0) text += without_end_blanks(repeat(" ", name + 2) + picture) + "\n";
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

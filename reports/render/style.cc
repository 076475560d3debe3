#include "reports/render/style.h"

#include <algorithm>
#include <array>
#include <cctype>

#include "profiler/base/index.h"
#include "profiler/base/printable.h"
#include "profiler/base/text.h"

namespace mptune::reports {
namespace {

const char* code_of(Color color) {
  switch (color) {
    case Color::none:
      return "[0m";
    case Color::bold:
      return "[1m";
    case Color::dim:
      return "[2m";
    case Color::red:
      return "[31m";
    case Color::green:
      return "[32m";
    case Color::yellow:
      return "[33m";
    case Color::blue:
      return "[34m";
    case Color::magenta:
      return "[35m";
    case Color::cyan:
      return "[36m";
  }
  return "";
}

/// Returns what begins each escape sequence that is made under the style.
std::string escape_of(const TextStyle& style) {
  return "\x1b" + (style.mark == 0 ? "" : std::to_string(style.mark));
}

constexpr std::array kUnits = {"%", "ns", "us", "ms", "s", "min", "h", "B", "KiB", "MiB", "GiB", "TiB", "kB/s", "MB/s", "GB/s", "TB/s"};

bool is_unit(std::string word) {
  word.erase(word.find_last_not_of(",;:.)") + 1);
  return std::ranges::find(kUnits, word) != kUnits.end();
}

/// Returns the end of the next piece of text that stays on one line: a word, or a number with its unit.
std::size_t end_of_piece(const std::string& text, std::size_t begin) {
  const std::size_t end = std::min(text.find(' ', begin), text.size());
  const bool number = end > begin && (text[end - 1] == ']' || std::isdigit(static_cast<unsigned char>(text[end - 1])) != 0);
  if (!number || end == text.size()) return end;
  const std::size_t after = std::min(text.find(' ', end + 1), text.size());
  return is_unit(text.substr(end + 1, after - end - 1)) ? after : end;
}

bool starts_code_point(char byte) {
  return (static_cast<unsigned char>(byte) & 0xC0) != 0x80;
}

}  // namespace

std::string paint(const TextStyle& style, Color color, const std::string& text) {
  if (!style.color || color == Color::none || text.empty()) return text;
  return escape_of(style) + code_of(color) + text + escape_of(style) + code_of(Color::none);
}

std::string finished(const TextStyle& style, const std::string& text) {
  if (!style.color) return printable(text, LineEnds::kept);
  const std::string escape = escape_of(style);
  std::string out;
  std::size_t begin = 0;
  for (std::size_t at = text.find(escape); at != std::string::npos; at = text.find(escape, begin)) {
    out += printable(std::string_view(text).substr(begin, at - begin), LineEnds::kept);
    const std::size_t end = std::min(text.size(), text.find('m', at) + 1);
    out += "\x1b" + text.substr(at + escape.size(), end - at - escape.size());
    begin = end;
  }
  return out + printable(std::string_view(text).substr(begin), LineEnds::kept);
}

int display_width(const std::string& text) {
  int columns = 0;
  bool escape = false;
  for (const char byte : text)
    if (byte == '\x1b')
      escape = true;
    else if (escape)
      escape = byte != 'm';
    else if (starts_code_point(byte))
      ++columns;
  return columns;
}

std::string clip_text(const std::string& given, int columns) {
  const std::string text = printable(given);
  int seen = 0;
  for (std::size_t i = 0; i < text.size(); ++i)
    if (starts_code_point(text[i]) && ++seen > columns) return text.substr(0, i);
  return text;
}

std::string shortened(const std::string& given, int columns) {
  const std::string text = printable(given);
  const int wide = display_width(text);
  if (wide <= columns) return text;
  constexpr int kDots = 2;
  const int head = std::max(0, columns - kDots + 1) / 2, tail = std::max(0, columns - kDots - head);
  std::string end = text;
  for (int left = wide; left > tail; --left) {
    std::size_t next = 1;
    while (next < end.size() && !starts_code_point(end[next])) ++next;
    end.erase(0, next);
  }
  return clip_text(text, head) + ".." + end;
}

std::string pad_right(const std::string& text, int columns) {
  return text + repeat(" ", columns - display_width(text));
}

std::string pad_left(const std::string& text, int columns) {
  return repeat(" ", columns - display_width(text)) + text;
}

std::string repeat(const std::string& glyph, int count) {
  std::string text;
  for (int i = 0; i < count; ++i) text += glyph;
  return text;
}

std::vector<std::string> wrap(const std::string& given, int columns) {
  const std::string text = printable(given);
  std::vector<std::string> lines(1);
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = end_of_piece(text, begin);
    const std::string word = text.substr(begin, end - begin);
    begin = end + 1;
    if (!lines.back().empty() && display_width(lines.back()) + 1 + display_width(word) > columns) lines.emplace_back();
    lines.back() += (lines.back().empty() ? "" : " ") + word;
  }
  return lines;
}

std::string hanging(const std::string& label, const std::string& text, const TextStyle& style) {
  const int indent = display_width(label);
  std::string out;
  for (const std::string& line : wrap(text, style.width - indent)) {
    out += (out.empty() ? label : repeat(" ", indent)) + line;
    out.erase(out.find_last_not_of(' ') + 1);
    out += "\n";
  }
  return out;
}

std::string heading(const TextStyle& style, const std::string& title) {
  const std::vector<std::string> lines = wrap(title, style.width);
  const int rule = std::max(0, style.width - display_width(lines.back()) - 1);
  return paint(style, Color::bold, join(lines, "\n")) + (rule > 0 ? " " : "") +
         paint(style, Color::dim, repeat(style.unicode ? "─" : "-", rule)) + "\n";
}

Canvas::Canvas(int rows, int columns)
    : columns_(std::max(0, columns)), rows_(as_index(std::max(0, rows)), std::vector<Glyph>(as_index(columns_))) {}

void Canvas::put(int row, int column, const std::string& glyph, Color color) {
  if (row >= 0 && row < static_cast<int>(rows_.size()) && column >= 0 && column < columns_)
    rows_[as_index(row)][as_index(column)] = {glyph, color};
}

void Canvas::text(int row, int column, const std::string& ascii, Color color) {
  for (const char letter : ascii) put(row, column++, std::string(1, letter), color);
}

std::string Canvas::row(int row, const TextStyle& style) const {
  const auto& glyphs = rows_.at(as_index(row));
  std::size_t end = glyphs.size();
  while (end > 0 && glyphs[end - 1].text == " ") --end;
  std::string text;
  for (std::size_t i = 0; i < end;) {
    std::string run;
    const Color color = glyphs[i].color;
    while (i < end && glyphs[i].color == color) run += glyphs[i++].text;
    text += paint(style, color, run);
  }
  return text;
}

}  // namespace mptune::reports

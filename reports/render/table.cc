#include "reports/render/table.h"

#include <algorithm>

namespace mptune::reports {
namespace {

constexpr int kGap = 2;
constexpr int kLeastLastColumn = 12;
constexpr int kLeastColumn = 8;

int whole_width(const std::vector<int>& widths) {
  int whole = -kGap;
  for (const int width : widths) whole += width + kGap;
  return whole;
}

/// Takes width from the widest texts until all columns fit, or none can be narrower.
void narrow(const std::vector<Column>& columns, int width, std::vector<int>& widths) {
  while (whole_width(widths) > width) {
    std::size_t widest = columns.size();
    for (std::size_t i = 0; i < columns.size(); ++i)
      if (!columns[i].right && widths[i] > std::max(kLeastColumn, display_width(columns[i].title)) &&
          (widest == columns.size() || widths[i] > widths[widest]))
        widest = i;
    if (widest == columns.size()) return;
    --widths[widest];
  }
}

std::vector<int> widths_of(const std::vector<Column>& columns, const std::vector<std::vector<Cell>>& rows, int width) {
  std::vector<int> widths;
  for (std::size_t i = 0; i < columns.size(); ++i) {
    int widest = display_width(columns[i].title);
    for (const auto& row : rows) widest = std::max(widest, display_width(row[i].text));
    widths.push_back(widest);
  }
  int before = 0;
  for (std::size_t i = 0; i + 1 < widths.size(); ++i) before += widths[i] + kGap;
  widths.back() = std::min(widths.back(), std::max(kLeastLastColumn, width - before));
  narrow(columns, width, widths);
  return widths;
}

std::string cell_text(const Cell& cell, const Column& column, int width, const TextStyle& style) {
  const std::string padded = column.right ? pad_left(cell.text, width) : pad_right(cell.text, width);
  return paint(style, cell.color, padded);
}

void trim_right(std::string& line) {
  while (!line.empty() && line.back() == ' ') line.pop_back();
}

/// Returns pieces of the text that are at most `columns` wide; longer words are broken.
std::vector<std::string> broken(const std::string& text, int columns) {
  std::vector<std::string> pieces;
  for (std::string line : wrap(text, columns)) {
    while (display_width(line) > columns) {
      const std::string head = clip_text(line, columns);
      pieces.push_back(head);
      line.erase(0, head.size());
    }
    pieces.push_back(line);
  }
  return pieces;
}

std::string row_text(const std::vector<Cell>& row, const std::vector<Column>& columns, const std::vector<int>& widths,
                     const TextStyle& style) {
  const std::size_t last = row.size() - 1;
  std::vector<std::vector<std::string>> pieces;
  std::size_t lines = 1;
  for (std::size_t i = 0; i <= last; ++i) {
    pieces.push_back(broken(row[i].text, widths[i]));
    lines = std::max(lines, pieces.back().size());
  }
  std::string text;
  for (std::size_t line = 0; line < lines; ++line) {
    std::string out;
    for (std::size_t i = 0; i <= last; ++i) {
      const Cell piece(line < pieces[i].size() ? pieces[i][line] : "", row[i].color);
      out += i == last && !columns[i].right ? paint(style, piece.color, piece.text) : cell_text(piece, columns[i], widths[i], style);
      if (i < last) out += repeat(" ", kGap);
    }
    trim_right(out);
    text += out + "\n";
  }
  return text;
}

/// Returns a row as a line, with the first text without its title: "step 301 ms, peak 381 MiB, modules conv1".
std::string row_as_line(const std::vector<Column>& columns, const std::vector<Cell>& row, const TextStyle& style) {
  std::string line;
  for (std::size_t i = 0; i < row.size(); ++i) {
    if (row[i].text.empty()) continue;
    line += (line.empty() ? "" : ", ") + (i == 0 && !columns[i].right ? "" : columns[i].title + (columns[i].title.empty() ? "" : " ")) +
            row[i].text;
  }
  std::string text;
  for (const std::string& piece : broken(line, style.width - kGap)) text += (text.empty() ? "" : repeat(" ", kGap)) + piece + "\n";
  return text;
}

}  // namespace

std::string render_table(const std::vector<Column>& columns, const std::vector<std::vector<Cell>>& rows, const TextStyle& style) {
  return render_table(columns, rows, std::vector<std::string>(rows.size()), style);
}

std::string render_table(const std::vector<Column>& columns, const std::vector<std::vector<Cell>>& rows,
                         const std::vector<std::string>& notes, const TextStyle& style) {
  const auto note_of = [&](std::size_t i) { return notes[i].empty() ? "" : hanging("  ", notes[i], style); };
  const std::vector<int> widths = widths_of(columns, rows, style.width);
  std::string text;
  if (whole_width(widths) > style.width) {
    for (std::size_t i = 0; i < rows.size(); ++i) text += row_as_line(columns, rows[i], style) + note_of(i);
    return text;
  }
  std::vector<Cell> titles, rules;
  for (std::size_t i = 0; i < columns.size(); ++i) {
    titles.emplace_back(columns[i].title, Color::bold);
    rules.emplace_back(repeat(style.unicode ? "─" : "-", widths[i]), Color::dim);
  }
  text = row_text(titles, columns, widths, style) + row_text(rules, columns, widths, style);
  for (std::size_t i = 0; i < rows.size(); ++i) text += row_text(rows[i], columns, widths, style) + note_of(i);
  return text;
}

}  // namespace mptune::reports

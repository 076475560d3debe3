#include "reports/render/table.h"

#include <algorithm>

namespace mptune::reports {
namespace {

constexpr int kGap = 2;
constexpr int kLeastLastColumn = 12;

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
  return widths;
}

std::string cell_text(const Cell& cell, const Column& column, int width, const TextStyle& style) {
  const std::string padded = column.right ? pad_left(cell.text, width) : pad_right(cell.text, width);
  return paint(style, cell.color, padded);
}

void trim_right(std::string& line) {
  while (!line.empty() && line.back() == ' ') line.pop_back();
}

/// No piece is wider than `columns`: words that are, are broken.
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
  const std::vector<std::string> pieces = broken(row[last].text, widths[last]);
  std::string text;
  for (std::size_t line = 0; line < pieces.size(); ++line) {
    std::string out;
    for (std::size_t i = 0; i < last; ++i) {
      out += line == 0 ? cell_text(row[i], columns[i], widths[i], style) : repeat(" ", widths[i]);
      out += repeat(" ", kGap);
    }
    out += columns[last].right ? cell_text({pieces[line], row[last].color}, columns[last], widths[last], style)
                               : paint(style, row[last].color, pieces[line]);
    trim_right(out);
    text += out + "\n";
  }
  return text;
}

}  // namespace

std::string render_table(const std::vector<Column>& columns, const std::vector<std::vector<Cell>>& rows, const TextStyle& style) {
  return render_table(columns, rows, std::vector<std::string>(rows.size()), style);
}

std::string render_table(const std::vector<Column>& columns, const std::vector<std::vector<Cell>>& rows,
                         const std::vector<std::string>& notes, const TextStyle& style) {
  const std::vector<int> widths = widths_of(columns, rows, style.width);
  std::vector<Cell> titles, rules;
  for (std::size_t i = 0; i < columns.size(); ++i) {
    titles.emplace_back(columns[i].title, Color::bold);
    rules.emplace_back(repeat(style.unicode ? "─" : "-", widths[i]), Color::dim);
  }
  std::string text = row_text(titles, columns, widths, style) + row_text(rules, columns, widths, style);
  for (std::size_t i = 0; i < rows.size(); ++i)
    text += row_text(rows[i], columns, widths, style) + (notes[i].empty() ? "" : hanging("  ", notes[i], style));
  return text;
}

}  // namespace mptune::reports

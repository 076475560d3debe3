#pragma once

#include <string>
#include <vector>

#include "profiler/base/printable.h"
#include "reports/render/style.h"

namespace mptune::reports {

struct Column {
  std::string title;
  bool right = false;  ///< numbers
};

/// A text in one colour, made printable, because names of layers and kernels are texts of others.
struct Cell {
  std::string text;
  Color color = Color::none;
  Cell(const std::string& cell_text, Color cell_color = Color::none) : text(printable(cell_text)), color(cell_color) {}
  Cell(const char* cell_text) : text(cell_text) {}
};

/// Renders columns two blanks apart, with a rule under the titles. Where they are wider than the terminal, the last column is wrapped, then
/// the other texts, the widest first; words that are wider than their column are broken, numbers never are. Where even that is too wide,
/// each row is a line of its texts after their titles.
///
///     model     layers  parameters
///     --------  ------  ----------
///     resnet50      18      25.6 M
[[nodiscard]] std::string render_table(const std::vector<Column>& columns, const std::vector<std::vector<Cell>>& rows,
                                       const TextStyle& style);

/// Does the same with a note under each row, wrapped to the width after two blanks; there are as many notes as rows, "" for none.
[[nodiscard]] std::string render_table(const std::vector<Column>& columns, const std::vector<std::vector<Cell>>& rows,
                                       const std::vector<std::string>& notes, const TextStyle& style);

}  // namespace mptune::reports

#pragma once

#include <string>
#include <vector>

namespace mptune::reports {

/// Returns text of others as the content of an element or of an attribute in double quotes: nothing in it is markup, and characters that
/// would steer a terminal are spelled out (printable.h).
[[nodiscard]] std::string escape_html(const std::string& text);

/// Returns "<td class="number">12 ms</td>". `attributes` and `content` are markup, `attributes` without the blank before it.
[[nodiscard]] std::string element(const std::string& name, const std::string& attributes, const std::string& content);

/// A title and what is under it, reachable by "#id" and listed in the page's contents. "" for no content.
struct PageSection {
  std::string id;
  std::string title;    ///< text
  std::string content;  ///< markup
};

/// Does what escape_html() does for a text to be read: a number and its percent sign stay on one line.
[[nodiscard]] std::string prose(const std::string& text);
/// Returns the clause with a capital letter and a full stop.
[[nodiscard]] std::string sentence_of(std::string clause);

/// Returns paragraphs of clauses, each as a sentence.
[[nodiscard]] std::string paragraphs(const std::vector<std::string>& clauses);
/// Returns a list of texts; "" for none.
[[nodiscard]] std::string list_items(const std::vector<std::string>& texts);
/// Returns a command or a piece of code, to be copied.
[[nodiscard]] std::string code_block(const std::string& text);
/// Returns content that is folded away until someone opens it; it is printed in full.
[[nodiscard]] std::string folded(const std::string& summary, const std::string& content);

/// A cell of a table: its text, and what it is sorted by where that is not the text.
struct HtmlCell {
  std::string text;
  std::string sort_by{};
  HtmlCell(std::string cell_text, std::string cell_sort_by = "") : text(std::move(cell_text)), sort_by(std::move(cell_sort_by)) {}
  HtmlCell(const char* cell_text) : text(cell_text) {}
};
using HtmlRow = std::vector<HtmlCell>;
/// Returns a table with a row of titles, scrolled sideways where it is too wide. A title that begins with '>' aligns its column to the
/// right, for numbers. `attributes` are markup of the table: id, classes. "" for no rows.
[[nodiscard]] std::string html_table(const std::vector<std::string>& titles, const std::vector<HtmlRow>& rows,
                                     const std::string& attributes = "");

}  // namespace mptune::reports

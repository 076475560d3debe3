#pragma once

#include <string>
#include <vector>

namespace mptune::reports {

/// Parts of Markdown documents as GitHub writes them. All parts but those of block() end with an empty line, or are "" without content.

using MarkdownRow = std::vector<std::string>;

/// Escapes the characters that have a meaning in Markdown; line ends become blanks.
[[nodiscard]] std::string escaped(const std::string& text);
/// Returns a table. Cells are escaped. A title that begins with '>' aligns its column to the right, for numbers.
[[nodiscard]] std::string table_of(MarkdownRow titles, const std::vector<MarkdownRow>& rows);
/// Returns a heading of the second level; the title is escaped already.
[[nodiscard]] std::string section(const std::string& title);
/// Returns a list. Items are escaped.
[[nodiscard]] std::string list_of(const std::vector<std::string>& items);
/// Returns a code block with the text as it is.
[[nodiscard]] std::string block(const std::string& text);

}  // namespace mptune::reports

#include "reports/html/glossary.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <string_view>
#include <vector>

#include "profiler/base/text.h"
#include "reports/html/assets.h"
#include "reports/html/markup.h"

namespace mptune::reports {
namespace {

/// Words that need no explanation, or mean something else in ordinary sentences, are not listed.
constexpr std::array<std::string_view, 33> kExplained = {"plan",
                                                         "stage",
                                                         "cut",
                                                         "global batch",
                                                         "micro-batch",
                                                         "split size",
                                                         "schedule",
                                                         "1F1B",
                                                         "recomputation",
                                                         "replica",
                                                         "data parallel",
                                                         "hybrid",
                                                         "naive model parallelism",
                                                         "split backward",
                                                         "fused weight gradients",
                                                         "pipeline bubble",
                                                         "imbalance",
                                                         "exposed communication",
                                                         "overlap",
                                                         "straggler",
                                                         "jitter",
                                                         "micro-batch overhead",
                                                         "co-running slow-down",
                                                         "scaling efficiency",
                                                         "critical path",
                                                         "lower bound",
                                                         "predicted",
                                                         "peak",
                                                         "benchmarked interleaved",
                                                         "trial",
                                                         "baseline",
                                                         "95 % interval",
                                                         "verdict"};

struct Term {
  std::string name;     ///< "pipeline bubble"
  std::string meaning;  ///< Markdown of one line
};

std::string trimmed(std::string_view text) {
  const auto first = text.find_first_not_of(' ');
  if (first == std::string_view::npos) return "";
  return std::string(text.substr(first, text.find_last_not_of(' ') - first + 1));
}

/// Returns "pipeline bubble" for "pipeline bubble (`structural`)", "predicted" for "predicted, simulated".
std::string name_of(const std::string& cell) {
  return trimmed(std::string_view(cell).substr(0, cell.find_first_of("(,")));
}

std::vector<Term> terms() {
  std::vector<Term> all;
  for (const std::string& line : split(kGlossary, '\n')) {
    const std::vector<std::string> cells = split(line, '|');
    if (cells.size() < 4 || !line.starts_with("| ")) continue;
    const Term term{name_of(cells[1]), trimmed(cells[2])};
    if (std::ranges::find(kExplained, term.name) != kExplained.end()) all.push_back(term);
  }
  return all;
}

/// Returns the text of the markup in lower case, without tags.
std::string words_of(const std::string& markup) {
  std::string text;
  bool in_tag = false;
  for (const char c : markup) {
    if (c == '<') in_tag = true;
    if (!in_tag) text += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    if (c == '>') {
      in_tag = false;
      text += ' ';
    }
  }
  return text;
}

bool uses(const std::string& text, const std::string& name) {
  const std::string word = words_of(name);
  const auto is_letter = [](char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0; };
  for (std::size_t at = text.find(word); at != std::string::npos; at = text.find(word, at + 1))
    if (at == 0 || !is_letter(text[at - 1])) return true;
  return false;
}

/// Returns Markdown as markup; `code` becomes an element.
std::string with_code(const std::string& markdown) {
  std::string markup;
  const std::vector<std::string> parts = split(markdown, '`');
  for (std::size_t i = 0; i < parts.size(); ++i) markup += i % 2 == 1 ? element("code", "", escape_html(parts[i])) : escape_html(parts[i]);
  return markup;
}

}  // namespace

std::string glossary_of(const std::string& markup) {
  const std::string text = words_of(markup);
  std::string list;
  for (const Term& term : terms())
    if (uses(text, term.name)) list += element("dt", "", escape_html(term.name)) + element("dd", "", with_code(term.meaning)) + "\n";
  return list.empty() ? "" : "<dl class=\"words\">\n" + list + "</dl>\n";
}

}  // namespace mptune::reports

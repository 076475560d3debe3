#include "reports/html/markup.h"

#include <cctype>

#include "profiler/base/printable.h"

namespace mptune::reports {

namespace {

std::string escaped(const std::string& text, LineEnds line_ends) {
  std::string markup;
  for (const char c : printable(text, line_ends)) {
    switch (c) {
      case '<':
        markup += "&lt;";
        break;
      case '>':
        markup += "&gt;";
        break;
      case '&':
        markup += "&amp;";
        break;
      case '"':
        markup += "&quot;";
        break;
      case '\'':
        markup += "&#39;";
        break;
      default:
        markup += c;
    }
  }
  return markup;
}

}  // namespace

std::string escape_html(const std::string& text) {
  return escaped(text, LineEnds::shown);
}

std::string element(const std::string& name, const std::string& attributes, const std::string& content) {
  return "<" + name + (attributes.empty() ? "" : " " + attributes) + ">" + content + "</" + name + ">";
}

std::string prose(const std::string& text) {
  std::string markup;
  for (const char c : escape_html(text)) {
    if (c == '%' && markup.ends_with(' ')) markup.replace(markup.size() - 1, 1, "&nbsp;");
    markup += c;
  }
  return markup;
}

std::string sentence_of(std::string clause) {
  if (clause.empty()) return clause;
  clause.front() = static_cast<char>(std::toupper(static_cast<unsigned char>(clause.front())));
  return clause + (std::string(".:!?").find(clause.back()) == std::string::npos ? "." : "");
}

std::string paragraphs(const std::vector<std::string>& clauses) {
  std::string markup;
  for (const std::string& clause : clauses) markup += element("p", "", prose(sentence_of(clause))) + "\n";
  return markup;
}

std::string list_items(const std::vector<std::string>& texts) {
  std::string markup;
  for (const std::string& text : texts) markup += element("li", "", prose(text)) + "\n";
  return markup.empty() ? "" : "<ul>\n" + markup + "</ul>\n";
}

std::string code_block(const std::string& text) {
  return "<div class=\"code\"><pre><code>" + escaped(text, LineEnds::kept) + "</code></pre></div>\n";
}

std::string folded(const std::string& summary, const std::string& content) {
  return content.empty() ? "" : "<details><summary>" + escape_html(summary) + "</summary>\n" + content + "</details>\n";
}

std::string html_table(const std::vector<std::string>& titles, const std::vector<HtmlRow>& rows, const std::string& attributes) {
  if (rows.empty()) return "";
  std::string head;
  std::vector<std::string> kinds;
  for (const std::string& title : titles) {
    const bool right = title.starts_with('>');
    kinds.emplace_back(right ? " class=\"n\"" : "");
    head += "<th scope=\"col\"" + kinds.back() + ">" + escape_html(right ? title.substr(1) : title) + "</th>";
  }
  std::string body;
  for (const HtmlRow& row : rows) {
    body += "<tr>";
    for (std::size_t i = 0; i < row.size(); ++i) {
      const std::string& by = row[i].sort_by;
      body += "<td" + kinds[i] + (by.empty() ? "" : " data-v=\"" + escape_html(by) + "\"") + ">" + escape_html(row[i].text) + "</td>";
    }
    body += "</tr>\n";
  }
  return "<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"table\"><table" + (attributes.empty() ? "" : " " + attributes) +
         "><thead><tr>" + head + "</tr></thead>\n<tbody>\n" + body + "</tbody></table></div>\n";
}

}  // namespace mptune::reports

#include "reports/html/markup.h"

#include "profiler/base/printable.h"

namespace mptune::reports {

std::string escape_html(const std::string& text) {
  std::string escaped;
  for (const char c : printable(text)) {
    switch (c) {
      case '<':
        escaped += "&lt;";
        break;
      case '>':
        escaped += "&gt;";
        break;
      case '&':
        escaped += "&amp;";
        break;
      case '"':
        escaped += "&quot;";
        break;
      case '\'':
        escaped += "&#39;";
        break;
      default:
        escaped += c;
    }
  }
  return escaped;
}

std::string element(const std::string& name, const std::string& attributes, const std::string& content) {
  return "<" + name + (attributes.empty() ? "" : " " + attributes) + ">" + content + "</" + name + ">";
}

std::string paragraphs(const std::vector<std::string>& texts) {
  std::string markup;
  for (const std::string& text : texts) markup += element("p", "", escape_html(text)) + "\n";
  return markup;
}

std::string list_items(const std::vector<std::string>& texts) {
  std::string markup;
  for (const std::string& text : texts) markup += element("li", "", escape_html(text)) + "\n";
  return markup.empty() ? "" : "<ul>\n" + markup + "</ul>\n";
}

std::string code_block(const std::string& text) {
  return "<div class=\"code\"><pre><code>" + escape_html(text) + "</code></pre></div>\n";
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

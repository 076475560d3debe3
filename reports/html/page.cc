#include "reports/html/page.h"

#include <fmt/format.h>

#include <array>

#include "reports/html/assets.h"
#include "reports/html/charts.h"
#include "reports/html/glossary.h"
#include "reports/html/html.h"

namespace mptune::reports {
namespace {

/// A page may ask for nothing outside of it, whatever a name in it holds.
constexpr const char* kPolicy =
    "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; base-uri 'none'; form-action 'none'";

struct Pattern {
  const char* cause;
  const char* marks;  ///< on a ground of 8 by 8 pixels
};
constexpr std::array<Pattern, 10> kPatterns = {{
    {"wait", "<path d=\"M-2,2l4,-4M0,8l8,-8M6,10l4,-4\"/>"},
    {"structural", "<path d=\"M0,2h4M4,6h4\"/>"},
    {"copy_wait", "<circle cx=\"2\" cy=\"2\" r=\"1.2\"/><circle cx=\"6\" cy=\"6\" r=\"1.2\"/>"},
    {"imbalance", "<path d=\"M2,0v8M6,0v8\"/>"},
    {"straggler", "<path d=\"M0,0l8,8M8,0l-8,8\"/>"},
    {"jitter", "<path d=\"M0,2h8M0,6h8\"/>"},
    {"host", "<path d=\"M-2,6l4,4M0,0l8,8M6,-2l4,4\"/>"},
    {"sync", "<path d=\"M0,4h8M4,0v8\"/>"},
    {"profiler", "<circle cx=\"4\" cy=\"4\" r=\"1\"/>"},
    {"unexplained", "<path d=\"M3,4h2\"/>"},
}};

std::string figures_of(const std::vector<PageFigure>& figures) {
  std::string markup;
  for (const PageFigure& figure : figures) {
    markup += "<div>" + element("dt", "", escape_html(figure.name)) + element("dd", "", escape_html(figure.value)) +
              (figure.detail.empty() ? "" : element("dd", "class=\"detail\"", escape_html(figure.detail))) + "</div>\n";
  }
  return markup.empty() ? "" : "<dl class=\"figures\" id=\"figures\">\n" + markup + "</dl>\n";
}

std::string contents_of(const std::vector<PageSection>& sections) {
  std::string markup;
  for (const PageSection& section : sections)
    if (!section.content.empty()) markup += fmt::format("<a href=\"#{}\">{}</a>\n", section.id, escape_html(section.title));
  return "<nav aria-label=\"contents\">\n" + markup + "</nav>\n";
}

std::string section_of(const PageSection& section) {
  if (section.content.empty()) return "";
  return fmt::format("<section id=\"{}\">\n<h2>{}</h2>\n{}</section>\n", section.id, escape_html(section.title), section.content);
}

std::string header_of(const Page& page) {
  std::string markup = element("p", "class=\"subject\"", escape_html(page.subject)) + "\n";
  markup += element("h1", "id=\"answer\"", prose(page.answer)) + "\n";
  markup += figures_of(page.figures);
  if (!page.lead.empty()) markup += "<div class=\"lead\">\n" + paragraphs(page.lead) + "</div>\n";
  if (!page.alerts.empty())
    markup += "<div class=\"alert\" role=\"note\"><strong>Keep in mind</strong>\n" + list_items(page.alerts) + "</div>\n";
  return "<header>\n" + markup + "</header>\n";
}

}  // namespace

std::string chart_patterns() {
  std::string markup;
  for (const Pattern& pattern : kPatterns) {
    markup += fmt::format(
        "<pattern id=\"p-{0}\" class=\"p-{0}\" width=\"8\" height=\"8\" patternUnits=\"userSpaceOnUse\"><rect width=\"8\" "
        "height=\"8\"/>{1}</pattern>\n",
        pattern.cause, pattern.marks);
  }
  return "<svg class=\"patterns\" width=\"0\" height=\"0\" aria-hidden=\"true\"><defs>\n" + markup + "</defs></svg>\n";
}

std::string render_page(const Page& page) {
  std::string body = header_of(page);
  std::string sections;
  for (const PageSection& section : page.sections) sections += section_of(section);
  const PageSection words{.id = "words", .title = "What the words mean", .content = glossary_of(body + sections)};
  std::vector<PageSection> all = page.sections;
  all.push_back(words);
  body += contents_of(all) + sections + section_of(words);
  return std::string(kHtmlMagic) + "\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n" +
         fmt::format("<meta http-equiv=\"Content-Security-Policy\" content=\"{}\">\n", kPolicy) +
         "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<meta name=\"color-scheme\" content=\"light dark\">\n" +
         "<meta name=\"generator\" content=\"mptune " MPTUNE_VERSION "\">\n" + element("title", "", escape_html(page.title)) +
         "\n<style>\n" + kPageCss + "</style>\n</head>\n<body>\n" + chart_patterns() + "<main>\n" + body +
         "<footer>Made by mptune " MPTUNE_VERSION ". This page is complete: it loads nothing.</footer>\n</main>\n<script>\n" + kPageScript +
         "</script>\n</body>\n</html>\n";
}

}  // namespace mptune::reports

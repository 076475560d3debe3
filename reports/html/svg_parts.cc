#include "reports/html/svg_parts.h"

#include <fmt/format.h>

#include "reports/html/markup.h"

namespace mptune::reports {
namespace {

std::string tooltip(const std::string& title) {
  return title.empty() ? "" : "<title>" + escape_html(title) + "</title>";
}

}  // namespace

std::string chart_svg(double height, const std::string& label, const std::string& content, const std::string& css_class) {
  return fmt::format("<svg class=\"{}\" width=\"100%\" height=\"{:.0f}\" role=\"img\" aria-label=\"{}\">\n{}</svg>\n", css_class, height,
                     escape_html(label), content);
}

std::string chart_rect(const std::string& css_class, double x, double width, double y, double height, const std::string& title) {
  return fmt::format("<rect class=\"{}\" x=\"{:.2f}%\" width=\"{:.2f}%\" y=\"{:.0f}\" height=\"{:.0f}\">{}</rect>\n", css_class, x, width,
                     y, height, tooltip(title));
}

std::string chart_dot(const std::string& css_class, double x, double y, const std::string& title) {
  return fmt::format("<circle class=\"{}\" cx=\"{:.2f}%\" cy=\"{:.1f}\" r=\"4.5\">{}</circle>\n", css_class, x, y, tooltip(title));
}

std::string chart_line(const std::string& css_class, double x1, double y1, double x2, double y2) {
  return fmt::format("<line class=\"{}\" x1=\"{:.2f}%\" y1=\"{:.1f}\" x2=\"{:.2f}%\" y2=\"{:.1f}\"/>\n", css_class, x1, y1, x2, y2);
}

std::string chart_text(double x, double y, const char* anchor, const std::string& text, const std::string& css_class) {
  return fmt::format("<text{} x=\"{:.2f}%\" y=\"{:.1f}\" text-anchor=\"{}\">{}</text>\n",
                     css_class.empty() ? "" : " class=\"" + css_class + "\"", x, y, anchor, escape_html(text));
}

std::string chart_legend(const std::vector<std::pair<std::string, std::string>>& entries) {
  std::string markup;
  for (const auto& [css_class, words] : entries) {
    markup += "<li><svg width=\"18\" height=\"12\" aria-hidden=\"true\"><rect class=\"" + css_class +
              "\" width=\"18\" height=\"12\"/></svg>" + escape_html(words) + "</li>\n";
  }
  return markup.empty() ? "" : "<ul class=\"legend\">\n" + markup + "</ul>\n";
}

}  // namespace mptune::reports

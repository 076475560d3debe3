#pragma once

#include <string>
#include <vector>

#include "reports/html/markup.h"

namespace mptune::reports {

/// A number of the answer.
struct PageFigure {
  std::string name;    ///< "step"
  std::string value;   ///< "301 ms"
  std::string detail;  ///< "95 % [299, 303] ms"
};

struct Page {
  std::string title;                ///< title of the window
  std::string subject;              ///< above the answer: "resnet50, batch 32, cpu:0 and cpu:1"
  std::string answer;               ///< one sentence
  std::vector<std::string> lead;    ///< sentences under it
  std::vector<std::string> alerts;  ///< what limits the answer
  std::vector<PageFigure> figures;
  std::vector<PageSection> sections;  ///< in order; those without content are left out
};

/// Returns the page as a file, with the words of the glossary that it uses.
[[nodiscard]] std::string render_page(const Page& page);

}  // namespace mptune::reports

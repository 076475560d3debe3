#include "reports/html/plan_sections.h"

#include <algorithm>

#include "profiler/base/index.h"
#include "profiler/base/text.h"
#include "reports/html/markup.h"
#include "reports/render/report_text.h"

namespace mptune::reports {

std::vector<std::string> stage_devices_text(const Plan& plan) {
  std::vector<std::string> all;
  for (const Stage& stage : plan.stages) {
    std::vector<std::string> devices;
    for (const int device : stage.devices) devices.push_back(plan.devices.at(as_index(device)));
    all.push_back(join(devices, " "));
  }
  return all;
}

std::string stage_table(const Plan& plan, const std::vector<std::vector<std::string>>& modules) {
  std::vector<HtmlRow> rows;
  for (const std::vector<std::string>& cells : stage_cells(plan, modules)) rows.emplace_back(cells.begin(), cells.end());
  std::vector<std::string> titles = stage_titles(plan);
  if (std::ranges::all_of(rows, [](const HtmlRow& row) { return row.back().text.empty(); })) {
    titles.pop_back();
    for (HtmlRow& row : rows) row.pop_back();
  }
  return html_table(titles, rows);
}

}  // namespace mptune::reports

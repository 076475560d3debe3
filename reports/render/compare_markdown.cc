#include "profiler/base/text.h"
#include "profiler/base/units.h"
#include "reports/render/compare_text.h"
#include "reports/render/compare_words.h"
#include "reports/render/markdown_parts.h"
#include "reports/render/style.h"
#include "reports/render/units.h"
#include "reports/values/shared_files.h"

namespace mptune::reports {
namespace {

std::string answer_of_comparison(const Comparison& comparison) {
  const std::string verdict = std::string("**") + to_string(comparison.verdict) + "**: ";
  if (!comparison.ratio) return verdict + escaped(comparison.reason) + "\n\n";
  return verdict + escaped(ratio_text(comparison)) + "\n\n" + escaped(reason_text(comparison)) + "\n\n";
}

std::string unlike_list(const Comparison& comparison) {
  std::vector<std::string> lines;
  for (const Unlike& thing : comparison.unlike) lines.push_back(text_of(thing));
  const std::string things = lines.empty() ? "" : "**Not alike, A -> B**\n\n" + list_of(lines);
  std::vector<std::string> warnings;
  for (const std::string& warning : warnings_of(comparison)) warnings.push_back("warning: " + warning);
  return things + list_of(warnings);
}

std::string sides_table(const Comparison& comparison) {
  return table_of({"", "what", "step"}, {{"A", join(comparison.a.names, ", "), step_text(comparison.a)},
                                         {"B", join(comparison.b.names, ", "), step_text(comparison.b)}});
}

std::string largest_table(const std::vector<LargestChange>& changes) {
  std::vector<MarkdownRow> rows;
  for (const LargestChange& change : changes) {
    const PartChange& part = change.part;
    rows.push_back({change.device, cause_in_words(part.part), format_seconds(part.a_s), format_seconds(part.b_s),
                    with_sign(part.difference_s()), part.ci95_s ? format_interval_seconds(*part.ci95_s) : "-", share_text(change.share)});
  }
  if (rows.empty()) return "Nothing changed on any device by more than noise, or by 0.05 % of the step.\n\n";
  return "What changed most:\n\n" + table_of({"device", "part", ">A", ">B", ">B - A", ">95 % of B - A", ">of the step"}, rows);
}

std::string folded(const std::string& title, const std::string& content) {
  return content.empty() ? "" : "<details><summary>" + title + "</summary>\n\n" + content + "</details>\n\n";
}

std::string device_rows(const DeviceChange& device) {
  std::vector<MarkdownRow> rows;
  for (const PartChange* part : shown_parts(device)) {
    rows.push_back({cause_in_words(part->part), format_seconds(part->a_s), format_seconds(part->b_s), change_text(*part, device),
                    part->ci95_s ? format_interval_seconds(*part->ci95_s) : "-"});
  }
  return escaped(device.name()) + ":\n\n" + table_of({"mean", ">A", ">B", ">B - A, of the step", ">95 % of B - A"}, rows);
}

std::string device_tables(const Comparison& comparison) {
  std::string text = comparison.all_devices ? device_rows(*comparison.all_devices) : "";
  for (const DeviceChange& device : comparison.devices) text += device.in_both() ? device_rows(device) : "";
  return text;
}

std::string not_measured_list(const Comparison& comparison) {
  std::vector<std::string> lines;
  for (const ComparedSide* side : {&comparison.a, &comparison.b})
    for (const std::string& line : unmeasured_lines(*side)) lines.push_back((side == &comparison.a ? "A: " : "B: ") + line);
  return lines.empty() ? "" : "Not measured:\n\n" + list_of(lines);
}

}  // namespace

std::string render_compared_markdown(const Comparison& comparison) {
  std::string text = answer_of_comparison(comparison) + unlike_list(comparison) + sides_table(comparison);
  if (!comparison.devices.empty()) text += largest_table(comparison.largest);
  if (comparison.plan_changes && !comparison.plan_changes->empty()) text += "Plans, A -> B:\n\n" + list_of(*comparison.plan_changes);
  text += not_measured_list(comparison) + folded("Every device and cause", device_tables(comparison));
  while (text.ends_with("\n\n")) text.pop_back();
  return finished({}, names_of_files(text));
}

}  // namespace mptune::reports

#include "reports/render/compare_ci.h"

#include <fmt/format.h>

#include "profiler/base/units.h"
#include "reports/render/compare_text.h"
#include "reports/render/compare_words.h"
#include "reports/render/style.h"
#include "reports/render/units.h"

namespace mptune::reports {
namespace {

std::string xml_text(const std::string& text) {
  std::string escaped;
  for (const char c : text) {
    if (c == '&')
      escaped += "&amp;";
    else if (c == '<')
      escaped += "&lt;";
    else if (c == '>')
      escaped += "&gt;";
    else if (c == '"')
      escaped += "&quot;";
    else  // XML has no other control characters
      escaped += static_cast<unsigned char>(c) >= ' ' || c == '\n' ? c : '?';
  }
  return escaped;
}

std::string answer_of(const Comparison& comparison) {
  return comparison.ratio ? ratio_text(comparison) : comparison.reason;
}

planner::Json benchmark(const std::string& name, double seconds, const std::optional<Interval>& range) {
  planner::Json entry = {{"name", "mptune: " + name}, {"unit", "ms"}, {"value", seconds * 1e3}};
  if (range) entry["range"] = format_interval_seconds(*range);
  return entry;
}

}  // namespace

std::string comparison_comment(const Comparison& comparison) {
  return std::string(kComparisonComment) + "\n\n" + render_compared_markdown(comparison);
}

std::string comparison_junit(const Comparison& comparison, bool fails_if_inconclusive) {
  const bool decided = comparison.verdict == Verdict::fast || comparison.verdict == Verdict::same || comparison.verdict == Verdict::slow;
  const bool fails = comparison.verdict == Verdict::slow || (!decided && fails_if_inconclusive);
  const std::string time = comparison.b.step_s ? fmt::format(" time=\"{:.6f}\"", comparison.b.step_s->median) : "";
  const std::string counts =
      fmt::format("tests=\"1\" failures=\"{}\" errors=\"0\" skipped=\"{}\"{}", fails ? 1 : 0, decided || fails ? 0 : 1, time);
  const std::string message = xml_text(std::string(to_string(comparison.verdict)) + ": " + answer_of(comparison));
  const std::string details = xml_text(render_compared(comparison, TextStyle()));
  std::string text = fmt::format("{} {}>\n  <testsuite name=\"mptune compare\" {}>\n", kJunitBegin, counts, counts);
  text += fmt::format("    <testcase classname=\"mptune.compare\" name=\"step of B against A\"{}>\n", time);
  if (fails)
    text += fmt::format("      <failure type=\"{}\" message=\"{}\">{}</failure>\n", to_string(comparison.verdict), message, details);
  if (!fails && !decided) text += fmt::format("      <skipped message=\"{}\"/>\n", message);
  if (!fails) text += fmt::format("      <system-out>{}</system-out>\n", details);
  return text + "    </testcase>\n  </testsuite>\n</testsuites>\n";
}

planner::Json comparison_benchmarks(const Comparison& comparison) {
  planner::Json list = planner::Json::array();
  if (!comparison.b.step_s) return list;
  list.push_back(benchmark("step", comparison.b.step_s->median, comparison.b.step_s->ci95));
  for (const DeviceChange& device : comparison.devices)
    for (const PartChange& part : device.parts)
      if (!device.b.empty() && (part.part == "compute" || part.part == "copy" || part.part == "idle"))
        list.push_back(benchmark(part.part + " on " + device.b, part.b_s, {}));
  return list;
}

}  // namespace mptune::reports

#include "reports/render/plan_file_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>

#include "planner/plan/plan_words.h"
#include "profiler/base/text.h"
#include "profiler/base/units.h"
#include "reports/render/report_text.h"
#include "reports/render/table.h"
#include "reports/render/units.h"

namespace mptune::reports {
namespace {

std::string step_line(const PlanFile& file) {
  std::vector<std::string> parts;
  if (file.measured)
    parts.push_back("measured " + format_measured(file.measured->step_s, file.measured->step_ci95_s,
                                                  static_cast<std::size_t>(std::max(0, file.measured->step_samples))));
  if (file.predicted) parts.push_back("predicted " + format_seconds(file.predicted->step_s));
  return parts.empty() ? "neither predicted nor measured" : "step: " + join(parts, "; ");
}

std::string peaks(const Plan& plan, const std::vector<std::int64_t>& bytes) {
  std::vector<std::string> parts;
  for (std::size_t d = 0; d < std::min(bytes.size(), plan.devices.size()); ++d)
    parts.push_back(plan.devices[d] + " " + format_bytes(bytes[d]));
  return join(parts, ", ");
}

}  // namespace

std::vector<std::string> plan_file_lines(const PlanFile& file) {
  std::vector<std::string> lines = {step_line(file)};
  if (file.measured && !file.measured->peak_bytes.empty()) lines.push_back("peak memory: " + peaks(file.plan, file.measured->peak_bytes));
  if (file.predicted && !file.predicted->peak_bytes.empty())
    lines.push_back("predicted peak memory: " + peaks(file.plan, file.predicted->peak_bytes));
  return lines;
}

std::string plan_file_sentence(const PlanFile& file) {
  std::string text = describe(file.plan);
  text.front() = static_cast<char>(std::toupper(static_cast<unsigned char>(text.front())));
  if (file.measured && !file.measured->speedup_over.empty()) {
    const Speedup& speedup = file.measured->speedup;
    return text + fmt::format(": measured {} times as fast as {}{}.", format_ratio(speedup.estimate), file.measured->speedup_over,
                              evidence_in_brackets(speedup));
  }
  if (file.measured) return text + ": measured " + format_seconds(file.measured->step_s) + " per step.";
  if (file.predicted) return text + ": predicted " + format_seconds(file.predicted->step_s) + " per step, not measured.";
  return text + ": neither predicted nor measured.";
}

std::vector<std::pair<std::string, std::string>> plan_file_facts(const PlanFile& file) {
  const std::vector<std::pair<std::string, std::string>> all = {{"created", file.created},
                                                                {"plan key", plan_key(file.plan)},
                                                                {"fingerprint of the model", file.fingerprint.model},
                                                                {"input", file.fingerprint.input},
                                                                {"devices", join(file.fingerprint.devices, ", ")},
                                                                {"LibTorch", file.fingerprint.libtorch},
                                                                {"CUDA", file.fingerprint.cuda},
                                                                {"study", file.study},
                                                                {"trial", file.trial < 0 ? "" : std::to_string(file.trial)}};
  std::vector<std::pair<std::string, std::string>> known;
  std::ranges::copy_if(all, std::back_inserter(known), [](const auto& fact) { return !fact.second.empty(); });
  return known;
}

std::string render_plan_file(const PlanFile& file, const TextStyle& style) {
  std::string text = hanging("", plan_file_sentence(file), style) + "\n" + render_stages(file.plan, file.modules, style) + "\n";
  for (const std::string& line : plan_file_lines(file)) text += hanging("", line, style);
  if (!file.alternatives.empty()) text += "\n" + heading(style, "Alternatives");
  for (const AlternativePlan& other : file.alternatives) text += hanging("", other.reason, style);
  text += "\n" + heading(style, "Made for");
  for (const auto& [name, value] : plan_file_facts(file)) text += hanging(pad_right(name, 26), value, style);
  return text;
}

}  // namespace mptune::reports

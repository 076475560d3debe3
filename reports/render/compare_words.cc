#include "reports/render/compare_words.h"

#include <fmt/format.h>

#include <algorithm>

#include "profiler/base/text.h"
#include "profiler/base/units.h"
#include "reports/render/units.h"
#include "reports/render/unmeasured.h"

namespace mptune::reports {
namespace {

/// A part less than this share of the step would be printed as 0.0 %.
constexpr double kLeastShown = 0.0005;
/// Where there are more medians, only the least and the largest are shown.
constexpr std::size_t kMostMedians = 8;

/// Returns a ratio with enough digits for its distance from 1: "1.343", "0.0474", "177.5".
std::string times(double ratio) {
  return ratio < 0.1 ? fmt::format("{:.3g}", ratio) : fmt::format("{:.{}f}", ratio, ratio < 10 ? 3 : ratio < 100 ? 2 : 1);
}

std::string part_text(const PartChange& part) {
  const bool busy = part.part == "compute" || part.part == "copy" || part.part == "overlap";
  return cause_in_words(part.part) + (busy ? "" : " idle");
}

bool of_two_machines(const Comparison& comparison) {
  return std::ranges::any_of(comparison.unlike, is_of_machine, &Unlike::what);
}

bool has(const Comparison& comparison, Unlike::What what) {
  return std::ranges::find(comparison.unlike, what, &Unlike::what) != comparison.unlike.end();
}

std::string medians_text(const std::vector<MedianEstimate>& recordings) {
  std::vector<double> medians;
  for (const MedianEstimate& recording : recordings) medians.push_back(recording.median);
  if (medians.size() > kMostMedians) {
    const auto [least, most] = std::ranges::minmax(medians);
    return "of " + format_interval_seconds({least, most});
  }
  const auto [texts, unit] = format_alike(medians);
  return "of " + join(texts, ", ") + " " + unit;
}

}  // namespace

std::string with_sign(double seconds) {
  return (seconds > 0 ? "+" : "") + format_seconds(seconds);
}

std::string share_text(double share) {
  return (share > 0 ? "+" : "") + format_percent(share);
}

std::string sentence(const LargestChange& change) {
  return change.device + ": " + part_text(change.part) + " " + with_sign(change.part.difference_s()) + ", " + share_text(change.share) +
         " of the step";
}

std::string sentence(const MainCause& cause) {
  std::string text = part_text(cause.part) + " on " + cause.device + " " + with_sign(cause.part.difference_s());
  if (cause.part.ci95_s) text += ", 95 % " + format_interval_seconds(*cause.part.ci95_s);
  return text + fmt::format(", {:.0f} % of the difference", 100 * cause.share);
}

std::string reason_text(const Comparison& comparison) {
  return comparison.reason + (comparison.cause ? "; mostly " + sentence(*comparison.cause) : "");
}

std::string ratio_text(const Comparison& comparison) {
  if (!comparison.ratio) return "";
  std::string text = "B takes " + times(*comparison.ratio) + " times as long as A";
  if (comparison.ratio_ci95) text += ", 95 % [" + times(comparison.ratio_ci95->low) + ", " + times(comparison.ratio_ci95->high) + "]";
  return text;
}

std::string text_of(const Unlike& thing) {
  if (thing.what == Unlike::What::model_content) return "model: of the same name, but not the same";
  return std::string(name_of(thing.what)) + ": " + thing.a + " -> " + thing.b;
}

std::vector<std::string> warnings_of(const Comparison& comparison) {
  std::vector<std::string> warnings;
  if (of_two_machines(comparison)) warnings.emplace_back("the comparison is across machines or versions, not of the two programs alone");
  const auto rate_a = samples_per_second(comparison.a), rate_b = samples_per_second(comparison.b);
  if (has(comparison, Unlike::What::batch) && rate_a && rate_b) {
    warnings.push_back("the batches differ: B makes " + times(*rate_b / *rate_a) + " times as many samples per second as A, " +
                       rate_text(*rate_b) + " against " + rate_text(*rate_a));
  }
  if (comparison.ratio_ci95 && !comparison.drift_covered) {
    warnings.push_back(std::string("what drifts between the two is not in the interval") +
                       (comparison.kind == "traces" ? ": record each side several times and use --with" : ""));
  }
  return warnings;
}

std::string rate_text(double samples_per_second) {
  return fmt::format("{:.{}f} samples/s", samples_per_second, samples_per_second < 10 ? 2 : samples_per_second < 100 ? 1 : 0);
}

std::string step_text(const ComparedSide& side) {
  if (!side.step_s) return "no step time";
  if (side.predicted) return "predicted step " + format_seconds(side.step_s->median);
  const auto rate = samples_per_second(side);
  const std::string samples = rate ? ", " + rate_text(*rate) : "";
  if (side.recordings.size() < 2) return "step " + format_measured(side.step_s->median, side.step_s->ci95, side.step_s->samples) + samples;
  return fmt::format("step {}, {} recordings {}{}", format_seconds(side.step_s->median), side.recordings.size(),
                     medians_text(side.recordings), samples);
}

std::vector<std::string> unmeasured_lines(const ComparedSide& side) {
  std::vector<std::string> lines;
  for (const tuner::UnmeasuredPlan& plan : side.unmeasured.baselines) lines.push_back(plan.name + ": " + unmeasured_text(plan));
  for (const FailedLines& failed : failed_lines(side.unmeasured.candidates, Listing::few)) lines.push_back(failed.cause + " failed");
  return lines;
}

std::string change_text(const PartChange& part, const DeviceChange& device) {
  return part.is_clear() ? with_sign(part.difference_s()) + ", " + share_text(device.share(part)) : "no clear change";
}

std::vector<const PartChange*> shown_parts(const DeviceChange& device) {
  const double window = std::max(device.parts.front().a_s, device.parts.front().b_s);
  std::vector<const PartChange*> shown;
  for (const auto* parts : {&device.parts, &device.idle})
    for (const PartChange& part : *parts)
      if (std::max(part.a_s, part.b_s) >= kLeastShown * window) shown.push_back(&part);
  return shown;
}

}  // namespace mptune::reports

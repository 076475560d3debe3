#include "reports/html/answer.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "planner/search/baselines.h"
#include "profiler/base/text.h"
#include "reports/html/markup.h"
#include "reports/render/answer_text.h"
#include "reports/render/recommendation_text.h"
#include "reports/render/report_text.h"
#include "reports/render/units.h"

namespace mptune::reports {
namespace {

std::string evidence(const Speedup& speedup, const std::string& over) {
  const std::string sure = evidence_in_brackets(speedup);
  switch (speedup.verdict) {
    case Verdict::fast:
    case Verdict::slow:
      return fmt::format("{} times as fast as {}", format_ratio(speedup.estimate), over) + sure;
    case Verdict::same:
      return "as fast as " + over + " within 2 %" + sure;
    case Verdict::ambiguous:
      return "no proven difference to " + over + sure;
    case Verdict::unknown:
      break;
  }
  return "measured too seldom to be compared with " + over;
}

}  // namespace

std::string times_text(double ratio) {
  return format_ratio(ratio) + "x";
}

std::string baseline_words(const std::string& name) {
  constexpr std::array<std::pair<const char*, const char*>, 8> kWords = {
      {{planner::kSingleDeviceBaseline, "one device"},
       {planner::kAllCoresBaseline, "all cores as one device"},
       {planner::kAllCoresChannelsLastBaseline, "all cores, channels_last"},
       {planner::kNaiveBaseline, "naive model parallelism"},
       {planner::kPipelineBaseline, "the default pipeline"},
       {planner::kDataParallelBaseline, "data parallel"},
       {planner::kCurrentBaseline, "your present plan"},
       {planner::kAskedBaseline, "the plan that was asked for"}}};
  for (const auto& [known, words] : kWords)
    if (name == known) return words;
  return name;
}

std::vector<const tuner::BaselineResult*> compared_baselines(const tuner::Recommendation& all) {
  constexpr std::size_t kMost = 2;
  std::vector<const tuner::BaselineResult*> baselines = tuner::leading_baselines(all);
  baselines.resize(std::min(baselines.size(), kMost));
  return baselines;
}

std::string verdict_detail(const Speedup& speedup) {
  const std::string verdict = to_string(speedup.verdict);
  if (speedup.ci95) return fmt::format("95 % [{}, {}], {}", format_ratio(speedup.ci95->low), format_ratio(speedup.ci95->high), verdict);
  if (!speedup.error_rate) return verdict;
  return fmt::format("{} to {} in {}, {}", format_ratio(speedup.range->low), format_ratio(speedup.range->high),
                     counted(static_cast<std::int64_t>(speedup.pairs), "pair"), verdict);
}

std::string answer_sentence(const StudyReport& report) {
  const tuner::Recommendation& all = report.recommendation;
  const std::string& head = all.recommended.description;
  const bool one_device = std::ranges::any_of(all.baselines, [&](const tuner::BaselineResult& baseline) {
    return baseline.name == planner::kSingleDeviceBaseline && baseline.trial.plan_key == all.recommended.trial.plan_key;
  });
  const std::string begin = is_provisional(report) ? "provisional: " : "";
  if (one_device && !all.advice.empty()) return sentence_of(begin + text_of(all.advice.front()));
  std::vector<std::string> compared;
  for (const tuner::BaselineResult* other : compared_baselines(all))
    compared.push_back(evidence(other->speedup, baseline_words(other->name)));
  return sentence_of(begin + head + (compared.empty() ? "" : ": " + join(compared, "; ")));
}

}  // namespace mptune::reports

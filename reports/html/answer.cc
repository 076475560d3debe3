#include "reports/html/answer.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "reports/html/markup.h"
#include "reports/render/recommendation_text.h"

namespace mptune::reports {
namespace {

std::string evidence(const Speedup& speedup, const std::string& over) {
  const std::string interval = fmt::format(" (95 % interval {:.2f} to {:.2f})", speedup.ci95.low, speedup.ci95.high);
  switch (speedup.verdict) {
    case Verdict::fast:
    case Verdict::slow:
      return fmt::format("{:.2f} times as fast as {}", speedup.estimate, over) + interval;
    case Verdict::same:
      return "as fast as " + over + " within 2 %" + interval;
    case Verdict::ambiguous:
      return "no proven difference to " + over + interval;
    case Verdict::unknown:
      break;
  }
  return "measured too seldom to be compared with " + over;
}

}  // namespace

std::string times_text(double ratio) {
  return fmt::format("{:.2f}x", ratio);
}

std::string baseline_words(const std::string& name) {
  constexpr std::array<std::pair<const char*, const char*>, 8> kWords = {{{kSingleDeviceBaseline, "one device"},
                                                                          {kAllCoresBaseline, "all cores as one device"},
                                                                          {kAllCoresChannelsLastBaseline, "all cores, channels_last"},
                                                                          {kNaiveBaseline, "naive model parallelism"},
                                                                          {kPipelineBaseline, "the default pipeline"},
                                                                          {kDataParallelBaseline, "data parallel"},
                                                                          {kCurrentBaseline, "your present plan"},
                                                                          {kAskedBaseline, "the plan that was asked for"}}};
  for (const auto& [known, words] : kWords)
    if (name == known) return words;
  return name;
}

const tuner::BaselineResult* compared_baseline(const tuner::Recommendation& all) {
  const tuner::BaselineResult* best = nullptr;
  for (const tuner::BaselineResult& baseline : all.baselines) {
    if (baseline.trial.plan_key == all.recommended.trial.plan_key || baseline.step_s <= 0) continue;
    if (baseline.name == kSingleDeviceBaseline) return &baseline;
    if (best == nullptr || baseline.step_s < best->step_s) best = &baseline;
  }
  return best;
}

std::string answer_sentence(const StudyReport& report) {
  const tuner::Recommendation& all = report.recommendation;
  const std::string& head = all.recommended.description;
  const tuner::BaselineResult* other = compared_baseline(all);
  const bool one_device = std::ranges::any_of(all.baselines, [&](const tuner::BaselineResult& baseline) {
    return baseline.name == kSingleDeviceBaseline && baseline.trial.plan_key == all.recommended.trial.plan_key;
  });
  if (one_device && !all.advice.empty()) return sentence_of(text_of(all.advice.front()));
  if (other == nullptr) return sentence_of(head);
  return sentence_of(head + ": " + evidence(other->speedup, baseline_words(other->name)));
}

}  // namespace mptune::reports

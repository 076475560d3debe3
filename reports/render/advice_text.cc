#include "reports/render/advice_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string_view>

#include "profiler/base/text.h"
#include "profiler/base/units.h"

namespace mptune::reports {
namespace {

constexpr const char* kQuiet = "keep other programs off these cores (taskset), and fix the clock rate";

std::string numbers(const std::vector<int>& values) {
  std::vector<std::string> texts;
  for (const int value : values) texts.push_back(std::to_string(value));
  return join(texts, ",");
}

struct ActionWords {
  std::string operator()(const planner::EvenStage& remedy) const {
    return fmt::format("move layers off stage {}, the longest, with --cuts (worth if it took the mean of the stages)", remedy.stage);
  }
  std::string operator()(const planner::EvenDevice& remedy) const {
    return fmt::format("{} is slower than the others of its stage: {}, or leave it out of --devices (worth if it were as fast as they)",
                       remedy.device, kQuiet);
  }
  std::string operator()(const planner::InstantCopies& remedy) const {
    return fmt::format(
        "copies from {} to {} are waited for: cut where less is sent (--cuts), or split into fewer --microbatches (worth if "
        "they took no time)",
        remedy.source, remedy.destination);
  }
  std::string operator()(const planner::EvenSteps&) const {
    return std::string("steps differ in length: ") + kQuiet + " (worth if each took as long as the median one)";
  }
  std::string operator()(const planner::PromptHosts&) const {
    return "devices wait for their hosts to start work: use fewer, larger --microbatches (worth if no device waited)";
  }
  std::string operator()(const planner::MoveLayer& remedy) const {
    return fmt::format("--cuts {}: layer {} moves to stage {} (simulated)", numbers(remedy.cuts), remedy.layer, remedy.to_stage);
  }
  std::string operator()(const planner::OtherMicrobatches& remedy) const {
    return fmt::format("--microbatches {} instead of {} (simulated)", remedy.count, remedy.now);
  }
  std::string operator()(const planner::SaveActivations&) const { return "--recompute none: activations fit into memory (simulated)"; }
  std::string operator()(const planner::FasterLinks&) const {
    return "links of twice the bandwidth; with these links, --cuts where less is sent (simulated)";
  }
};

bool is_option(const planner::Advice& advice) {
  return std::holds_alternative<planner::MoveLayer>(advice.remedy) || std::holds_alternative<planner::OtherMicrobatches>(advice.remedy) ||
         std::holds_alternative<planner::SaveActivations>(advice.remedy);
}

}  // namespace

const planner::Advice* best_change(const std::vector<planner::Advice>& advice) {
  if (advice.empty()) return nullptr;
  const auto option = std::ranges::find_if(advice, is_option);
  return option == advice.end() ? &advice.front() : &*option;
}

std::string action_of(const planner::Advice& advice) {
  return std::visit(ActionWords{}, advice.remedy);
}

std::string text_of(const planner::Advice& advice) {
  return fmt::format("{}: saves {}, {:.1f} % of the step", action_of(advice), format_seconds(advice.saves_s), advice.saves_percent);
}

std::string remedy_of_cause(const std::string& cause) {
  static constexpr std::array<std::pair<std::string_view, std::string_view>, 9> kRemedies = {
      {{"host", "use fewer, larger --microbatches, so that each device gets more work at once"},
       {"copy_wait", "cut where less is sent (--cuts), or hide copies behind work with more --microbatches"},
       {"sync", "calls on the host wait for the device: take them out of the step"},
       {"structural", "more --microbatches, or --schedule interleaved --virtual 2; what then remains is the price of a pipeline"},
       {"imbalance", "even out the stages with --cuts, as plan does with the profile of this model"},
       {"straggler", "a replica is slower than the others: keep other programs off its cores (taskset)"},
       {"jitter", "keep other programs off these cores (taskset), and fix the clock rate"},
       {"profiler", "the price of recording: timed steps run without it"},
       {"unexplained", "no cause was recorded: record again on a quiet machine, more steps (--steps)"}}};
  const auto known = std::ranges::find(kRemedies, std::string_view(cause), &std::pair<std::string_view, std::string_view>::first);
  return known == kRemedies.end() ? "" : std::string(known->second);
}

}  // namespace mptune::reports

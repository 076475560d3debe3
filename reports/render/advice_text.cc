#include "reports/render/advice_text.h"

#include <fmt/format.h>

namespace mptune::reports {
namespace {

struct RemedyWords {
  std::string operator()(const planner::EvenStage& remedy) const {
    return fmt::format("stage {} is long: if it took the mean of the stages", remedy.stage);
  }
  std::string operator()(const planner::EvenDevice& remedy) const {
    return remedy.device + " is slow: if it were as fast as the other devices of its stage";
  }
  std::string operator()(const planner::InstantCopies& remedy) const {
    return "copies from " + remedy.source + " to " + remedy.destination + " are waited for: if they took no time";
  }
  std::string operator()(const planner::EvenSteps&) const { return "steps differ: if each took as long as the median one"; }
  std::string operator()(const planner::PromptHosts&) const { return "devices wait for their hosts: if none did"; }
  std::string operator()(const planner::MoveLayer& remedy) const {
    return fmt::format("simulated: if layer {} were on stage {}", remedy.layer, remedy.to_stage);
  }
  std::string operator()(const planner::OtherMicrobatches& remedy) const {
    return fmt::format("simulated: with {} micro-batches instead of {}", remedy.count, remedy.now);
  }
  std::string operator()(const planner::SaveActivations&) const {
    return "simulated: if activations were saved instead of recomputed, which fits into memory";
  }
  std::string operator()(const planner::FasterLinks&) const { return "simulated: with links of twice the bandwidth"; }
};

}  // namespace

std::string text_of(const planner::Advice& advice) {
  return std::visit(RemedyWords{}, advice.remedy) + fmt::format(", the step would be {:.1f} % shorter", advice.saves_percent);
}

}  // namespace mptune::reports

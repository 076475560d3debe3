#include "mptune/reports/render/advice_text.h"

#include <fmt/format.h>

namespace mptune {
namespace {

struct RemedyWords {
  std::string operator()(const EvenStage& remedy) const {
    return fmt::format("stage {} is long: if it took as long as the mean of the stages", remedy.stage);
  }
  std::string operator()(const EvenDevice& remedy) const {
    return remedy.device + " is slow: if it were as fast as the other devices of its stage";
  }
  std::string operator()(const InstantCopies& remedy) const {
    return "copies from " + remedy.source + " to " + remedy.destination + " are waited for: if they took no time";
  }
  std::string operator()(const EvenSteps&) const { return "steps differ: if each were like the median one"; }
  std::string operator()(const PromptHosts&) const { return "hosts are late: if no device waited for its host"; }
  std::string operator()(const MoveLayer& remedy) const {
    return fmt::format("moving layer {} to stage {} (simulated)", remedy.layer, remedy.to_stage);
  }
  std::string operator()(const OtherMicrobatches& remedy) const {
    return fmt::format("m = {} micro-batches instead of {} (simulated)", remedy.count, remedy.now);
  }
  std::string operator()(const SaveActivations&) const {
    return "keeping activations instead of recomputing them, which memory allows (simulated)";
  }
  std::string operator()(const FasterLinks&) const { return "links of twice the bandwidth (simulated)"; }
};

}  // namespace

std::string text_of(const Advice& advice) {
  return std::visit(RemedyWords{}, advice.remedy) + fmt::format(", -{:.1f} %", advice.saves_percent);
}

}  // namespace mptune

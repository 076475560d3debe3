#pragma once

#include <string>
#include <vector>

#include "tuner/study/recommend/recommend.h"

namespace mptune::reports {

/// The functions put into words what a recommendation says, in one clause or sentence each, without a full stop: "fastest of 9 plans
/// benchmarked interleaved".
[[nodiscard]] std::string text_of(const tuner::Reason& reason);
/// Returns "data parallel is fastest here; the best pipeline (...) is 8 % slower and needs 45 % less memory per device".
[[nodiscard]] std::string text_of(const tuner::PlanAdvice& advice);
/// Returns "only 8 interleaved rounds, 10 are wanted: give a larger --budget".
[[nodiscard]] std::string text_of(const tuner::Warning& warning);
/// Returns "needs at least 3 devices; 2 available"; "" where the kind was measured.
[[nodiscard]] std::string text_of(const tuner::WhyNot& reason);
/// Returns "pipeline is fastest here, 1.73 times as fast as one device; next is one device, 73 % slower".
[[nodiscard]] std::string text_of(const tuner::KindAdvice& advice);

template <class Fact>
[[nodiscard]] std::vector<std::string> texts_of(const std::vector<Fact>& facts) {
  std::vector<std::string> texts;
  for (const Fact& fact : facts) texts.push_back(text_of(fact));
  return texts;
}

}  // namespace mptune::reports

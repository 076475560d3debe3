#include "reports/quality_text.h"

#include <array>
#include <cstdio>

namespace mptune::reports {
namespace {

const char* what_happened(profiler::QualityObjection::Loss loss) {
  switch (loss) {
    case profiler::QualityObjection::Loss::dropped:
      return "were dropped or have no times";
    case profiler::QualityObjection::Loss::unmatched:
      return "have no counterpart: a launch, a send or a receive";
    case profiler::QualityObjection::Loss::out_of_window:
      break;
  }
  return "lie outside of the steps";
}

}  // namespace

std::string text_of(const profiler::QualityObjection& objection) {
  std::array<char, 48> share{};
  std::snprintf(share.data(), share.size(), "%.1f %% of all events ", 100 * objection.share);
  return share.data() + std::string(what_happened(objection.loss));
}

}  // namespace mptune::reports

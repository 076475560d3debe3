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
    case profiler::QualityObjection::Loss::implausible:
      break;
  }
  return "lie outside of the steps";
}

const char* what_is_wrong(ImplausibleTime::Fault fault) {
  switch (fault) {
    case ImplausibleTime::Fault::backward:
      return "ends before it starts";
    case ImplausibleTime::Fault::far:
      return "lies over 14 months from the other work";
    case ImplausibleTime::Fault::alone:
      return "makes the recording over twice as long on its own";
    case ImplausibleTime::Fault::too_long:
      break;
  }
  return "lasts over most of the time while its stream runs other work";
}

}  // namespace

const char* fault_name(ImplausibleTime::Fault fault) {
  switch (fault) {
    case ImplausibleTime::Fault::backward:
      return "backward";
    case ImplausibleTime::Fault::far:
      return "far";
    case ImplausibleTime::Fault::alone:
      return "alone";
    case ImplausibleTime::Fault::too_long:
      break;
  }
  return "too_long";
}

std::string text_of(const ImplausibleTime& record) {
  return record.what + " on " + record.where + " " + what_is_wrong(record.fault) + " (" + record.times + ")";
}

std::string text_of(const profiler::QualityObjection& objection) {
  if (objection.record) return text_of(*objection.record);
  std::array<char, 48> share{};
  std::snprintf(share.data(), share.size(), "%.1f %% of all events ", 100 * objection.share);
  return share.data() + std::string(what_happened(objection.loss));
}

}  // namespace mptune::reports

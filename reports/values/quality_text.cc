#include "reports/values/quality_text.h"

#include <array>
#include <cstdio>

namespace mptune::reports {
namespace {

const char* what_happened(profiler::QualityObjection::Loss loss) {
  switch (loss) {
    case profiler::QualityObjection::Loss::dropped:
      return "were dropped or have no times";
    case profiler::QualityObjection::Loss::zero_stamped:
      return "have no times: the profiler stamped them 0";
    case profiler::QualityObjection::Loss::unmatched:
      return "have no counterpart: a launch, a send, a receive or the action before";
    case profiler::QualityObjection::Loss::ambiguous:
      return "overlap work of another process under the same device number: whether it is one device or several is not known";
    case profiler::QualityObjection::Loss::unmatched_time:
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
    case ImplausibleTime::Fault::overrun:
      return "ends after the next record of its stream starts";
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
    case ImplausibleTime::Fault::overrun:
      return "overrun";
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
  if (objection.loss == profiler::QualityObjection::Loss::unmatched_time) {
    std::snprintf(share.data(), share.size(), "%.1f %% of the devices' time ", 100 * objection.share);
    return share.data() + std::string("is in communications without a counterpart in the files: how much of it is waiting is not known");
  }
  std::snprintf(share.data(), share.size(), "%.1f %% of all events ", 100 * objection.share);
  return share.data() + std::string(what_happened(objection.loss));
}

const char* remedy_of(const profiler::QualityObjection& objection) {
  switch (objection.loss) {
    case profiler::QualityObjection::Loss::unmatched_time:
      return "give the files of all ranks, recorded with a PyTorch that describes its collectives (2.3 or newer)";
    case profiler::QualityObjection::Loss::ambiguous:
      return "give one file of each process, or an export that says which GPU each means (TARGET_INFO_CUDA_DEVICE)";
    case profiler::QualityObjection::Loss::unmatched:
      return "give the files of all ranks, or record again, fewer steps at a time";
    default:
      return "record again, fewer steps at a time";
  }
}

}  // namespace mptune::reports

#pragma once

#include <string>

#include "profiler/analyze/quality_objection.h"

namespace mptune::reports {

/// "kernel 'gemm' on cuda:0, stream 7 ends before it starts (start 5000, end 4000 [ns])".
[[nodiscard]] std::string text_of(const ImplausibleTime& record);
/// The word of JSON: "backward".
[[nodiscard]] const char* fault_name(ImplausibleTime::Fault fault);

/// "30.0 % of all events were dropped or have no times", or the text of its record. Not in render/, because comparison.h uses it as the
/// reason of a verdict.
[[nodiscard]] std::string text_of(const profiler::QualityObjection& objection);
/// What to do about it.
[[nodiscard]] const char* remedy_of(const profiler::QualityObjection& objection);

}  // namespace mptune::reports

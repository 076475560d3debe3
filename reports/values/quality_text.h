#pragma once

#include <string>

#include "profiler/trace/analyze/quality_objection.h"

namespace mptune::reports {

/// Describes the record: "kernel 'gemm' on cuda:0, stream 7 ends before it starts (start 5000, end 4000 [ns])".
[[nodiscard]] std::string text_of(const ImplausibleTime& record);
/// Returns the word that JSON has for a fault: "backward".
[[nodiscard]] const char* fault_name(ImplausibleTime::Fault fault);

/// Returns "30.0 % of all events were dropped or have no times", or the text of the objection's record. It is not in render/, because
/// comparison.h uses it as the reason of a verdict.
[[nodiscard]] std::string text_of(const profiler::QualityObjection& objection);
/// Says what to do about the objection.
[[nodiscard]] const char* remedy_of(const profiler::QualityObjection& objection);

}  // namespace mptune::reports

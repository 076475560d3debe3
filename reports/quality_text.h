#pragma once

#include <string>

#include "profiler/analyze/quality_objection.h"

namespace mptune::reports {

/// "30.0 % of all events were dropped or have no times". Not in render/, because comparison.h uses it as the reason of a verdict.
[[nodiscard]] std::string text_of(const profiler::QualityObjection& objection);

}  // namespace mptune::reports

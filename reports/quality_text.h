#pragma once

#include <string>

#include "mptune/profiler/analyze/quality_objection.h"

namespace mptune {

/// "30.0 % of all events were dropped or have no times". Beside comparison.h, which gives it as the reason of a verdict.
[[nodiscard]] std::string text_of(const QualityObjection& objection);

}  // namespace mptune

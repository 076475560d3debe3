#pragma once

#include <string>

#include "profiler/base/sample_range.h"

namespace mptune {

/// Returns "1 to 63", "at least 2" or "8".
[[nodiscard]] std::string text_of(const SampleRange& samples);

}  // namespace mptune

#pragma once

#include <string>

#include "profiler/base/sample_range.h"

namespace mptune {

/// "1 to 63", "at least 2", "8".
[[nodiscard]] std::string text_of(const SampleRange& samples);

}  // namespace mptune

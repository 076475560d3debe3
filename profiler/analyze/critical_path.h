#pragma once

#include <cstdint>
#include <vector>

#include "mptune/profiler/analyze/step_work.h"

namespace mptune {

/// One stretch of a step's critical path: no part of the step could have ended earlier without it being shorter.
struct CriticalPart {
  enum class Kind : std::uint8_t { work, copy, gap };
  Kind kind = Kind::work;
  int work = -1;  ///< index into StepWork::works; of a gap, the work behind it, -1 for the gap that ends the step
  Nanoseconds time{0};
  bool operator==(const CriticalPart&) const = default;
};

/// From the start of the step to its end, found backwards: from the work that ends last to the producer that ended last, and so on.
/// Gaps are where the next work could have run, or was not bound to run earlier by anything the trace holds. The parts sum to the window
/// exactly; empty for a step without work.
[[nodiscard]] std::vector<CriticalPart> critical_path(const StepWork& step);

}  // namespace mptune

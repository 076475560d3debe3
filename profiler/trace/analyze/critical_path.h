#pragma once

#include <cstdint>
#include <vector>

#include "profiler/trace/analyze/step_work.h"

namespace mptune::profiler {

/// One part of a step's critical path. The step can end earlier only if parts of the path become shorter.
struct CriticalPart {
  enum class Kind : std::uint8_t { work, copy, gap };
  Kind kind = Kind::work;
  int work = -1;  ///< index into StepWork::works; for a gap: the work that follows it, -1 at the end of the step
  Nanoseconds time{0};
  bool operator==(const CriticalPart&) const = default;
};

/// Returns the critical path from the start of the step to its end; the parts sum to the window exactly. Empty for a step without work. It
/// is found backwards: from the work that ends last to its producer that ended last, and so on.
/// A gap is time in which the next work could already have run, as far as the trace's edges tell.
[[nodiscard]] std::vector<CriticalPart> critical_path(const StepWork& step);

}  // namespace mptune::profiler

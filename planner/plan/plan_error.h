#pragma once

#include <optional>

#include "profiler/base/error.h"

namespace mptune::planner {

/// Thrown where there is no plan as asked for, or where it can't be predicted: choices exclude each other, a plan (of a file, too) breaks a
/// rule, the profile lacks what the plan needs, or a search would be too large. Faults of machines, and files that can't be read, are of
/// other classes.
class PlanError : public Error {
 public:
  using Error::Error;
};

/// Returns what `make` returns; nullopt where no plan can be what it asks for. Other errors pass through.
template <class Make>
[[nodiscard]] auto if_possible(const Make& make) -> std::optional<decltype(make())> {
  try {
    return make();
  } catch (const PlanError&) {
    return std::nullopt;
  }
}

}  // namespace mptune::planner

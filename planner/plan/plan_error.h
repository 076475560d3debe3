#pragma once

#include <optional>

#include "profiler/base/error.h"

namespace mptune::planner {

/// Thrown where no plan can be what is asked for: choices exclude each other, a plan breaks a rule, or a search would be too large. Errors
/// of files, profiles and machines are of other classes.
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

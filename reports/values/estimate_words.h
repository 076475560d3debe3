#pragma once

#include <string>
#include <vector>

namespace mptune::reports {

/// Returns what an estimated profile takes for granted, a clause each; nothing for "", a measured profile.
[[nodiscard]] std::vector<std::string> estimate_assumptions(const std::string& hardware);

}  // namespace mptune::reports

#pragma once

#include <string>
#include <vector>

namespace CLI {
class Option;
}

namespace mptune::reports {

/// Stands among the values of an option that names of files complete.
inline constexpr const char* kFileValue = "FILE";

/// Says what may stand after an option, or in the place of an argument: fixed words, and kFileValue where a path may stand. Completion
/// offers them; nothing is refused here. Call it once for an option. Words hold no blank and no '|'.
void offer_values(CLI::Option& option, const std::vector<std::string>& values);
/// Returns what offer_values() said; empty where it was not called.
[[nodiscard]] std::vector<std::string> values_of(CLI::Option& option);

}  // namespace mptune::reports

#pragma once

#include <string>
#include <vector>

namespace CLI {
class Option;
}

namespace mptune::reports {

/// Among the values of an option: names of files complete it.
inline constexpr const char* kFileValue = "FILE";

/// Says what may stand behind an option, or in the place of an argument: fixed words, and kFileValue where a path may. Completion offers
/// them; nothing is refused here. Once for an option. Words hold no blank and no '|'.
void offer_values(CLI::Option& option, const std::vector<std::string>& values);
/// What offer_values() said; empty where it was not called.
[[nodiscard]] std::vector<std::string> values_of(CLI::Option& option);

}  // namespace mptune::reports

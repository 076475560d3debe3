#include "reports/cli/program/option_values.h"

#include <CLI/CLI.hpp>

#include "profiler/base/text.h"

namespace mptune::reports {

// They are kept with the option, as the name of a validator that accepts everything: CLI11 prints a validator's description, not its name.
void offer_values(CLI::Option& option, const std::vector<std::string>& values) {
  option.check(CLI::Validator([](std::string&) { return std::string(); }, "", join(values, "|")));
}

std::vector<std::string> values_of(CLI::Option& option) {
  try {
    return split(option.get_validator(0)->get_name(), '|');
  } catch (const CLI::OptionNotFound&) {
    return {};
  }
}

}  // namespace mptune::reports

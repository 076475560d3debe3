#pragma once

#include <string>

#include "reports/cli/options/options.h"

namespace CLI {
class App;
}

namespace mptune::reports {

struct Session;

/// What `mptune profile MODEL --estimate HARDWARE` was given.
struct EstimateCommand {
  ModelOptions model;
  StepOptions step;
  OutputOptions output;
  std::string hardware;
  std::string refused;  ///< an option that was given and that an estimate does not take; "" for none
};

/// Adds --estimate.
void add_estimate_option(CLI::App& command, std::string& hardware);
/// Writes a profile that is estimated for a kind of GPU, without running the model. Returns the exit code. Throws Error.
[[nodiscard]] int run_estimate(const EstimateCommand& command, const Session& session);

}  // namespace mptune::reports

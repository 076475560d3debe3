#pragma once

#include <string>

#include "reports/cli/session.h"

namespace CLI {
class App;
}

namespace mptune::reports {

/// The file of defaults: `mptune.toml` in `folder` or the nearest folder above it that has one, no higher than a folder with `.git`; else
/// `config_home`/mptune/mptune.toml. "" if there is none.
[[nodiscard]] std::string find_config(const std::string& folder, const std::string& config_home);

/// Sets options of `command` that are in the file of defaults and not on the command line, where the command measures on this machine.
/// Returns "defaults from PATH: devices, budget", or "" if nothing was set. Throws Error (usage) for a file that
/// can't be read or holds anything that is no default.
///
///     devices = ["cpu:0", "cpu:1"]     # or "cpu:0,cpu:1"
///     memory = "2GiB"
///     link = "12GB/s,10us"
///     budget = "10min"
[[nodiscard]] std::string apply_config(CLI::App& command, const GlobalOptions& options);

}  // namespace mptune::reports

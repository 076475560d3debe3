#pragma once

#include <string>
#include <vector>

#include "profiler/base/error.h"
#include "reports/cli/program/session.h"

namespace CLI {
class App;
}

namespace mptune::reports {

/// Returns the file of defaults: `mptune.toml` in `folder` or the nearest folder above it that has one, no higher than a folder with
/// `.git`; else `config_home`/mptune/mptune.toml. "" if there is none.
[[nodiscard]] std::string find_config(const std::string& folder, const std::string& config_home);

/// A value of the file that takes the place of an option.
struct UsedDefault {
  std::string key;    ///< "devices" for the option --devices
  std::string value;  ///< in the form of the option: "cpu:0,cpu:1"
  std::string place;  ///< "devices in /home/me/mptune.toml:2"
};

/// What was taken from a file of defaults.
struct UsedDefaults {
  std::string path;
  std::vector<UsedDefault> values;
};

/// Sets options of `command` that are in the file of defaults and not on the command line, where the command measures on this machine.
/// Throws Error (usage) for a file that can't be read or holds anything that is not a default.
///
///     devices = ["cpu:0", "cpu:1"]     # or "cpu:0,cpu:1"
///     memory = "2GiB"
///     link = "12GB/s,10us"
///     budget = "10min"
[[nodiscard]] UsedDefaults apply_config(CLI::App& command, const GlobalOptions& options);

/// Returns "defaults from PATH: devices, budget"; "" if nothing was taken.
[[nodiscard]] std::string text_of(const UsedDefaults& defaults);

/// Returns the error in the words of the file: options whose values were taken from it are named by their lines. Commands and the remedy
/// stay as they are: what the remedy says of an option works on the command line, which beats the file.
[[nodiscard]] Error with_places(const Error& error, const UsedDefaults& defaults);

}  // namespace mptune::reports

#pragma once

#include <string>

namespace mptune {

/// The machine that something was measured on, as far as it is known: no user, host name or path.
struct Machine {
  std::string cpu;    ///< "Intel(R) Xeon(R) Platinum 8481C CPU @ 2.70GHz"; "": not known
  int cores = 0;      ///< hardware threads; 0: not known
  int clock_mhz = 0;  ///< highest clock of a core; 0: not known
  bool operator==(const Machine&) const = default;
};

/// Returns what Linux says of this machine.
[[nodiscard]] Machine this_machine();

/// The form in which trace files keep it: a JSON object.
[[nodiscard]] std::string machine_to_json(const Machine& machine);
/// The inverse of machine_to_json(). What `json` does not say, or says in another form, is not known.
[[nodiscard]] Machine machine_from_json(const std::string& json);

}  // namespace mptune

#pragma once

#include <string>
#include <vector>

#include "tuner/trial/trial.h"

namespace mptune::tuner {

/// Returns true if the plan may end otherwise when it is tried again: it was killed, took too long, or the machine failed. A plan that
/// exceeds memory, crashes by itself or computes something wrong does so again.
[[nodiscard]] bool worth_retrying(const Outcome& outcome);

/// Returns the keys of the plans whose last trial is worth retrying.
[[nodiscard]] std::vector<std::string> plans_to_retry(const std::vector<Trial>& trials);

/// Returns true if every plan that was tried failed and would fail again: going on measures nothing. Returns false without trials.
[[nodiscard]] bool all_failed_for_good(const std::vector<Trial>& trials);

}  // namespace mptune::tuner

#pragma once

#include <string>

#include "reports/cli/program/session.h"

namespace mptune::reports {

/// Checks an order of actions, a CSV file, under the rules of another runtime, without a model: whether it ends, and what waiting costs.
/// Returns the exit code: 4 for a deadlock. Throws Error.
int check_order_file(const std::string& path, const std::string& runtime, const Session& session);

}  // namespace mptune::reports

#pragma once

#include <string>

#include "planner/plan/plan.h"
#include "planner/search/space/search_space.h"
#include "profiler/base/runtime.h"

namespace CLI {
class App;
}

namespace mptune::reports {

/// Adds --runtime, for predictions.
void add_runtime_option(CLI::App& command, std::string& runtime);
/// Adds --runtime with this help.
void add_runtime_option(CLI::App& command, std::string& runtime, const std::string& help);
/// Returns the runtime of this name; "" is mptune. Throws Error for another name.
[[nodiscard]] Runtime parse_runtime(const std::string& text);

/// Restricts a search to what the runtime can execute. Throws Error if the schedules that were asked for are not among that.
void restrict_to(Runtime runtime, SearchSpace& space);
/// Throws Error for a plan that the runtime can't execute. `where` names the plan.
void check_runs_on(Runtime runtime, const Plan& plan, const std::string& where);

/// Returns a sentence about a prediction under the rules of another runtime, "" for mptune's own.
[[nodiscard]] std::string runtime_note(Runtime runtime);

}  // namespace mptune::reports

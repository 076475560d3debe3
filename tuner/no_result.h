#pragma once

#include <functional>
#include <string>
#include <vector>

#include "planner/search/search.h"
#include "profiler/base/error.h"
#include "tuner/trial/trial.h"

namespace mptune::tuner {

/// Why a run without any measured plan ends: none fits into memory (ExitCode::infeasible), no time was left, or the last one failed
/// (ExitCode::no_result). `keep_failed` may be empty; else it keeps a failed plan and returns the command that shows what fails.
[[nodiscard]] Error no_result(const SearchResult& search, const std::vector<Trial>& trials,
                              const std::function<std::string(const Trial&)>& keep_failed);

}  // namespace mptune::tuner

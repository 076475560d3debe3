#pragma once

#include <string>
#include <utility>
#include <vector>

namespace mptune::tuner {

/// Returns our environment with these variables added, or in place of variables of the same names, as "NAME=VALUE".
[[nodiscard]] std::vector<std::string> environment_with(const std::vector<std::pair<std::string, std::string>>& variables);

/// Returns the texts as exec takes them: pointers into `texts`, then null.
[[nodiscard]] std::vector<char*> pointers(std::vector<std::string>& texts);

}  // namespace mptune::tuner

#pragma once

#include <string>
#include <utility>
#include <vector>

namespace mptune::tuner {

/// Our environment with these variables added, or in the place of those of their names: "NAME=VALUE".
[[nodiscard]] std::vector<std::string> environment_with(const std::vector<std::pair<std::string, std::string>>& variables);

/// As exec takes them: pointers into `texts`, then null.
[[nodiscard]] std::vector<char*> pointers(std::vector<std::string>& texts);

}  // namespace mptune::tuner

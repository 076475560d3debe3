#pragma once

#include <string>
#include <vector>

#include "profiler/trace/values/profile.h"

namespace mptune::planner {

/// Returns the layers before which a stage may begin so that it begins with a module that `pattern` names, and no named module is divided;
/// ascending. `pattern` has paths of modules, part by part, each as a shell matches names of files (*, ?, [..]): "model.layers.*". Several
/// patterns are separated by commas. Throws FieldError (cut_at) if the pattern is not valid, or names no module before which a cut is
/// possible.
[[nodiscard]] std::vector<int> cut_places(const std::string& pattern, const std::vector<ProfileLayer>& layers);

/// Returns the profile with cuts allowed at `places` only; with empty `places`, the profile as it is.
[[nodiscard]] Profile with_cut_places(Profile profile, const std::vector<int>& places);

/// Returns `stages` - 1 of the places, each as near as can be to where stages of equal layer counts would begin. Requires: as many places.
[[nodiscard]] std::vector<int> nearly_equal_cuts(const std::vector<int>& places, int layers, int stages);

}  // namespace mptune::planner

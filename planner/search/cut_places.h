#pragma once

#include <string>
#include <vector>

#include "profiler/trace/profile.h"

namespace mptune::planner {

/// The layers before which a stage may begin so that it begins with a module that `pattern` names, and no such module is divided.
/// `pattern`: paths of modules, part by part, each as a shell matches names of files (*, ?, [..]): "model.layers.*"; several with commas.
/// Ascending. Throws FieldError (cut_at) if the pattern is not one, or names no module before which a cut is possible.
[[nodiscard]] std::vector<int> cut_places(const std::string& pattern, const std::vector<ProfileLayer>& layers);

/// The profile with all other cuts forbidden; `places` empty: as it is.
[[nodiscard]] Profile with_cut_places(Profile profile, const std::vector<int>& places);

/// `stages` - 1 of the places, each as near as can be to where stages of equal layer counts would begin. Requires: as many places.
[[nodiscard]] std::vector<int> nearly_equal_cuts(const std::vector<int>& places, int layers, int stages);

}  // namespace mptune::planner

#pragma once

#include <map>
#include <string>
#include <vector>

#include "profiler/model/layers/model.h"

namespace mptune {

/// What a model's state dict has besides the tensors of its layers.
struct StateExtras {
  std::map<std::string, std::string> tied = {};  ///< another name of a tensor -> its name in the layers or in `unused`
  std::vector<NamedTensor> unused = {};          ///< tensors that no layer uses
};

/// A model and what its file says besides.
struct LoadedModel {
  Model model;
  std::vector<std::string> warnings = {};  ///< what a user should know about the file, a clause each
  StateExtras extras = {};                 ///< for load_state and save_state, so that a saved state is complete
};

}  // namespace mptune

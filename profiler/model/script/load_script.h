#pragma once

#include <string>

#include "profiler/model/layers/loaded_model.h"

namespace mptune::profiler {

/// Loads the children of a Sequential in a TorchScript file as layers, in training mode on CPU; nested Sequentials are flattened.
/// `container` is the path of a Sequential or ModuleList in the file ("backbone.blocks"), "" for the file's root module.
/// The loss is cross_entropy, the sample description is empty. Warns about parameters outside of the container.
/// Throws Error (usage): not TorchScript (see check_script_archive), code that LibTorch cannot read, operators that it lacks, no such
/// container, children whose inputs do not match the outputs before them, no parameters.
[[nodiscard]] LoadedModel load_script(const std::string& path, const std::string& container);

}  // namespace mptune::profiler

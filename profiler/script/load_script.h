#pragma once

#include <string>

#include "mptune/profiler/model/loaded_model.h"

namespace mptune {

/// The children of a Sequential of a TorchScript file as layers, nested Sequentials flattened, in training mode on the CPU; `container` is
/// the path of the Sequential or ModuleList inside the file ("backbone.blocks"), "" for the file's own module. The loss is cross_entropy,
/// the sample description empty. Warnings: parameters of the file that are outside of the container. Throws Error (usage): no TorchScript
/// (a checkpoint, another archive, cut short, larger inside than outside), code that LibTorch cannot read, operators it does not have, no
/// such container, children that do not follow on one another, no parameters.
[[nodiscard]] LoadedModel load_script(const std::string& path, const std::string& container);

}  // namespace mptune

#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "profiler/model/exported/layer.h"
#include "profiler/model/layers/loaded_model.h"

namespace mptune::profiler {

/// Loads the model in a file of torch.export.save (.pt2), cut into layers (layer_ends.h), which are named after its modules; tied weights
/// are shared by name. A program whose first output is a scalar brings its loss, called "model". Throws Error (usage) for what
/// read_exported_archive and ExportedGraph refuse, random numbers that would depend on the partition, inputs without samples, a fixed
/// batch, and an evaluation form (no batch norm and no dropout trains), unless mptune_export.py wrote it: that leaves only frozen modules
/// in evaluation form. Warns of a decomposed program, missing weights (`seed` draws them) and conditions that are not checked.
[[nodiscard]] LoadedModel load_exported(const std::string& path, std::uint64_t seed = 0);

}  // namespace mptune::profiler

#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "profiler/exported/layer.h"
#include "profiler/model/loaded_model.h"

namespace mptune::profiler {

/// The model in a file of torch.export.save (.pt2), cut into layers (layer_ends.h), named after its modules; tied weights are shared by
/// name. A program whose first output is a scalar brings its loss, called "model". Throws Error (usage) for what read_exported_archive and
/// ExportedGraph refuse, random numbers that would depend on the partition, inputs without samples, a fixed batch, an evaluation form (no
/// batch norm and no dropout trains) unless mptune_export.py wrote it, which leaves only what is frozen so. Warnings: decomposed, without
/// weights (`seed` draws them), conditions that are not checked.
[[nodiscard]] LoadedModel load_exported(const std::string& path, std::uint64_t seed = 0);

}  // namespace mptune::profiler

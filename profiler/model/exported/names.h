#pragma once

#include <string>
#include <vector>

#include "profiler/model/program/exported_program.h"

namespace mptune::profiler {

/// Returns the module paths of nodes [first, last) of a program, in order.
[[nodiscard]] std::vector<std::string> exported_modules(const ExportedProgram& program, int first, int last);

/// Returns unique names of the layers between `cuts` (0, ..., nodes). A layer is named after the module of its weights, "layer1.0.conv1",
/// or the innermost module that contains all of them, "layer1.0"; without weights, after the module of its operators.
[[nodiscard]] std::vector<std::string> exported_layer_names(const ExportedProgram& program, const std::vector<int>& cuts);

/// Returns the class of the module that a layer is named after: "Conv2d"; "Segment" if there is none.
[[nodiscard]] std::string exported_layer_kind(const ExportedProgram& program, int first, int last);

}  // namespace mptune::profiler

#pragma once

#include <string>
#include <vector>

#include "mptune/profiler/program/exported_program.h"

namespace mptune {

/// Paths of the modules that nodes [first, last) of a program lie in, in their order.
[[nodiscard]] std::vector<std::string> exported_modules(const ExportedProgram& program, int first, int last);

/// Names of the layers between cuts (0, ..., nodes), each unlike the others: the module of the weights that a layer uses,
/// "layer1.0.conv1", or the innermost one around all of them, "layer1.0"; without weights that of its operators.
[[nodiscard]] std::vector<std::string> exported_layer_names(const ExportedProgram& program, const std::vector<int>& cuts);

/// The class of that module: "Conv2d"; "Segment" where there is none.
[[nodiscard]] std::string exported_layer_kind(const ExportedProgram& program, int first, int last);

}  // namespace mptune

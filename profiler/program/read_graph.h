#pragma once

#include "mptune/profiler/program/exported_program.h"
#include "mptune/profiler/program/json_fields.h"

namespace mptune {

/// Reads a Graph of the schema and those within it. Throws Error as read_program.
[[nodiscard]] ProgramGraph read_graph(const JsonField& field);
[[nodiscard]] TensorDescription read_tensor_description(const JsonField& field);

}  // namespace mptune

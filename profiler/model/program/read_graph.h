#pragma once

#include "profiler/base/json_field.h"
#include "profiler/model/program/exported_program.h"

namespace mptune::profiler {

/// Returns the source of the JSON texts in an archive of torch.export, for errors.
[[nodiscard]] JsonSource exported_program_source(const std::string& file);

/// Reads a Graph of the schema with its subgraphs. Throws Error like read_program.
[[nodiscard]] ProgramGraph read_graph(const JsonField& field);
[[nodiscard]] TensorDescription read_tensor_description(const JsonField& field);

}  // namespace mptune::profiler

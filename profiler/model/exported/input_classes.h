#pragma once

#include <cstdint>

#include "profiler/model/program/exported_program.h"

namespace mptune::profiler {

/// Returns how many different values an integer input may have, from 0 on: the least of the rows of the tables that it indexes and the
/// classes of the losses whose target it is. The input is followed through views, slices and conversions. 0: unknown.
[[nodiscard]] std::int64_t classes_of_input(const ExportedProgram& program, int value);

}  // namespace mptune::profiler

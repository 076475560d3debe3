#pragma once

#include <cstdint>

#include "profiler/program/exported_program.h"

namespace mptune::profiler {

/// How many different values an integer input may have, from 0 on: the rows of the tables that it indexes, the classes of the losses whose
/// target it is; the smallest of them. It is followed through views, slices and conversions. 0: unknown.
[[nodiscard]] std::int64_t classes_of_input(const ExportedProgram& program, int value);

}  // namespace mptune::profiler

#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "profiler/model/program/exported_program.h"

/// Where the samples of a batch are in a tensor of an exported program.
namespace mptune::profiler {

/// Dimension `dimension` has the size outer x samples x inner; index (o, s, i) belongs to sample s.
struct SampleAxis {
  int dimension = 0;  ///< -1: the tensor's shape does not depend on the batch; all samples share the tensor
  std::int64_t outer = 1;
  std::int64_t inner = 1;
  bool operator==(const SampleAxis&) const = default;
};

/// A program's symbols with trial values.
struct SampleSymbols {
  std::string batch;  ///< symbol of the batch size; "" if the batch size is fixed
  SymbolValues values;
};

/// Finds the batch's symbol: the first symbolic first dimension of a user input. Trial values lie within the symbols' ranges. The batch's
/// trial value is a prime number, which can be recognised in products.
[[nodiscard]] SampleSymbols sample_symbols(const ExportedProgram& program);

/// Returns the sample axis of every value of `graph`; nullopt if unknown. Axes come from the symbolic sizes. A dimension that is a multiple
/// of the samples (time x samples, samples x heads) is ambiguous: its order is followed through reshapes. `given`: axes of a region's
/// arguments; empty for the program itself.
[[nodiscard]] std::vector<std::optional<SampleAxis>> sample_axes(const ProgramGraph& graph, const SampleSymbols& symbols,
                                                                 const std::vector<SampleAxis>& given);

}  // namespace mptune::profiler

#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "mptune/profiler/program/exported_program.h"

/// Where the samples of the batch lie in the values of an exported program.
namespace mptune {

/// Dimension `dimension` of a tensor is outer x samples x inner long: place (o, s, i) in it belongs to sample s.
struct SampleAxis {
  int dimension = 0;  ///< -1: the tensor's shape does not depend on the samples, it belongs to all of them
  std::int64_t outer = 1;
  std::int64_t inner = 1;
  bool operator==(const SampleAxis&) const = default;
};

/// A program's symbols, each with a value to try shapes with.
struct SampleSymbols {
  std::string batch;  ///< the symbol of the number of samples, "" where the batch is fixed
  SymbolValues values;
};

/// The batch's symbol is the first dimension of the first user input that has one. Values that sizes are tried with lie within the symbols'
/// ranges; the batch's is a prime, so that it does not get lost in products.
[[nodiscard]] SampleSymbols sample_symbols(const ExportedProgram& program);

/// By value of `graph`: where its samples lie, empty where that is not known. Read off the symbolic sizes; where a dimension is several
/// times the samples (time x samples, samples x heads) its order is followed through reshapes from where it was made. `given`: axes of what
/// a region is called with; empty for the program itself.
[[nodiscard]] std::vector<std::optional<SampleAxis>> sample_axes(const ProgramGraph& graph, const SampleSymbols& symbols,
                                                                 const std::vector<SampleAxis>& given);

}  // namespace mptune

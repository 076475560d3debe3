#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "profiler/model/program/exported_program.h"

namespace mptune::profiler {

/// The sizes of tensors by the names of a program's inputs: "x", "a_1" for the second of *a.
using SizesByName = std::map<std::string, std::vector<std::int64_t>>;

/// A condition on input sizes as torch.export writes it in Python: "L['x'].size()[0] == 2*L['y'].size()[0]".
class SizeGuard {
 public:
  /// Understands comparisons (==, !=, <=, <, >=, >, also chained) joined by `and`. Operands are integers, sizes, +, -, *, //, %, Mod, Min
  /// and Max, nested at most 64 deep. Returns nullopt for anything else; never throws.
  [[nodiscard]] static std::optional<SizeGuard> parse(const std::string& text);
  /// True if the sizes meet the condition; nullopt if an input or a dimension is missing, or a result exceeds 2^62.
  [[nodiscard]] std::optional<bool> holds(const SizesByName& sizes) const;

 private:
  class Parser;
  std::shared_ptr<const SizeExpression> condition_;
};

/// A program's requirements on the sizes of its inputs: its guards and the ranges of its symbols.
class SizeDemands {
 public:
  explicit SizeDemands(const ExportedProgram& program);

  /// Throws Error with the guard or range that the sizes violate. `sizes`: one list per tensor of the user, in order.
  void check(const std::vector<std::vector<std::int64_t>>& sizes) const;
  /// Returns the guards that parse() does not understand; they are never checked.
  [[nodiscard]] const std::vector<std::string>& unchecked() const { return unchecked_; }

 private:
  struct Guard {
    std::string text;
    SizeGuard guard;
  };
  struct Input {
    std::string name;
    std::vector<SymbolicSize> sizes;
  };
  void check_ranges(const Input& input, const std::vector<std::int64_t>& sizes, SymbolValues& symbols) const;

  std::vector<Input> inputs_;
  std::map<std::string, SymbolRange> symbols_;
  std::vector<Guard> guards_;
  std::vector<std::string> unchecked_;
  std::string limit_;  ///< " (net.py:8, if x.shape[0] < 64:)"; "" where the line that limits the batch is not known
};

}  // namespace mptune::profiler

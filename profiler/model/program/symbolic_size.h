#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace mptune::profiler {

struct SizeExpression;

/// The values of a program's symbols by name ("s95"): the number of samples, for example.
using SymbolValues = std::map<std::string, std::int64_t>;

/// A size as torch.export writes it: a number or an expression of symbols. Copies are cheap: they share the immutable expression.
class SymbolicSize {
 public:
  SymbolicSize() = default;
  explicit SymbolicSize(std::int64_t number) : number_(number) {}
  /// Reads sympy's srepr: "Symbol('s95', positive=True, integer=True)", "Mul(Integer(2), Symbol('s95', ...))".
  /// Understands Integer, Symbol, Add, Mul, Min, Max, FloorDiv, CleanDiv and Mod, nested at most 64 deep. Anything else gives a size whose
  /// value() is always nullopt; never throws.
  [[nodiscard]] static SymbolicSize parse(const std::string& srepr);

  /// Returns the size; nullopt if a symbol has no value, the expression was not understood, or the result exceeds 2^62.
  [[nodiscard]] std::optional<std::int64_t> value(const SymbolValues& symbols) const;
  [[nodiscard]] bool is_number() const { return !expression_; }
  /// Returns k if the size is k * `symbol` with k >= 1; otherwise 0.
  [[nodiscard]] std::int64_t multiple_of(const std::string& symbol) const;

 private:
  class Parser;
  std::int64_t number_ = 0;
  std::shared_ptr<const SizeExpression> expression_;
};

}  // namespace mptune::profiler

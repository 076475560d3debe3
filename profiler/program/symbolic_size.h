#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace mptune {

/// Values of a program's symbols by name ("s95"), such as the number of samples.
using SymbolValues = std::map<std::string, std::int64_t>;

/// A size as torch.export writes it: a number, or an expression of symbols. A value; copies share what never changes.
class SymbolicSize {
 public:
  SymbolicSize() = default;
  explicit SymbolicSize(std::int64_t number) : number_(number) {}
  /// Reads sympy's srepr: "Symbol('s95', positive=True, integer=True)", "Mul(Integer(2), Symbol('s95', ...))". Knows Integer, Symbol, Add,
  /// Mul, Min, Max, FloorDiv, CleanDiv and Mod, nested at most 64 deep; anything else makes a size that is never known. Throws nothing.
  [[nodiscard]] static SymbolicSize parse(const std::string& srepr);

  /// Empty where a symbol has no value, the expression was not understood, or the result is beyond 2^62.
  [[nodiscard]] std::optional<std::int64_t> value(const SymbolValues& symbols) const;
  [[nodiscard]] bool is_number() const { return !expression_; }
  /// k where the size is k times `symbol`, k >= 1; 0 where it is anything else.
  [[nodiscard]] std::int64_t multiple_of(const std::string& symbol) const;

 private:
  struct Expression;
  class Parser;
  std::int64_t number_ = 0;
  std::shared_ptr<const Expression> expression_;
};

}  // namespace mptune

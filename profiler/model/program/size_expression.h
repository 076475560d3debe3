#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace mptune::profiler {

/// Sizes are computed with whole numbers of at most this, by Python's rules.
constexpr std::int64_t kLargestSize = std::int64_t{1} << 62;
/// Expressions nested or joined deeper are not read.
constexpr int kDeepestExpression = 64;

/// A tree of whole numbers, variables and operations on them: a symbolic size, or a condition on sizes (1 true, 0 false).
/// Operations take their operands from left to right; `both` is Python's `and`.
struct SizeExpression {
  enum class Kind {
    unknown,
    integer,
    variable,
    add,
    subtract,
    multiply,
    divide,
    remainder,
    least,
    most,
    equal,
    unequal,
    at_most,
    below,
    at_least,
    above,
    both
  };
  Kind kind = Kind::unknown;
  std::int64_t number = 0;  ///< the integer, or the dimension of a variable that is an input's size
  std::string name = {};    ///< of a variable: a symbol or an input
  std::vector<SizeExpression> operands = {};
};

/// Returns the value of a variable; nullopt if it has none.
using SizeLookup = std::function<std::optional<std::int64_t>(const SizeExpression& variable)>;

/// Returns the value; nullopt if a variable has no value, a part is unknown, a divisor is 0, or the result is beyond 2^62.
[[nodiscard]] std::optional<std::int64_t> value_of(const SizeExpression& expression, const SizeLookup& lookup);

}  // namespace mptune::profiler

#include "profiler/model/program/size_expression.h"

#include <algorithm>

namespace mptune::profiler {
namespace {

std::optional<std::int64_t> within_sizes(std::int64_t number) {
  return number > kLargestSize || number < -kLargestSize ? std::nullopt : std::optional(number);
}

// Rounds down, so that the remainder has the divisor's sign.
std::int64_t floor_quotient(std::int64_t a, std::int64_t b) {
  return a / b - (a % b != 0 && (a < 0) != (b < 0) ? 1 : 0);
}

std::optional<std::int64_t> applied(SizeExpression::Kind kind, std::int64_t a, std::int64_t b) {
  using Kind = SizeExpression::Kind;
  std::int64_t result = 0;
  const bool divides = b != 0 && a >= -kLargestSize;  // the least integer divided by -1 would overflow
  switch (kind) {
    case Kind::add:
      return __builtin_add_overflow(a, b, &result) ? std::nullopt : within_sizes(result);
    case Kind::subtract:
      return __builtin_sub_overflow(a, b, &result) ? std::nullopt : within_sizes(result);
    case Kind::multiply:
      return __builtin_mul_overflow(a, b, &result) ? std::nullopt : within_sizes(result);
    case Kind::divide:
      return divides ? std::optional(floor_quotient(a, b)) : std::nullopt;
    case Kind::remainder:
      return divides ? std::optional(a - floor_quotient(a, b) * b) : std::nullopt;
    case Kind::least:
      return std::min(a, b);
    case Kind::most:
      return std::max(a, b);
    case Kind::equal:
      return a == b ? 1 : 0;
    case Kind::unequal:
      return a != b ? 1 : 0;
    case Kind::at_most:
      return a <= b ? 1 : 0;
    case Kind::below:
      return a < b ? 1 : 0;
    case Kind::at_least:
      return a >= b ? 1 : 0;
    case Kind::above:
      return a > b ? 1 : 0;
    case Kind::both:
      return a != 0 && b != 0 ? 1 : 0;
    case Kind::unknown:
    case Kind::integer:
    case Kind::variable:
      break;
  }
  return std::nullopt;
}

}  // namespace

std::optional<std::int64_t> value_of(const SizeExpression& expression, const SizeLookup& lookup) {
  using Kind = SizeExpression::Kind;
  if (expression.kind == Kind::integer) return expression.number;
  if (expression.kind == Kind::variable) return lookup(expression);
  if (expression.kind == Kind::unknown || expression.operands.empty()) return std::nullopt;
  std::optional<std::int64_t> result = value_of(expression.operands[0], lookup);
  for (std::size_t i = 1; i < expression.operands.size() && result; ++i) {
    const auto next = value_of(expression.operands[i], lookup);
    result = next ? applied(expression.kind, *result, *next) : std::nullopt;
  }
  return result;
}

}  // namespace mptune::profiler

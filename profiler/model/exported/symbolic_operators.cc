#include "profiler/model/exported/symbolic_operators.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <stdexcept>
#include <utility>

#include "profiler/base/index.h"

namespace mptune::profiler {
namespace {

using Operands = std::vector<c10::IValue>;

bool whole(const c10::IValue& value) {
  return value.isInt() || value.isBool();
}
std::int64_t integer_of(const c10::IValue& value) {
  return value.isBool()  ? static_cast<std::int64_t>(value.toBool())
         : value.isInt() ? value.toInt()
                         : static_cast<std::int64_t>(value.toDouble());
}
double real_of(const c10::IValue& value) {
  return whole(value) ? static_cast<double>(integer_of(value)) : value.toDouble();
}
bool truth_of(const c10::IValue& value) {
  return real_of(value) != 0;
}

const c10::IValue& operand(const Operands& operands, std::size_t index) {
  if (index >= operands.size()) throw std::invalid_argument("it has too few operands");
  const c10::IValue& found = operands[index];
  if (!whole(found) && !found.isDouble()) throw std::invalid_argument("an operand is not a number");
  return found;
}

template <class Whole, class Real>
c10::IValue arithmetic(const Operands& operands, const Whole& on_integers, const Real& on_reals) {
  const c10::IValue& a = operand(operands, 0);
  const c10::IValue& b = operand(operands, 1);
  if (!whole(a) || !whole(b)) return on_reals(real_of(a), real_of(b));
  std::int64_t result = 0;
  if (on_integers(integer_of(a), integer_of(b), result)) throw std::invalid_argument("its result is beyond 64 bits");
  return result;
}

template <class Compare>
c10::IValue comparison(const Operands& operands, const Compare& compare) {
  return c10::IValue(bool(compare(real_of(operand(operands, 0)), real_of(operand(operands, 1)))));
}

c10::IValue floor_division(const Operands& operands, bool remainder) {
  const c10::IValue& a = operand(operands, 0);
  const c10::IValue& b = operand(operands, 1);
  if (real_of(b) == 0) throw std::invalid_argument("division by zero");
  if (!whole(a) || !whole(b)) {
    const double quotient = std::floor(real_of(a) / real_of(b));
    return remainder ? real_of(a) - quotient * real_of(b) : quotient;
  }
  const std::int64_t x = integer_of(a), y = integer_of(b);
  if (y == -1) return remainder ? std::int64_t{0} : std::int64_t{0} - x;
  const std::int64_t quotient = x / y - (x % y != 0 && (x < 0) != (y < 0) ? 1 : 0);
  return remainder ? x - quotient * y : quotient;
}

c10::IValue power(const Operands& operands) {
  const c10::IValue& a = operand(operands, 0);
  const c10::IValue& b = operand(operands, 1);
  if (!whole(a) || !whole(b) || integer_of(b) < 0) return std::pow(real_of(a), real_of(b));
  std::int64_t result = 1;
  for (std::int64_t i = 0; i < integer_of(b); ++i)
    if (__builtin_mul_overflow(result, integer_of(a), &result) || i > 64) throw std::invalid_argument("its result is beyond 64 bits");
  return result;
}

c10::IValue shifted(const Operands& operands, bool left) {
  const std::int64_t a = integer_of(operand(operands, 0)), by = integer_of(operand(operands, 1));
  if (by < 0 || by > 62) throw std::invalid_argument("it shifts by " + std::to_string(by));
  return left ? a * (std::int64_t{1} << by) : a >> by;
}

struct Named {
  const char* target;
  std::function<c10::IValue(const Operands&)> run;
};

const std::vector<Named>& table() {
  using O = const Operands&;
  static const std::vector<Named> all{
      {"_operator.add",
       [](O o) {
         return arithmetic(
             o, [](auto a, auto b, auto& r) { return __builtin_add_overflow(a, b, &r); }, std::plus<>());
       }},
      {"_operator.sub",
       [](O o) {
         return arithmetic(
             o, [](auto a, auto b, auto& r) { return __builtin_sub_overflow(a, b, &r); }, std::minus<>());
       }},
      {"_operator.mul",
       [](O o) {
         return arithmetic(
             o, [](auto a, auto b, auto& r) { return __builtin_mul_overflow(a, b, &r); }, std::multiplies<>());
       }},
      {"_operator.floordiv", [](O o) { return floor_division(o, false); }},
      {"_operator.mod", [](O o) { return floor_division(o, true); }},
      {"_operator.truediv", [](O o) { return c10::IValue(real_of(operand(o, 0)) / real_of(operand(o, 1))); }},
      {"_operator.pow", power},
      {"_operator.lshift", [](O o) { return shifted(o, true); }},
      {"_operator.rshift", [](O o) { return shifted(o, false); }},
      {"_operator.neg", [](O o) { return whole(operand(o, 0)) ? c10::IValue(-integer_of(o[0])) : c10::IValue(-real_of(o[0])); }},
      {"_operator.pos", [](O o) { return operand(o, 0); }},
      {"_operator.eq", [](O o) { return comparison(o, std::equal_to<>()); }},
      {"_operator.ne", [](O o) { return comparison(o, std::not_equal_to<>()); }},
      {"_operator.lt", [](O o) { return comparison(o, std::less<>()); }},
      {"_operator.le", [](O o) { return comparison(o, std::less_equal<>()); }},
      {"_operator.gt", [](O o) { return comparison(o, std::greater<>()); }},
      {"_operator.ge", [](O o) { return comparison(o, std::greater_equal<>()); }},
      {"_operator.and_", [](O o) { return c10::IValue(truth_of(operand(o, 0)) && truth_of(operand(o, 1))); }},
      {"_operator.or_", [](O o) { return c10::IValue(truth_of(operand(o, 0)) || truth_of(operand(o, 1))); }},
      {"torch.sym_not", [](O o) { return c10::IValue(!truth_of(operand(o, 0))); }},
      {"torch.sym_int", [](O o) { return c10::IValue(integer_of(operand(o, 0))); }},
      {"math.trunc", [](O o) { return c10::IValue(integer_of(operand(o, 0))); }},
      {"torch.sym_float", [](O o) { return c10::IValue(real_of(operand(o, 0))); }},
      {"torch.sym_max", [](O o) { return real_of(operand(o, 0)) >= real_of(operand(o, 1)) ? o[0] : o[1]; }},
      {"torch.sym_min", [](O o) { return real_of(operand(o, 0)) <= real_of(operand(o, 1)) ? o[0] : o[1]; }},
      {"torch.sym_ite", [](O o) { return truth_of(operand(o, 0)) ? operand(o, 1) : operand(o, 2); }},
      {"torch._sym_sqrt", [](O o) { return c10::IValue(std::sqrt(real_of(operand(o, 0)))); }},
  };
  return all;
}

}  // namespace

int symbolic_operator(const std::string& target) {
  for (std::size_t i = 0; i < table().size(); ++i)
    if (target == table()[i].target) return static_cast<int>(i);
  return -1;
}

c10::IValue run_symbolic(int symbolic, const std::vector<c10::IValue>& operands) {
  return table()[as_index(symbolic)].run(operands);
}

}  // namespace mptune::profiler

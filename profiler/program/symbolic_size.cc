#include "mptune/profiler/program/symbolic_size.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <utility>

#include "mptune/profiler/base/text.h"
#include "mptune/profiler/program/whole_numbers.h"

namespace mptune {

struct SymbolicSize::Expression {
  enum class Kind { integer, symbol, add, multiply, least, most, divide, remainder, unknown };
  Kind kind = Kind::unknown;
  std::int64_t number = 0;
  std::string symbol;
  std::vector<Expression> operands;

  [[nodiscard]] std::optional<std::int64_t> value(const SymbolValues& symbols) const;
};

std::optional<std::int64_t> SymbolicSize::Expression::value(const SymbolValues& symbols) const {
  if (kind == Kind::integer) return number;
  if (kind == Kind::symbol) {
    const auto found = symbols.find(symbol);
    return found == symbols.end() ? std::nullopt : std::optional(found->second);
  }
  if (kind == Kind::unknown || operands.empty()) return std::nullopt;
  std::optional<std::int64_t> result = operands[0].value(symbols);
  for (std::size_t i = 1; i < operands.size() && result; ++i) {
    const std::optional<std::int64_t> next = operands[i].value(symbols);
    if (!next) return std::nullopt;
    std::int64_t sum = 0, product = 0;
    const bool no_sum = __builtin_add_overflow(*result, *next, &sum), no_product = __builtin_mul_overflow(*result, *next, &product);
    switch (kind) {
      case Kind::add:
        result = no_sum ? std::nullopt : within_sizes(sum);
        break;
      case Kind::multiply:
        result = no_product ? std::nullopt : within_sizes(product);
        break;
      case Kind::least:
        result = std::min(*result, *next);
        break;
      case Kind::most:
        result = std::max(*result, *next);
        break;
      case Kind::divide:
        result = *next == 0 || *result < -kLargestSize ? std::nullopt : std::optional(floor_quotient(*result, *next));
        break;
      case Kind::remainder:
        result = *next == 0 || *result < -kLargestSize ? std::nullopt : std::optional(*result - floor_quotient(*result, *next) * *next);
        break;
      case Kind::integer:
      case Kind::symbol:
      case Kind::unknown:
        return std::nullopt;
    }
  }
  return result;
}

class SymbolicSize::Parser {
 public:
  explicit Parser(const std::string& text) : text_(text) {}

  Expression parse() {
    Expression result = expression(0);
    return position_ == text_.size() && !failed_ ? result : Expression{};
  }

 private:
  Expression expression(int depth) {
    const std::string name = word();
    if (name.empty() || depth > kDeepestExpression || !take('(')) return fail();
    if (name == "Integer") return integer_of();
    if (name == "Symbol") return symbol_of();
    Expression result;
    result.kind = kind_of(name);
    if (result.kind == Expression::Kind::unknown) return fail();
    do {
      result.operands.push_back(expression(depth + 1));
    } while (!failed_ && take(','));
    return take(')') ? result : fail();
  }

  Expression integer_of() {
    const std::size_t start = position_;
    while (position_ < text_.size() && text_[position_] != ')') ++position_;
    const auto number = integer(text_.substr(start, position_ - start));
    if (!number || !take(')')) return fail();
    return {Expression::Kind::integer, *number, {}, {}};
  }

  Expression symbol_of() {
    if (!take('\'')) return fail();
    const std::size_t end = text_.find('\'', position_);
    if (end == std::string::npos) return fail();
    Expression result{Expression::Kind::symbol, 0, text_.substr(position_, end - position_), {}};
    position_ = text_.find(')', end);  // skips the symbol's assumptions
    if (position_ == std::string::npos) position_ = text_.size();
    return take(')') ? result : fail();
  }

  static Expression::Kind kind_of(const std::string& name) {
    using Kind = Expression::Kind;
    static const std::array<std::pair<const char*, Kind>, 8> kinds{{{"Add", Kind::add},
                                                                    {"Mul", Kind::multiply},
                                                                    {"Min", Kind::least},
                                                                    {"Max", Kind::most},
                                                                    {"FloorDiv", Kind::divide},
                                                                    {"CleanDiv", Kind::divide},
                                                                    {"Mod", Kind::remainder},
                                                                    {"PythonMod", Kind::remainder}}};
    for (const auto& [known, kind] : kinds)
      if (name == known) return kind;
    return Kind::unknown;
  }

  std::string word() {
    skip_blanks();
    const std::size_t start = position_;
    while (position_ < text_.size() && std::isalnum(static_cast<unsigned char>(text_[position_])) != 0) ++position_;
    return text_.substr(start, position_ - start);
  }
  bool take(char expected) {
    skip_blanks();
    if (position_ >= text_.size() || text_[position_] != expected) return false;
    ++position_;
    return true;
  }
  void skip_blanks() {
    while (position_ < text_.size() && text_[position_] == ' ') ++position_;
  }
  Expression fail() {
    failed_ = true;
    return {};
  }

  const std::string& text_;
  std::size_t position_ = 0;
  bool failed_ = false;
};

SymbolicSize SymbolicSize::parse(const std::string& srepr) {
  Expression expression = Parser(srepr).parse();
  if (expression.kind == Expression::Kind::integer) return SymbolicSize(expression.number);
  SymbolicSize size;
  size.expression_ = std::make_shared<const Expression>(std::move(expression));
  return size;
}

std::optional<std::int64_t> SymbolicSize::value(const SymbolValues& symbols) const {
  return expression_ ? expression_->value(symbols) : std::optional(number_);
}

std::int64_t SymbolicSize::multiple_of(const std::string& symbol) const {
  if (!expression_) return 0;
  if (expression_->kind == Expression::Kind::symbol) return expression_->symbol == symbol ? 1 : 0;
  if (expression_->kind != Expression::Kind::multiply) return 0;
  std::int64_t factor = 1;
  int symbols = 0;
  for (const Expression& operand : expression_->operands) {
    if (operand.kind == Expression::Kind::integer && operand.number >= 1 && operand.number <= kLargestSize / factor) {
      factor *= operand.number;
    } else if (operand.kind == Expression::Kind::symbol && operand.symbol == symbol) {
      ++symbols;
    } else {
      return 0;
    }
  }
  return symbols == 1 ? factor : 0;
}

}  // namespace mptune

#include "profiler/model/program/symbolic_size.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <utility>

#include "profiler/base/text.h"
#include "profiler/model/program/size_expression.h"

namespace mptune::profiler {

class SymbolicSize::Parser {
 public:
  explicit Parser(const std::string& text) : text_(text) {}

  SizeExpression parse() {
    SizeExpression result = expression(0);
    return position_ == text_.size() && !failed_ ? result : SizeExpression{};
  }

 private:
  SizeExpression expression(int depth) {
    const std::string name = word();
    if (name.empty() || depth > kDeepestExpression || !take('(')) return fail();
    if (name == "Integer") return integer_of();
    if (name == "Symbol") return symbol_of();
    SizeExpression result;
    result.kind = kind_of(name);
    if (result.kind == SizeExpression::Kind::unknown) return fail();
    do {
      result.operands.push_back(expression(depth + 1));
    } while (!failed_ && take(','));
    return take(')') ? result : fail();
  }

  SizeExpression integer_of() {
    const std::size_t start = position_;
    while (position_ < text_.size() && text_[position_] != ')') ++position_;
    const auto number = integer(text_.substr(start, position_ - start));
    if (!number || !take(')')) return fail();
    return {SizeExpression::Kind::integer, *number, {}, {}};
  }

  SizeExpression symbol_of() {
    if (!take('\'')) return fail();
    const std::size_t end = text_.find('\'', position_);
    if (end == std::string::npos) return fail();
    SizeExpression result{SizeExpression::Kind::variable, 0, text_.substr(position_, end - position_), {}};
    position_ = text_.find(')', end);  // skips the symbol's assumptions
    if (position_ == std::string::npos) position_ = text_.size();
    return take(')') ? result : fail();
  }

  static SizeExpression::Kind kind_of(const std::string& name) {
    using Kind = SizeExpression::Kind;
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
  SizeExpression fail() {
    failed_ = true;
    return {};
  }

  const std::string& text_;
  std::size_t position_ = 0;
  bool failed_ = false;
};

SymbolicSize SymbolicSize::parse(const std::string& srepr) {
  SizeExpression expression = Parser(srepr).parse();
  if (expression.kind == SizeExpression::Kind::integer) return SymbolicSize(expression.number);
  SymbolicSize size;
  size.expression_ = std::make_shared<const SizeExpression>(std::move(expression));
  return size;
}

std::optional<std::int64_t> SymbolicSize::value(const SymbolValues& symbols) const {
  if (!expression_) return number_;
  return value_of(*expression_, [&symbols](const SizeExpression& symbol) {
    const auto found = symbols.find(symbol.name);
    return found == symbols.end() ? std::nullopt : std::optional(found->second);
  });
}

std::int64_t SymbolicSize::multiple_of(const std::string& symbol) const {
  if (!expression_) return 0;
  if (expression_->kind == SizeExpression::Kind::variable) return expression_->name == symbol ? 1 : 0;
  if (expression_->kind != SizeExpression::Kind::multiply) return 0;
  std::int64_t factor = 1;
  int symbols = 0;
  for (const SizeExpression& operand : expression_->operands)
    if (operand.kind == SizeExpression::Kind::integer && operand.number >= 1 && operand.number <= kLargestSize / factor)
      factor *= operand.number;
    else if (operand.kind == SizeExpression::Kind::variable && operand.name == symbol)
      ++symbols;
    else
      return 0;
  return symbols == 1 ? factor : 0;
}

}  // namespace mptune::profiler

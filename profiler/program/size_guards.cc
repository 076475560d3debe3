#include "mptune/profiler/program/size_guards.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <functional>
#include <string_view>
#include <utility>

#include "mptune/profiler/base/error.h"
#include "mptune/profiler/base/text.h"
#include "mptune/profiler/program/whole_numbers.h"

namespace mptune {

struct SizeGuard::Expression {
  enum class Kind {
    integer,
    size,
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
  Kind kind = Kind::integer;
  std::int64_t number = 0;  ///< the integer, or the dimension of a size
  std::string input;
  std::vector<Expression> operands;

  [[nodiscard]] std::optional<std::int64_t> value(const SizesByName& sizes) const;
};

std::optional<std::int64_t> SizeGuard::Expression::value(const SizesByName& sizes) const {
  if (kind == Kind::integer) return number;
  if (kind == Kind::size) {
    const auto found = sizes.find(input);
    if (found == sizes.end() || number < 0 || number >= static_cast<std::int64_t>(found->second.size())) return std::nullopt;
    return found->second[static_cast<std::size_t>(number)];
  }
  const auto left = operands[0].value(sizes), right = operands[1].value(sizes);
  if (!left || !right) return std::nullopt;
  const std::int64_t a = *left, b = *right;
  std::int64_t result = 0;
  switch (kind) {
    case Kind::add:
      return __builtin_add_overflow(a, b, &result) ? std::nullopt : within_sizes(result);
    case Kind::subtract:
      return __builtin_sub_overflow(a, b, &result) ? std::nullopt : within_sizes(result);
    case Kind::multiply:
      return __builtin_mul_overflow(a, b, &result) ? std::nullopt : within_sizes(result);
    case Kind::divide:
      return b == 0 ? std::nullopt : std::optional(floor_quotient(a, b));
    case Kind::remainder:
      return b == 0 ? std::nullopt : std::optional(a - floor_quotient(a, b) * b);
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
    case Kind::integer:
    case Kind::size:
      break;
  }
  return std::nullopt;
}

/// condition = comparison {"and" comparison}; comparison = sum {operator sum}; sum = product {("+" | "-") product};
/// product = factor {("*" | "//" | "%") factor}; factor = ["-"] (integer | size | "(" sum ")" | name "(" sum "," sum ")").
class SizeGuard::Parser {
 public:
  explicit Parser(const std::string& text) : text_(text) {}

  std::optional<Expression> parse() {
    Expression result = condition();
    skip_blanks();
    if (failed_ || position_ != text_.size()) return std::nullopt;
    return result;
  }

 private:
  using Kind = Expression::Kind;
  using Operator = std::pair<std::string_view, Kind>;

  static Expression join(Kind kind, Expression left, Expression right) {
    Expression result;
    result.kind = kind;
    result.operands.push_back(std::move(left));
    result.operands.push_back(std::move(right));
    return result;
  }

  Expression condition() {
    Expression result = comparison();
    while (!failed_ && take("and")) {
      result = join(Kind::both, std::move(result), comparison());
      if (++joined_ > kDeepestExpression) return fail();
    }
    return result;
  }

  Expression comparison() {
    static constexpr std::array<Operator, 6> operators{{{"==", Kind::equal},
                                                        {"!=", Kind::unequal},
                                                        {"<=", Kind::at_most},
                                                        {">=", Kind::at_least},
                                                        {"<", Kind::below},
                                                        {">", Kind::above}}};
    Expression left = sum(0), result;
    bool any = false;
    while (!failed_) {
      const auto found = std::find_if(operators.begin(), operators.end(), [&](const Operator& one) { return take(one.first); });
      if (found == operators.end()) break;
      Expression right = sum(0);
      Expression compared = join(found->second, std::move(left), right);
      result = any ? join(Kind::both, std::move(result), std::move(compared)) : std::move(compared);
      left = std::move(right);
      any = true;
      if (++joined_ > kDeepestExpression) return fail();
    }
    return any ? result : fail();
  }

  Expression sum(int depth) {
    Expression result = product(depth);
    while (!failed_) {
      if (take("+")) {
        result = join(Kind::add, std::move(result), product(depth));
      } else if (take("-")) {
        result = join(Kind::subtract, std::move(result), product(depth));
      } else {
        break;
      }
      if (++joined_ > kDeepestExpression) return fail();
    }
    return result;
  }

  Expression product(int depth) {
    Expression result = factor(depth);
    while (!failed_) {
      if (take("//")) {
        result = join(Kind::divide, std::move(result), factor(depth));
      } else if (take("*")) {
        result = join(Kind::multiply, std::move(result), factor(depth));
      } else if (take("%")) {
        result = join(Kind::remainder, std::move(result), factor(depth));
      } else {
        break;
      }
      if (++joined_ > kDeepestExpression) return fail();
    }
    return result;
  }

  Expression factor(int depth) {
    if (failed_ || depth > kDeepestExpression) return fail();
    if (take("-")) return join(Kind::subtract, Expression{}, factor(depth + 1));
    if (take("(")) {
      Expression inner = sum(depth + 1);
      return take(")") ? inner : fail();
    }
    static constexpr std::array<Operator, 5> functions{{{"Mod(", Kind::remainder},
                                                        {"PythonMod(", Kind::remainder},
                                                        {"Min(", Kind::least},
                                                        {"Max(", Kind::most},
                                                        {"FloorDiv(", Kind::divide}}};
    for (const auto& [name, kind] : functions) {
      if (!take(name)) continue;
      Expression first = sum(depth + 1);
      if (!take(",")) return fail();
      Expression result = join(kind, std::move(first), sum(depth + 1));
      return take(")") ? result : fail();
    }
    return take("L") ? size() : number();
  }

  Expression number() {
    skip_blanks();
    const std::size_t start = position_;
    while (position_ < text_.size() && std::isdigit(static_cast<unsigned char>(text_[position_])) != 0) ++position_;
    const auto found = integer(text_.substr(start, position_ - start));
    if (!found) return fail();
    Expression result;
    result.number = *found;
    return result;
  }

  /// Parses a size: ['a'][1].size()[0] is the first size of input a_1.
  Expression size() {
    Expression result;
    result.kind = Kind::size;
    while (take("[")) {
      const std::size_t end = text_.find(']', position_);
      if (end == std::string::npos) return fail();
      std::string key = text_.substr(position_, end - position_);
      key.erase(std::remove_if(key.begin(), key.end(), [](char c) { return c == '\'' || c == '"'; }), key.end());
      if (!result.input.empty()) result.input += '_';
      result.input += key;
      position_ = end + 1;
    }
    if (!take(".size()[")) return fail();
    const Expression dimension = number();
    result.number = dimension.number;
    return take("]") ? result : fail();
  }

  bool take(std::string_view expected) {
    skip_blanks();
    if (text_.compare(position_, expected.size(), expected) != 0) return false;
    position_ += expected.size();
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
  int joined_ = 0;
  bool failed_ = false;
};

std::optional<SizeGuard> SizeGuard::parse(const std::string& text) {
  auto condition = Parser(text).parse();
  if (!condition) return std::nullopt;
  SizeGuard guard;
  guard.condition_ = std::make_shared<const Expression>(std::move(*condition));
  return guard;
}

std::optional<bool> SizeGuard::holds(const SizesByName& sizes) const {
  const auto value = condition_->value(sizes);
  return value ? std::optional(*value != 0) : std::nullopt;
}

namespace {

std::string text_of(const SymbolRange& range) {
  const std::string least = std::to_string(range.least.value_or(0));
  return range.most ? least + " to " + std::to_string(*range.most) : "at least " + least;
}

}  // namespace

SizeDemands::SizeDemands(const ExportedProgram& program) : symbols_(program.symbols) {
  for (std::size_t i = 0; i < program.inputs.size(); ++i) {
    const auto* value = std::get_if<ProgramValue>(&program.graph.inputs[i]);
    if (value == nullptr || program.inputs[i].kind != ProgramInput::Kind::user) continue;
    const ValueDescription& about = program.graph.values[static_cast<std::size_t>(value->index)];
    inputs_.push_back({about.name, about.tensor ? about.tensor->sizes : std::vector<SymbolicSize>{}});
  }
  SizesByName example;
  for (const Input& input : inputs_) example[input.name] = std::vector<std::int64_t>(input.sizes.size(), 1);
  for (const std::string& text : program.guards) {
    if (text.find(".size()") == std::string::npos) continue;
    const auto guard = SizeGuard::parse(text);
    if (guard && guard->holds(example)) {
      guards_.push_back({text, *guard});
    } else {
      unchecked_.push_back(text);
    }
  }
}

void SizeDemands::check_ranges(const Input& input, const std::vector<std::int64_t>& sizes, SymbolValues& symbols) const {
  for (std::size_t d = 0; d < std::min(sizes.size(), input.sizes.size()); ++d) {
    for (const auto& [symbol, range] : symbols_) {
      const std::int64_t times = input.sizes[d].multiple_of(symbol);
      if (times == 0) continue;
      const std::string what = "dimension " + std::to_string(d) + " of '" + input.name + "' is " + std::to_string(sizes[d]);
      const std::int64_t value = sizes[d] / times;
      if (value < range.least.value_or(value) || value > range.most.value_or(value))
        throw Error(what + ", the program was exported for " + text_of(range) + (times > 1 ? " times " + std::to_string(times) : ""),
                    "model",
                    "choose --batch and micro-batches within that, or export it again with another range: Dim('batch', min=1, max=...)");
      const auto [known, fresh] = symbols.emplace(symbol, value);
      if (value * times != sizes[d] || (!fresh && known->second != value))
        throw Error(
            what + ", which does not go with the sizes of the other inputs (" + symbol + " = " + std::to_string(known->second) + ")",
            "model", "give every input the sizes that the export tied together");
    }
  }
}

void SizeDemands::check(const std::vector<std::vector<std::int64_t>>& sizes) const {
  SizesByName by_name;
  SymbolValues symbols;
  std::string all;
  for (std::size_t i = 0; i < std::min(sizes.size(), inputs_.size()); ++i) {
    by_name[inputs_[i].name] = sizes[i];
    if (i > 0) all += ", ";
    all += inputs_[i].name + " is " + shape_text(sizes[i]);
    check_ranges(inputs_[i], sizes[i], symbols);
  }
  for (const Guard& guard : guards_)
    if (!guard.guard.holds(by_name).value_or(true))
      throw Error("the inputs break what the program was exported for: " + guard.text + ", but " + all, "model",
                  "give inputs of such sizes, or export the model for others");
}

}  // namespace mptune

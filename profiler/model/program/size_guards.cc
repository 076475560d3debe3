#include "profiler/model/program/size_guards.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <functional>
#include <string_view>
#include <utility>

#include "profiler/base/error.h"
#include "profiler/base/index.h"
#include "profiler/base/text.h"
#include "profiler/model/program/size_expression.h"

namespace mptune::profiler {

/// condition = comparison {"and" comparison}; comparison = sum {operator sum}; sum = product {("+" | "-") product};
/// product = factor {("*" | "//" | "%") factor}; factor = ["-"] (integer | size | "(" sum ")" | name "(" sum "," sum ")").
class SizeGuard::Parser {
 public:
  explicit Parser(const std::string& text) : text_(text) {}

  std::optional<SizeExpression> parse() {
    SizeExpression result = condition();
    skip_blanks();
    if (failed_ || position_ != text_.size()) return std::nullopt;
    return result;
  }

 private:
  using Kind = SizeExpression::Kind;
  using Operator = std::pair<std::string_view, Kind>;

  static SizeExpression join(Kind kind, SizeExpression left, SizeExpression right) {
    SizeExpression result{.kind = kind};
    result.operands.push_back(std::move(left));
    result.operands.push_back(std::move(right));
    return result;
  }

  SizeExpression condition() {
    SizeExpression result = comparison();
    while (!failed_ && take("and")) {
      result = join(Kind::both, std::move(result), comparison());
      if (++joined_ > kDeepestExpression) return fail();
    }
    return result;
  }

  SizeExpression comparison() {
    static constexpr std::array<Operator, 6> operators{{{"==", Kind::equal},
                                                        {"!=", Kind::unequal},
                                                        {"<=", Kind::at_most},
                                                        {">=", Kind::at_least},
                                                        {"<", Kind::below},
                                                        {">", Kind::above}}};
    SizeExpression left = sum(0), result;
    bool any = false;
    while (!failed_) {
      const auto found = std::find_if(operators.begin(), operators.end(), [&](const Operator& one) { return take(one.first); });
      if (found == operators.end()) break;
      SizeExpression right = sum(0);
      SizeExpression compared = join(found->second, std::move(left), right);
      result = any ? join(Kind::both, std::move(result), std::move(compared)) : std::move(compared);
      left = std::move(right);
      any = true;
      if (++joined_ > kDeepestExpression) return fail();
    }
    return any ? result : fail();
  }

  SizeExpression sum(int depth) {
    SizeExpression result = product(depth);
    while (!failed_) {
      if (take("+"))
        result = join(Kind::add, std::move(result), product(depth));
      else if (take("-"))
        result = join(Kind::subtract, std::move(result), product(depth));
      else
        break;
      if (++joined_ > kDeepestExpression) return fail();
    }
    return result;
  }

  SizeExpression product(int depth) {
    SizeExpression result = factor(depth);
    while (!failed_) {
      if (take("//"))
        result = join(Kind::divide, std::move(result), factor(depth));
      else if (take("*"))
        result = join(Kind::multiply, std::move(result), factor(depth));
      else if (take("%"))
        result = join(Kind::remainder, std::move(result), factor(depth));
      else
        break;
      if (++joined_ > kDeepestExpression) return fail();
    }
    return result;
  }

  SizeExpression factor(int depth) {
    if (failed_ || depth > kDeepestExpression) return fail();
    if (take("-")) return join(Kind::subtract, {.kind = Kind::integer}, factor(depth + 1));
    if (take("(")) {
      SizeExpression inner = sum(depth + 1);
      return take(")") ? inner : fail();
    }
    static constexpr std::array<Operator, 5> functions{{{"Mod(", Kind::remainder},
                                                        {"PythonMod(", Kind::remainder},
                                                        {"Min(", Kind::least},
                                                        {"Max(", Kind::most},
                                                        {"FloorDiv(", Kind::divide}}};
    for (const auto& [name, kind] : functions) {
      if (!take(name)) continue;
      SizeExpression first = sum(depth + 1);
      if (!take(",")) return fail();
      SizeExpression result = join(kind, std::move(first), sum(depth + 1));
      return take(")") ? result : fail();
    }
    return take("L") ? size() : number();
  }

  SizeExpression number() {
    skip_blanks();
    const std::size_t start = position_;
    while (position_ < text_.size() && std::isdigit(static_cast<unsigned char>(text_[position_])) != 0) ++position_;
    const auto found = integer(text_.substr(start, position_ - start));
    if (!found) return fail();
    return {.kind = Kind::integer, .number = *found};
  }

  /// Parses a size: ['a'][1].size()[0] is the first size of input a_1.
  SizeExpression size() {
    SizeExpression result{.kind = Kind::variable};
    while (take("[")) {
      const std::size_t end = text_.find(']', position_);
      if (end == std::string::npos) return fail();
      std::string key = text_.substr(position_, end - position_);
      key.erase(std::remove_if(key.begin(), key.end(), [](char c) { return c == '\'' || c == '"'; }), key.end());
      if (!result.name.empty()) result.name += '_';
      result.name += key;
      position_ = end + 1;
    }
    if (!take(".size()[")) return fail();
    const SizeExpression dimension = number();
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
  SizeExpression fail() {
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
  guard.condition_ = std::make_shared<const SizeExpression>(std::move(*condition));
  return guard;
}

std::optional<bool> SizeGuard::holds(const SizesByName& sizes) const {
  const auto value = value_of(*condition_, [&sizes](const SizeExpression& size) -> std::optional<std::int64_t> {
    const auto input = sizes.find(size.name);
    if (input == sizes.end() || size.number < 0 || size.number >= static_cast<std::int64_t>(input->second.size())) return std::nullopt;
    return input->second[as_index(size.number)];
  });
  return value ? std::optional(*value != 0) : std::nullopt;
}

namespace {

std::string text_of(const SymbolRange& range) {
  const std::string least = std::to_string(range.least.value_or(0));
  return range.most ? least + " to " + std::to_string(*range.most) : "at least " + least;
}

}  // namespace

SizeDemands::SizeDemands(const ExportedProgram& program) : symbols_(program.symbols) {
  if (!program.batch_limit.empty()) limit_ = " (" + program.batch_limit + ")";
  for (std::size_t i = 0; i < program.inputs.size(); ++i) {
    const auto* value = std::get_if<ProgramValue>(&program.graph.inputs[i]);
    if (value == nullptr || program.inputs[i].kind != ProgramInput::Kind::user) continue;
    const ValueDescription& about = program.graph.values[as_index(value->index)];
    inputs_.push_back({about.name, about.tensor ? about.tensor->sizes : std::vector<SymbolicSize>{}});
  }
  SizesByName example;
  for (const Input& input : inputs_) example[input.name] = std::vector<std::int64_t>(input.sizes.size(), 1);
  for (const std::string& text : program.guards) {
    if (text.find(".size()") == std::string::npos) continue;
    const auto guard = SizeGuard::parse(text);
    if (guard && guard->holds(example))
      guards_.push_back({text, *guard});
    else
      unchecked_.push_back(text);
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
        throw Error(
            what + ", the program was exported for " + text_of(range) + (times > 1 ? " times " + std::to_string(times) : "") +
                (d == 0 ? limit_ : ""),
            "model",
            d > 0 ? "give inputs of such sizes, or export the model for others"
            : limit_.empty()
                ? "choose --batch and micro-batches within that, or export it again with another range: Dim('batch', min=1, max=...)"
                : "choose --batch and micro-batches within that, or change that line and export the model again");
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

}  // namespace mptune::profiler

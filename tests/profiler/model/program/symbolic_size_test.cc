#include "profiler/model/program/symbolic_size.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>

namespace mptune::profiler {
namespace {

const std::string kBatch = "Symbol('s77', positive=True, integer=True)";

TEST(SymbolicSize, KnowsNumbersAndSymbols) {
  EXPECT_EQ(SymbolicSize(7).value({}), 7);
  EXPECT_EQ(SymbolicSize::parse("Integer(-3)").value({}), -3);
  const SymbolicSize batch = SymbolicSize::parse(kBatch);
  EXPECT_EQ(batch.value({{"s77", 5}}), 5);
  EXPECT_EQ(batch.value({{"s1", 5}}), std::nullopt);
  EXPECT_FALSE(batch.is_number());
}

TEST(SymbolicSize, MultipliesOfTheBatchAreToldFromOtherExpressions) {
  EXPECT_EQ(SymbolicSize::parse(kBatch).multiple_of("s77"), 1);
  EXPECT_EQ(SymbolicSize::parse("Mul(Integer(64), " + kBatch + ")").multiple_of("s77"), 64);
  EXPECT_EQ(SymbolicSize::parse("Mul(Integer(64), " + kBatch + ")").multiple_of("s1"), 0);
  EXPECT_EQ(SymbolicSize::parse("Mul(" + kBatch + ", " + kBatch + ")").multiple_of("s77"), 0);
  EXPECT_EQ(SymbolicSize::parse("Add(Integer(1), " + kBatch + ")").multiple_of("s77"), 0);
  EXPECT_EQ(SymbolicSize(64).multiple_of("s77"), 0);
}

TEST(SymbolicSize, UnknownExpressionsHaveNoValue) {
  for (const char* text :
       {"", "Integer(", "Integer(x)", "Sin(Integer(3))", "Add()", "Add(Integer(1)", "Symbol('s1'", "Integer(1) x",
        "Mod(Integer(3), Integer(0))", "FloorDiv(Integer(3), Integer(0))", "Mul(Integer(4611686018427387904), Integer(2))"})
    EXPECT_EQ(SymbolicSize::parse(text).value({{"s1", 1}}), std::nullopt) << text;
}

TEST(SymbolicSize, TheSmallestIntegerIsNotDivided) {
  for (const char* kind : {"FloorDiv", "Mod", "CleanDiv"})
    EXPECT_FALSE(SymbolicSize::parse(std::string(kind) + "(Integer(-9223372036854775808), Integer(-1))").value({})) << kind;
}

TEST(SymbolicSize, DeepNestingEndsWithoutHarm) {
  std::string open;
  for (int i = 0; i < 100'000; ++i) open += "Add(";
  EXPECT_EQ(SymbolicSize::parse(open).value({}), std::nullopt);
}

/// A random expression with the value that Python's rules give it.
struct Made {
  std::string text;
  std::int64_t value;
};
Made make(std::mt19937& random, int depth) {
  const auto pick = [&](int most) { return static_cast<int>(random() % static_cast<unsigned>(most)); };
  if (depth == 0 || pick(4) == 0) {
    const std::int64_t number = pick(19) - 9;
    return pick(3) == 0 ? Made{kBatch, 6} : Made{"Integer(" + std::to_string(number) + ")", number};
  }
  const Made a = make(random, depth - 1), b = make(random, depth - 1);
  const auto text = [&](const char* name) { return std::string(name) + "(" + a.text + ", " + b.text + ")"; };
  const auto floored = [](std::int64_t x, std::int64_t y) {
    return static_cast<std::int64_t>(std::floor(static_cast<double>(x) / static_cast<double>(y)));
  };
  switch (pick(6)) {
    case 0:
      return {text("Add"), a.value + b.value};
    case 1:
      return {text("Mul"), a.value * b.value};
    case 2:
      return {text("Min"), std::min(a.value, b.value)};
    case 3:
      return {text("Max"), std::max(a.value, b.value)};
    case 4:
      return b.value == 0 ? a : Made{text("FloorDiv"), floored(a.value, b.value)};
    default:
      return b.value == 0 ? b : Made{text("PythonMod"), a.value - floored(a.value, b.value) * b.value};
  }
}

TEST(SymbolicSize, RandomExpressionsAgreeWithPythonsRules) {
  std::mt19937 random(3);
  for (int i = 0; i < 2000; ++i) {
    const Made made = make(random, 4);
    EXPECT_EQ(SymbolicSize::parse(made.text).value({{"s77", 6}}), made.value) << made.text;
  }
}

}  // namespace
}  // namespace mptune::profiler

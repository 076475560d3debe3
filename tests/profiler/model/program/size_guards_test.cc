#include "profiler/model/program/size_guards.h"

#include <gtest/gtest.h>

#include "tests/support/error_of.h"

namespace mptune::profiler {
namespace {

std::optional<bool> holds(const std::string& text, const SizesByName& sizes) {
  const auto guard = SizeGuard::parse(text);
  EXPECT_TRUE(guard) << text;
  return guard ? guard->holds(sizes) : std::nullopt;
}

TEST(SizeGuard, FollowsPython) {
  const SizesByName sizes{{"x", {6, 8}}, {"y", {3}}, {"a_1", {6}}, {"d_key", {2}}};
  const std::vector<std::pair<std::string, bool>> cases{
      {"L['x'].size()[0] == L['a'][1].size()[0]", true},
      {"L['x'].size()[0] != L['y'].size()[0]", true},
      {"L['x'].size()[0] == 2*L['y'].size()[0]", true},
      {"L['d']['key'].size()[0] > 2", false},
      {"2 <= L['x'].size()[1] and L['x'].size()[1] <= 7", false},
      {"2 <= L['x'].size()[1] <= 8", true},
      {"9 >= L['x'].size()[1] > 8", false},
      {"L['x'].size()[1] % 3 == 2", true},
      {"Mod(L['x'].size()[1], 3) < 2", false},
      {"-L['x'].size()[1] // 3 == -3", true},
      {"(1 - L['x'].size()[1]) % 3 == 2", true},
      {"Max(L['x'].size()[0], L['x'].size()[1]) - Min(3, 4) + 1 == 2*3", true},
  };
  for (const auto& [text, expected] : cases) EXPECT_EQ(holds(text, sizes), expected) << text;
  EXPECT_FALSE(holds("L['z'].size()[0] == 1", sizes));
  EXPECT_FALSE(holds("L['y'].size()[1] == 1", sizes));
  EXPECT_FALSE(holds("L['y'].size()[0] // 0 == 1", sizes));
  EXPECT_FALSE(holds("4611686018427387904 * L['y'].size()[0] == 1", sizes));
}

TEST(SizeGuard, UnknownSyntaxIsEmpty) {
  for (const char* text :
       {"", "L", "L['x'].size()[0]", "L['x'].stride()[0] == 1", "L['x'].size()[0] == ", "x == 1", "1 == 1)", "L['x.size()[0] == 1",
        "L['x'].size()[99999999999999999999] == 1", "not L['x'].size()[0] == 1", "L['x'].size()[0] is 1"})
    EXPECT_FALSE(SizeGuard::parse(text)) << text;
  EXPECT_FALSE(SizeGuard::parse(std::string(100000, '(') + "1 == 1"));
  EXPECT_FALSE(SizeGuard::parse(std::string(100000, '-') + "1 == 1"));
  std::string sum = "1", both = "1 == 1", chain = "1";
  for (int i = 0; i < 100000; ++i) {
    sum += "+1";
    both += " and 1 == 1";
    chain += "<1";
  }
  EXPECT_FALSE(SizeGuard::parse(sum + " == 1"));
  EXPECT_FALSE(SizeGuard::parse(both));
  EXPECT_FALSE(SizeGuard::parse(chain));
}

ExportedProgram two_inputs() {
  const auto tensor = [](std::vector<SymbolicSize> sizes) {
    TensorDescription about;
    about.sizes = std::move(sizes);
    return about;
  };
  const SymbolicSize samples = SymbolicSize::parse("Symbol('s1', positive=True, integer=True)");
  const SymbolicSize pairs = SymbolicSize::parse("Mul(Integer(2), Symbol('s1', positive=True, integer=True))");
  ExportedProgram program;
  program.symbols["s1"] = {2, 8};
  program.inputs = {{}, {}};
  program.graph.inputs = {ProgramValue{0}, ProgramValue{1}};
  program.graph.values = {{"x", ValueDescription::Kind::tensor, tensor({samples, SymbolicSize(4)}), {}},
                          {"y", ValueDescription::Kind::tensor, tensor({pairs}), {}}};
  return program;
}

std::string refusal(const SizeDemands& demands, const std::vector<std::vector<std::int64_t>>& sizes) {
  return testing::refusal_of([&] { demands.check(sizes); });
}

TEST(SizeDemands, RangesAndGuardsAreNamedWithTheSizes) {
  ExportedProgram program = two_inputs();
  program.guards = {"L['x'].size()[0] != 5", "L['x'].size()[0].bit_length() == 3", "L['flag'] == True"};
  const SizeDemands demands(program);
  for (const std::int64_t samples : {2, 3, 8}) demands.check({{samples, 4}, {2 * samples}});
  EXPECT_EQ(demands.unchecked(), std::vector<std::string>{"L['x'].size()[0].bit_length() == 3"});
  const std::string few = refusal(demands, {{1, 4}, {2}});
  EXPECT_NE(few.find("dimension 0 of 'x' is 1, the program was exported for 2 to 8"), std::string::npos) << few;
  EXPECT_NE(refusal(demands, {{9, 4}, {18}}).find("2 to 8"), std::string::npos);
  EXPECT_NE(refusal(demands, {{4, 4}, {6}}).find("sizes of the other inputs"), std::string::npos);
  EXPECT_NE(refusal(demands, {{4, 4}, {9}}).find("sizes of the other inputs"), std::string::npos);
  const std::string guard = refusal(demands, {{5, 4}, {10}});
  EXPECT_NE(guard.find("L['x'].size()[0] != 5, but x is 5x4, y is 10"), std::string::npos) << guard;
  program.symbols["s1"].most.reset();
  EXPECT_NE(refusal(SizeDemands(program), {{1, 4}, {2}}).find("at least 2"), std::string::npos);
  program.batch_limit = "net.py:8, if x.shape[0] < 64:";
  EXPECT_EQ(refusal(SizeDemands(program), {{1, 4}, {2}}),
            "model: dimension 0 of 'x' is 1, the program was exported for at least 2 (net.py:8, if x.shape[0] < 64:)");
}

}  // namespace
}  // namespace mptune::profiler

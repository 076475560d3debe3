// How many classes an integer input has, by what reads it.
#include "profiler/model/exported/input_classes.h"

#include <gtest/gtest.h>

#include "small_program.h"

namespace mptune::testing {
using namespace profiler;
namespace {

NamedArgument value(const char* name, int index) {
  return {name, ProgramValue{index}};
}

TEST(InputClasses, ThoseOfALoss) {
  SmallProgram small;
  const int output = small.input("output", {-1, 3, 8, 8}), target = small.input("target", {-1, 8, 8});
  small.call("aten.cross_entropy_loss.default", {value("self", output), value("target", target)}, {});
  EXPECT_EQ(classes_of_input(small.program, target), 3);
  EXPECT_EQ(classes_of_input(small.program, output), 0);
}

TEST(InputClasses, ThroughViewsAndPadding) {
  SmallProgram small;
  const int output = small.input("output", {-1, 8, 50}), target = small.input("target", {-1, 8});
  const int flat = small.one("aten.view.default", output, {-1, 50});
  const int padded = small.call("aten.pad.default", {value("self", target), {"pad", std::int64_t{1}}}, {-1, 9});
  const int shifted = small.one("aten.slice.Tensor", padded, {-1, 8});
  const int labels = small.one("aten.to.dtype", small.one("aten.reshape.default", shifted, {-1}), {-1});
  small.call("aten.cross_entropy_loss.default", {value("self", flat), value("target", labels)}, {});
  EXPECT_EQ(classes_of_input(small.program, target), 50);
}

TEST(InputClasses, TheSmallestOfSeveral) {
  SmallProgram small;
  const int words = small.input("words", {-1, 8});
  const int table = small.parameter("table", at::zeros({100, 4})), positions = small.parameter("positions", at::zeros({12, 4}));
  small.call("aten.embedding.default", {value("weight", table), value("indices", words)}, {-1, 8, 4});
  EXPECT_EQ(classes_of_input(small.program, words), 100);
  small.call("aten.gather.default", {value("self", positions), {"dim", std::int64_t{0}}, value("index", words)}, {-1, 8});
  EXPECT_EQ(classes_of_input(small.program, words), 12);
  small.call("aten.one_hot.default", {value("self", words), {"num_classes", std::int64_t{7}}}, {-1, 8, 7});
  EXPECT_EQ(classes_of_input(small.program, words), 7);
}

TEST(InputClasses, UnknownWhereNothingSaysThem) {
  SmallProgram small;
  const int x = small.input("x", {-1, 8}), output = small.input("output", {-1, -1});
  small.one("aten.sin.default", x, {-1, 8});
  small.call("aten.nll_loss.default", {value("self", output), value("target", small.one("aten.neg.default", x, {-1, 8}))}, {});
  EXPECT_EQ(classes_of_input(small.program, x), 0);
}

}  // namespace
}  // namespace mptune::testing

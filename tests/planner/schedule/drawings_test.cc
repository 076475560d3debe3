#include <gmock/gmock.h>

#include "planner/schedule/schedule.h"
#include "tests/planner/schedule/drawing.h"
#include "tests/planner/schedule/mapped.h"

namespace mptune::planner {
namespace {

// Every part takes one unit, copies as many as the last argument says; every picture shows where its bubble is.
std::string picture(const std::string& name, int devices, int virtual_stages, int m, std::int64_t copy_ns) {
  Plan plan = testing::mapped(name, devices, virtual_stages, m);
  ScheduleCosts costs{std::vector<StageCosts>(plan.stages.size()), {}};
  for (StageCosts& stage : costs.stages) stage.send_output_ns = stage.send_gradient_ns = copy_ns;
  make_schedule(plan, name, &costs);
  return "\n" + testing::draw(plan, costs);
}

TEST(Drawing, Naive) {
  EXPECT_EQ(picture("naive", 3, 1, 1, 0), R"(
F0 .  .  .  .  .  .  B0 -
.  F0 .  .  .  B0 -
.  .  F0 B0 -
)");
}

TEST(Drawing, Gpipe) {
  EXPECT_EQ(picture("gpipe", 3, 1, 4, 0), R"(
F0 F1 F2 F3 .  .  .  .  .  .  B0 -  B1 -  B2 -  B3 -
.  F0 F1 F2 F3 .  .  .  B0 -  B1 -  B2 -  B3 -
.  .  F0 F1 F2 F3 B0 -  B1 -  B2 -  B3 -
)");
}

TEST(Drawing, OneForwardOneBackward) {
  EXPECT_EQ(picture("1f1b", 3, 1, 5, 0), R"(
F0 F1 F2 .  .  .  .  B0 -  F3 B1 -  F4 B2 -  .  B3 -  .  B4 -
.  F0 F1 .  .  B0 -  F2 B1 -  F3 B2 -  F4 B3 -  .  B4 -
.  .  F0 B0 -  F1 B1 -  F2 B2 -  F3 B3 -  F4 B4 -
)");
}

TEST(Drawing, OneForwardOneBackwardWithCopies) {
  EXPECT_EQ(picture("1f1b", 3, 1, 5, 1), R"(
F0 F1 F2 .  .  .  .  .  .  .  .  B0 -  F3 B1 -  F4 .  .  B2 -  .  .  .  B3 -  .  B4 -
.  .  F0 F1 .  .  .  .  B0 -  F2 B1 -  .  .  F3 B2 -  F4 .  .  B3 -  .  B4 -
.  .  .  .  F0 B0 -  F1 B1 -  .  .  F2 B2 -  .  .  F3 B3 -  F4 B4 -
)");
}

TEST(Drawing, EagerOneForwardOneBackwardWithCopies) {
  EXPECT_EQ(picture("eager-1f1b", 3, 1, 5, 1), R"(
F0 F1 F2 F3 F4 .  .  .  .  .  .  B0 -  .  B1 -  .  B2 -  .  B3 -  .  B4 -
.  .  F0 F1 F2 .  .  .  B0 -  F3 B1 -  F4 B2 -  .  B3 -  .  B4 -
.  .  .  .  F0 B0 -  F1 B1 -  F2 B2 -  F3 B3 -  F4 B4 -
)");
}

TEST(Drawing, Interleaved) {
  EXPECT_EQ(picture("interleaved", 2, 2, 4, 0), R"(
F0 F1 f0 f1 F2 .  b0 -  F3 b1 -  f2 B0 -  f3 B1 -  .  b2 -  .  b3 -  B2 -  B3 -
.  F0 F1 f0 b0 -  f1 b1 -  F2 B0 -  F3 B1 -  f2 b2 -  f3 b3 -  B2 -  B3 -
)");
}

TEST(Drawing, LoopedBfs) {
  EXPECT_EQ(picture("looped-bfs", 2, 2, 3, 0), R"(
F0 F1 F2 f0 f1 f2 .  .  .  b0 -  b1 -  b2 -  B0 -  B1 -  B2 -
.  F0 F1 F2 f0 f1 f2 b0 -  b1 -  b2 -  B0 -  B1 -  B2 -
)");
}

TEST(Drawing, Zb1p) {
  EXPECT_EQ(picture("zb1p", 3, 1, 5, 0), R"(
F0 F1 F2 .  .  I0 W0 F3 I1 W1 F4 I2 W2 I3 W3 I4 W4
.  F0 F1 .  I0 F2 I1 W0 F3 I2 W1 F4 I3 W2 I4 W3 W4
.  .  F0 I0 F1 I1 F2 I2 W0 F3 I3 W1 F4 I4 W2 W3 W4
)");
}

TEST(Drawing, Zb2p) {
  EXPECT_EQ(picture("zb2p", 3, 1, 6, 0), R"(
F0 F1 F2 F3 F4 I0 F5 I1 W0 I2 W1 I3 W2 I4 W3 I5 W4 W5
.  F0 F1 F2 I0 F3 I1 F4 I2 F5 I3 W0 I4 W1 I5 W2 W3 W4 W5
.  .  F0 I0 F1 I1 F2 I2 F3 I3 F4 I4 F5 I5 W0 W1 W2 W3 W4 W5
)");
}

TEST(Drawing, Zbv) {
  EXPECT_EQ(picture("zbv", 3, 2, 6, 0), R"(
F0 F1 F2 F3 F4 f0 i0 w0 f1 i1 w1 f2 i2 w2 F5 I0 W0 f3 i3 w3 I1 W1 f4 i4 w4 I2 W2 f5 i5 I3 w5 I4 W3 I5 W4 W5
.  F0 F1 F2 f0 F3 f1 i0 w0 f2 i1 w1 F4 I0 W0 f3 i2 w2 F5 I1 W1 f4 i3 w3 I2 W2 f5 i4 I3 i5 I4 w4 I5 W3 w5 W4 W5
.  .  F0 f0 F1 f1 F2 f2 i0 w0 F3 I0 W0 f3 i1 w1 F4 I1 W1 f4 i2 w2 F5 I2 W2 f5 i3 I3 i4 I4 i5 I5 w3 W3 w4 W4 w5 W5
)");
}

TEST(Drawing, VHalf) {
  EXPECT_EQ(picture("v-half", 3, 2, 5, 0), R"(
F0 F1 .  .  .  f0 i0 F2 w0 f1 i1 w1 I0 F3 W0 f2 i2 w2 I1 F4 W1 f3 i3 w3 I2 W2 .  f4 i4 I3 w4 W3 .  I4 W4
.  F0 .  .  f0 F1 .  i0 f1 w0 F2 I0 i1 W0 f2 w1 F3 I1 i2 W1 f3 w2 F4 I2 i3 W2 f4 w3 I3 i4 W3 w4 I4 W4
.  .  F0 f0 .  .  F1 f1 i0 I0 w0 F2 W0 f2 i1 I1 w1 F3 W1 f3 i2 I2 w2 F4 W2 f4 i3 I3 w3 W3 i4 I4 w4 W4
)");
}

TEST(Drawing, VMin) {
  EXPECT_EQ(picture("v-min", 3, 2, 5, 0), R"(
F0 .  .  .  .  f0 F1 i0 w0 .  .  f1 F2 I0 i1 W0 w1 f2 F3 I1 i2 W1 w2 f3 F4 I2 i3 W2 w3 f4 .  I3 i4 W3 w4 .  .  I4 W4
.  F0 .  .  f0 .  .  F1 i0 w0 f1 .  I0 F2 W0 i1 f2 w1 I1 F3 W1 i2 f3 w2 I2 F4 W2 i3 f4 w3 I3 W3 .  i4 w4 .  I4 W4
.  .  F0 f0 .  .  .  .  F1 f1 i0 I0 w0 W0 F2 f2 i1 I1 w1 W1 F3 f3 i2 I2 w2 W2 F4 f4 i3 I3 w3 W3 .  .  i4 I4 w4 W4
)");
}

TEST(Drawing, DualpipeV) {
  EXPECT_EQ(picture("dualpipe-v", 2, 2, 5, 0), R"(
F0 F1 F2 f0 i0 w0 f1 F3 b1 -  f2 B0 -  F4 b2 -  f3 B1 -  b3 -  f4 .  B2 -  b4 -  I3 W3 I4 W4
.  F0 f0 F1 f1 F2 b0 -  f2 B0 -  F3 b1 -  f3 B1 -  F4 b2 -  f4 B2 -  b3 -  B3 -  i4 I4 w4 W4
)");
}

TEST(Drawing, List) {
  EXPECT_EQ(picture("list", 3, 1, 5, 0), R"(
F0 F1 F2 .  .  I0 W0 F3 I1 W1 F4 I2 W2 I3 W3 I4 W4
.  F0 F1 .  I0 F2 I1 W0 F3 I2 W1 F4 I3 W2 I4 W3 W4
.  .  F0 I0 F1 I1 F2 I2 W0 F3 I3 W1 F4 I4 W2 W3 W4
)");
}

}  // namespace
}  // namespace mptune::planner

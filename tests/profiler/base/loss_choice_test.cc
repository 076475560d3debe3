#include "profiler/base/loss_choice.h"

#include <gmock/gmock.h>

#include "tests/support/error_of.h"

namespace mptune {
namespace {

using ::testing::HasSubstr;

TEST(LossChoice, ComesBackFromItsText) {
  for (const char* text : {"cross_entropy", "mse", "mean_square", "cross_entropy:ignore_index=0", "cross_entropy:weight=1,2.5,0",
                           "cross_entropy:ignore_index=-1:weight=0.25,1", "mse:outputs=0.5,0.5", "mean_square:outputs=0,1",
                           "cross_entropy:ignore_index=0:weight=0.123456789012,1e-07:outputs=1,0.3"})
    EXPECT_EQ(text_of(parse_loss(text)), text);
  EXPECT_EQ(text_of(parse_loss("cross_entropy:weight=1,2:ignore_index=-100")), "cross_entropy:weight=1,2");
  EXPECT_EQ(parse_loss("cross_entropy:weight=1,2:ignore_index=7:outputs=1,0.3"),
            (LossChoice{LossKind::cross_entropy, 7, {1, 2}, {1, 0.3}}));
}

TEST(LossChoice, WhatIsNoneIsRefusedWithItsPart) {
  const auto refusal = [](const std::string& text) { return testing::refusal_of([&] { (void)parse_loss(text); }); };
  EXPECT_THAT(refusal(""), HasSubstr("unknown loss ''"));
  EXPECT_THAT(refusal("cross_entropi"), HasSubstr("unknown loss 'cross_entropi'"));
  EXPECT_THAT(refusal("mse:weight=1"), HasSubstr("mse takes no 'weight=1'"));
  EXPECT_THAT(refusal("cross_entropy:weights=1"), HasSubstr("cross_entropy has no 'weights'"));
  EXPECT_THAT(refusal("cross_entropy:"), HasSubstr("cross_entropy has no ''"));
  EXPECT_THAT(refusal("cross_entropy:ignore_index"), HasSubstr("'' in 'ignore_index' is not a number"));
  EXPECT_THAT(refusal("cross_entropy:ignore_index=1.5"), HasSubstr("'1.5' in 'ignore_index=1.5' is not a number"));
  EXPECT_THAT(refusal("cross_entropy:ignore_index=99999999999999999999"), HasSubstr("is not a number"));
  EXPECT_THAT(refusal("cross_entropy:weight=1,,2"), HasSubstr("'' in 'weight=1,,2' is not a number"));
  EXPECT_THAT(refusal("cross_entropy:weight=1,-2"), HasSubstr("negative or not finite"));
  EXPECT_THAT(refusal("cross_entropy:weight=1,inf"), HasSubstr("negative or not finite"));
  EXPECT_THAT(refusal("cross_entropy:weight=0,0"), HasSubstr("no class counts"));
  EXPECT_THAT(refusal("mse:outputs=0"), HasSubstr("no output counts"));
  EXPECT_THAT(refusal("mse:outputs=1,-1"), HasSubstr("negative or not finite"));
  EXPECT_THAT(refusal("mean_square:outputs="), HasSubstr("'' in 'outputs=' is not a number"));
}

}  // namespace
}  // namespace mptune

#include "tuner/runtime/training/gradient_scaler.h"

#include <gtest/gtest.h>

namespace mptune::testing {
namespace {

// The rule of torch.amp.GradScaler with its defaults.
TEST(GradientScaler, HalvesAfterAnOverflowAndDoublesAfterTwoThousandSteps) {
  GradientScaler scaler;
  EXPECT_EQ(scaler.scale(), 65536);
  EXPECT_FALSE(scaler.update(false));
  EXPECT_EQ(scaler.scale(), 32768);
  for (int step = 0; step < 1999; ++step) EXPECT_TRUE(scaler.update(true));
  EXPECT_EQ(scaler.scale(), 32768);
  EXPECT_TRUE(scaler.update(true));
  EXPECT_EQ(scaler.scale(), 65536);
  EXPECT_EQ(scaler.state(), (LossScale{65536, 0}));
}

TEST(GradientScaler, AnOverflowBeginsTheCountAnew) {
  GradientScaler scaler({8, 1999});
  EXPECT_FALSE(scaler.update(false));
  EXPECT_TRUE(scaler.update(true));
  EXPECT_EQ(scaler.state(), (LossScale{4, 1}));
}

}  // namespace
}  // namespace mptune::testing

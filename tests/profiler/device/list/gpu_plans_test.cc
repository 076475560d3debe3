#include "profiler/device/list/gpu_plans.h"

#include <gtest/gtest.h>

namespace mptune::profiler {
namespace {

TEST(PlansOfGpus, PartsOfHopper) {
  const SmResource h100{132, 8, 8};
  EXPECT_EQ(sms_per_part(h100, 1), 128);
  EXPECT_EQ(sms_per_part(h100, 2), 64);
  EXPECT_EQ(sms_per_part(h100, 3), 40);
  EXPECT_EQ(sms_per_part(h100, 4), 32);
  EXPECT_EQ(sms_per_part(h100, 16), 8);
  EXPECT_EQ(sms_per_part(h100, 17), 0) << "less than the least";
}

TEST(PlansOfGpus, PartsOfOthers) {
  EXPECT_EQ(sms_per_part({108, 4, 2}, 2), 54);
  EXPECT_EQ(sms_per_part({108, 4, 2}, 5), 20);
  EXPECT_EQ(sms_per_part({108, 4, 2}, 27), 4);
  EXPECT_EQ(sms_per_part({108, 4, 2}, 28), 0);
  EXPECT_EQ(sms_per_part({4, 8, 8}, 1), 0) << "smaller than one part";
  EXPECT_EQ(sms_per_part({0, 0, 1}, 2), 0);
  EXPECT_EQ(sms_per_part({132, 8, 8}, 0), 0);
}

TEST(PlansOfGpus, PartsNeverExceedTheGpu) {
  for (int count = 1; count < 200; ++count)
    for (int parts = 1; parts <= 16; ++parts)
      for (const int multiple : {1, 2, 8}) {
        const int sms = sms_per_part({count, multiple, multiple}, parts);
        EXPECT_LE(sms * parts, count);
        EXPECT_EQ(sms % multiple, 0);
        EXPECT_GT((sms + multiple) * parts, count) << "more would fit";
      }
}

TEST(PlansOfGpus, StagingPieces) {
  using Pieces = std::vector<StagingPiece>;
  EXPECT_EQ(staging_pieces(0, 100, 2), Pieces{});
  EXPECT_EQ(staging_pieces(1, 100, 2), (Pieces{{0, 1, 0}}));
  EXPECT_EQ(staging_pieces(100, 100, 2), (Pieces{{0, 100, 0}}));
  EXPECT_EQ(staging_pieces(101, 100, 2), (Pieces{{0, 100, 0}, {100, 1, 1}}));
  EXPECT_EQ(staging_pieces(350, 100, 3), (Pieces{{0, 100, 0}, {100, 100, 1}, {200, 100, 2}, {300, 50, 0}}));
}

}  // namespace
}  // namespace mptune::profiler

#include "profiler/trace/ranks/clocks.h"

#include <gtest/gtest.h>

#include <random>

#include "tests/profiler/trace/ranks/recorded_job.h"

namespace mptune::profiler {
namespace {

Nanoseconds ns(double value) {
  return Nanoseconds{std::llround(value)};
}

/// Ends of 200 communications over a second. `late`: share of those that a sender left behind, by up to 20 ms.
std::vector<EndPair> ends(double offset, double drift, double noise, double late, std::mt19937& random) {
  std::vector<EndPair> pairs;
  std::uniform_real_distribution<double> share(0, 1);
  for (int i = 0; i < 200; ++i) {
    const double own = 5e6 * i + 1e6 * share(random);
    double common = own + offset + drift * own + noise * (2 * share(random) - 1);
    if (share(random) < late) common -= 20e6 * share(random);
    pairs.push_back({ns(common), ns(own)});
  }
  return pairs;
}

TEST(FitClock, FindsOffsetAndDriftToTheMicrosecondInThreeHundredCases) {
  std::mt19937 random(1);
  std::uniform_real_distribution<double> any(-1, 1);
  for (int i = 0; i < 300; ++i) {
    const double offset = 1e9 * any(random), drift = 1e-4 * any(random), noise = i % 3 == 0 ? 0 : 500, late = i % 2 == 0 ? 0 : 0.3;
    const auto fit = fit_clock(ends(offset, drift, noise, late, random));
    ASSERT_TRUE(fit);
    for (const double own : {0.0, 5e8, 1e9}) {
      const double found = static_cast<double>(fit->clock.common(ns(own)).count());
      EXPECT_NEAR(found, own + offset + drift * own, noise == 0 ? 2 : 1000) << i << ": offset " << offset << ", drift " << drift;
    }
    EXPECT_LE(fit->error, ns(noise == 0 ? 3 : 2000)) << i;
    EXPECT_GE(fit->error, ns(noise / 4)) << i;
  }
}

TEST(FitClock, TakesFewPairsForAnOffsetAlone) {
  EXPECT_FALSE(fit_clock({}));
  const auto one = fit_clock({{ns(700), ns(200)}});
  EXPECT_EQ(one->clock.offset, ns(500));
  EXPECT_EQ(one->clock.drift, 0);
  const auto two = fit_clock({{ns(700), ns(200)}, {ns(5e6 + 504), ns(5e6)}});
  EXPECT_EQ(two->clock.drift, 0) << "two pairs lie on a line, whatever they are";
  EXPECT_NEAR(static_cast<double>(two->clock.offset.count()), 502, 3);
}

TEST(FitClock, FindsNoDriftInAMomentOfNoise) {
  std::vector<EndPair> pairs;
  for (int i = 0; i < 20; ++i) pairs.push_back({ns(100 * i + 5000 + (i % 7) * 10), ns(100 * i)});
  EXPECT_EQ(fit_clock(pairs)->clock.drift, 0);
}

TEST(Clock, FollowsAnother) {
  const Clock inner{ns(1000), 1e-5}, outer{ns(-500), -2e-5};
  for (const double own : {0.0, 1e6, 1e9}) {
    const Nanoseconds twice = outer.common(inner.common(ns(own)));
    EXPECT_NEAR(static_cast<double>(inner.then(outer).common(ns(own)).count()), static_cast<double>(twice.count()), 2);
  }
}

RankRecording rank_with(int rank, const std::vector<int>& groups, Nanoseconds offset, double drift) {
  testing::RecordedRank recorded(rank, offset, drift);
  for (int i = 0; i < 40; ++i) recorded.collective(1'000'000 * (i + 1), 1'000'000 * (i + 1) + 500'000, i);
  RankRecording recording = recorded.recording();
  for (std::size_t i = 0; i < recording.communications.size(); ++i) {
    recording.communications[i].group = std::to_string(groups[i % groups.size()]);
    recording.communications[i].members.clear();
  }
  return recording;
}

TEST(AlignClocks, GoesAlongTheRanksThatCommunicate) {
  // Ranks 0 and 2 share nothing; 1 shares a group with each. Rank 3 has no partner.
  std::vector<RankRecording> recordings{rank_with(0, {1}, ns(0), 0), rank_with(1, {1, 2}, ns(3e6), 2e-5),
                                        rank_with(2, {2}, ns(-7e6), -1e-5), rank_with(3, {9}, ns(0), 0)};
  recordings[0].trace.started_utc_ns = 1'700'000'000'000'000'000;
  recordings[3].trace.started_utc_ns = 1'700'000'000'000'250'000;
  for (std::size_t r : {std::size_t{0}, std::size_t{2}})
    std::erase_if(recordings[r].communications, [&](const Communication& one) { return one.sequence % 2 != static_cast<int>(r / 2); });
  const std::vector<AlignedClock> clocks = align_clocks(recordings, find_meetings(recordings));
  EXPECT_EQ(clocks[0].source, ClockSource::reference);
  EXPECT_EQ(clocks[1].towards, 0);
  EXPECT_EQ(clocks[2].towards, 1);
  EXPECT_NEAR(static_cast<double>(clocks[1].clock.offset.count()), 3e6, 10);
  EXPECT_NEAR(static_cast<double>(clocks[2].clock.offset.count()), -7e6, 10);
  EXPECT_NEAR(clocks[2].clock.drift, -1e-5, 1e-7);
  EXPECT_EQ(clocks[3].source, ClockSource::wall_clock);
  EXPECT_EQ(clocks[3].clock.offset, ns(250'000));
  recordings[3].trace.started_utc_ns = 0;
  EXPECT_EQ(align_clocks(recordings, find_meetings(recordings))[3].source, ClockSource::none);
}

TEST(AlignClocks, ReadsALineTheOtherWayRound) {
  // The lowest recording is reached from a higher one: 0 with 2, 2 with 1.
  std::vector<RankRecording> recordings{rank_with(0, {1}, ns(0), 0), rank_with(1, {2}, ns(4e6), 3e-5),
                                        rank_with(2, {1, 2}, ns(-2e6), -2e-5)};
  for (std::size_t r : {std::size_t{0}, std::size_t{1}})
    std::erase_if(recordings[r].communications, [&](const Communication& one) { return one.sequence % 2 != static_cast<int>(r); });
  const std::vector<AlignedClock> clocks = align_clocks(recordings, find_meetings(recordings));
  EXPECT_EQ(clocks[1].towards, 2);
  EXPECT_NEAR(static_cast<double>(clocks[1].clock.offset.count()), 4e6, 20);
  EXPECT_NEAR(clocks[1].clock.drift, 3e-5, 1e-7);
}

}  // namespace
}  // namespace mptune::profiler

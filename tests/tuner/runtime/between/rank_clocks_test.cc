#include "tuner/runtime/between/rank_clocks.h"

#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <cmath>
#include <memory>
#include <random>
#include <thread>

#include "tests/support/gloo_ranks.h"
#include "tests/support/thread_ranks.h"

namespace mptune::tuner {
namespace {

using namespace std::chrono_literals;

/// A clock that is exactly a line of rank 0's, in numbers longer than those of any host.
struct Line {
  Nanoseconds offset{0};  ///< rank 0's less the own one, at `middle`
  double drift = 0;
  Nanoseconds middle = 2000h;

  [[nodiscard]] Nanoseconds offset_at(Nanoseconds own) const {
    return offset + Nanoseconds(std::llround(drift * static_cast<double>((own - middle).count())));
  }
  [[nodiscard]] Nanoseconds own(Nanoseconds first) const {
    const double ahead = static_cast<double>((first - offset - middle).count());
    return middle + Nanoseconds(std::llround(ahead / (1 + drift)));
  }
};

void expect_within(const RankClock& clock, const Line& line, Nanoseconds from, Nanoseconds to) {
  for (int i = 0; i <= 10; ++i) {
    const Nanoseconds own = from + i * (to - from) / 10, wanted = own + line.offset_at(own);
    EXPECT_LE(std::chrono::abs(clock.common(own) - wanted), clock.error + 1us) << i;
  }
}

TEST(RankClock, KnownOffsetsAndDriftsAreFoundWithinTheStatedError) {
  std::mt19937 random(1);
  for (const Nanoseconds offset : {Nanoseconds(1s), Nanoseconds(-300ms), Nanoseconds(0)})
    for (const double drift : {1e-4, -1e-4, 2e-6, 0.0})
      for (const Nanoseconds passed : {Nanoseconds(1ms), Nanoseconds(400ms), Nanoseconds(60s)})
        for (const Nanoseconds error : {Nanoseconds(0), Nanoseconds(5us), Nanoseconds(80us)}) {
          const Line line{offset, drift};
          const auto read = [&](Nanoseconds own, Nanoseconds doubt) {
            std::uniform_int_distribution<std::int64_t> off(-doubt.count(), doubt.count());
            return ClockReading{own, line.offset_at(own) + Nanoseconds(off(random)), doubt};
          };
          const Nanoseconds end = line.middle + passed;
          const RankClock clock = clock_between(read(line.middle, error), read(end, error / 2));
          expect_within(clock, line, line.middle, end);
          EXPECT_LE(clock.error, 3 * error + 1us);
          EXPECT_LT(std::abs(clock.since_reference.drift), 3.1e-4);
        }
}

TEST(RankClock, HasADriftWhereItShowsOverTheErrors) {
  const ClockReading first{100s, 5ms, 10us};
  const auto drift_after = [&](Nanoseconds passed, Nanoseconds moved) {
    return clock_between(first, {first.own + passed, first.offset + moved, 20us}).since_reference.drift;
  };
  EXPECT_EQ(drift_after(299ms, 30us), 0);
  EXPECT_DOUBLE_EQ(drift_after(300ms, 30us), 1e-4);
  EXPECT_DOUBLE_EQ(drift_after(100ms, -31us), -3.1e-4);
  EXPECT_EQ(drift_after(Nanoseconds(0), 40us), 0);
}

TEST(RankClock, WithoutADriftTakesTheCleanerReading) {
  const ClockReading rough{100s, 40us, 30us}, clean{100s + 1ms, 20us, 4us};
  for (const RankClock& clock :
       {clock_between(rough, clean), clock_between({rough.own, clean.offset, clean.error}, {clean.own, rough.offset, rough.error})}) {
    EXPECT_EQ(clock.common(100s), 100s + 20us);
    EXPECT_EQ(clock.error, 50us);  // the rough reading may be right as far as 70 us, or 10 us
  }
}

/// Ranks whose clocks are lines of this host's.
void expect_clocks_found(const std::shared_ptr<RankGroup>& group, Nanoseconds started) {
  const std::array<Line, 3> lines{Line{.middle = started}, Line{1s, 1e-4, started}, Line{-20ms, -1e-4, started}};
  const Line& line = lines.at(static_cast<std::size_t>(group->rank()));
  const auto now = [&] { return line.own(steady_now()); };
  RankStreams streams(group);
  const ClockReading first = read_clocks(streams, 4, now);
  std::this_thread::sleep_for(20ms);
  const ClockReading last = read_clocks(streams, 4, now);
  for (const ClockReading& reading : {first, last})
    EXPECT_LE(std::chrono::abs(reading.offset - line.offset_at(reading.own)), reading.error + 1us);
  EXPECT_LE(first.own, last.own);
  expect_within(clock_between(first, last), line, first.own, last.own);
  if (group->rank() == 0) {
    EXPECT_EQ(last.offset, Nanoseconds(0));
    EXPECT_EQ(last.error, Nanoseconds(0));
  } else {
    EXPECT_GT(last.error, Nanoseconds(0));
  }
}

TEST(ReadClocks, EveryRankFindsItsOffsetInMemory) {
  const Nanoseconds started = steady_now();
  testing::ThreadRanks(3).run([&](const std::shared_ptr<RankGroup>& group) { expect_clocks_found(group, started); });
}

TEST(ReadClocks, EveryRankFindsItsOffsetOverGloo) {
  const Nanoseconds started = steady_now();
  testing::run_gloo(3, 60, [&](const std::shared_ptr<RankGroup>& group) { expect_clocks_found(group, started); });
}

TEST(ReadClocks, ARankAloneIsTheFirst) {
  testing::ThreadRanks(1).run([](const std::shared_ptr<RankGroup>& group) {
    RankStreams streams(group);
    const ClockReading reading = read_clocks(streams, 4);
    EXPECT_LE(reading.own, steady_now());
    EXPECT_EQ(clock_between(reading, reading).common(7s), 7s);
  });
}

}  // namespace
}  // namespace mptune::tuner

#include "mptune/profiler/statistics/verdict.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <random>

#include "mptune/profiler/trace/error.h"

namespace mptune {
namespace {

struct Series {
  Samples baseline;
  Samples candidate;
};

// `rounds` rounds of baseline and candidate in alternating order; `time(side, place)` with side 1 for the candidate.
Series alternate(int rounds, const std::function<double(int, int)>& time) {
  Series series;
  for (int round = 0; round < rounds; ++round) {
    for (int position = 0; position < 2; ++position) {
      const int side = (round + position) % 2;
      Samples& samples = side == 1 ? series.candidate : series.baseline;
      samples.values.push_back({.value = time(side, 2 * round + position), .round = round, .position = position});
    }
  }
  return series;
}

TEST(PairedSpeedup, NamesThePlainCases) {
  std::mt19937 random(1);
  std::normal_distribution<double> noise(0, 0.003);
  const auto judged = [&](double candidate) {
    const Series s = alternate(30, [&](int side, int) { return (side == 1 ? candidate : 1.0) * (1 + noise(random)); });
    return paired_speedup(s.baseline, s.candidate);
  };
  const Speedup fast = judged(0.8);
  EXPECT_EQ(fast.verdict, Verdict::fast);
  EXPECT_NEAR(fast.estimate, 1.25, 0.01);
  EXPECT_EQ(fast.pairs, 30);
  EXPECT_LT(fast.ci95.low, fast.estimate);
  EXPECT_GT(fast.ci95.high, fast.estimate);
  EXPECT_EQ(judged(1.2).verdict, Verdict::slow);
  EXPECT_EQ(judged(1.0).verdict, Verdict::same);
  EXPECT_NE(judged(1.0).reason.find("30 pairs"), std::string::npos);
}

TEST(PairedSpeedup, IsAmbiguousWhenNoiseHidesTheAnswer) {
  std::mt19937 random(2);
  std::normal_distribution<double> noise(0, 0.2);
  const Series s = alternate(8, [&](int, int) { return std::exp(noise(random)); });
  EXPECT_EQ(paired_speedup(s.baseline, s.candidate).verdict, Verdict::ambiguous);
}

TEST(PairedSpeedup, NeedsFivePairs) {
  const Samples baseline = samples_of({2, 2, 2, 2, 2});
  EXPECT_EQ(paired_speedup(baseline, samples_of({1, 1, 1, 1})).verdict, Verdict::unknown);
  EXPECT_EQ(paired_speedup(baseline, samples_of({1, 1, 1, 1, 1})).verdict, Verdict::fast);
  EXPECT_EQ(paired_speedup({}, {}).verdict, Verdict::unknown);
}

TEST(PairedSpeedup, LeavesOutSamplesWithoutAPartner) {
  Samples baseline = samples_of({2, 2, 2, 2, 2, 100});
  Samples candidate = samples_of({1, 1, 1, 1, 1});
  candidate.values.push_back({.value = 100, .round = 77});
  const Speedup speedup = paired_speedup(baseline, candidate);
  EXPECT_EQ(speedup.pairs, 5);
  EXPECT_EQ(speedup.ci95, (Interval{2, 2}));
}

TEST(PairedSpeedup, TakesTheMedianOfASideWithinARound) {
  Samples baseline;
  Samples candidate;
  for (int round = 0; round < 6; ++round) {  // ABBA under a drift of 10 per place
    baseline.values.push_back({.value = 100, .round = round, .position = 0});
    candidate.values.push_back({.value = 110, .round = round, .position = 1});
    candidate.values.push_back({.value = 120, .round = round, .position = 2});
    baseline.values.push_back({.value = 130, .round = round, .position = 3});
  }
  EXPECT_EQ(paired_speedup(baseline, candidate).estimate, 1);
}

int false_winners(int rounds, double noise_sigma, double drift, unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<double> noise(0, noise_sigma);
  int winners = 0;
  for (int repeat = 0; repeat < 2000; ++repeat) {
    const Series s = alternate(rounds, [&](int, int place) { return (1 + drift * place / (2.0 * rounds)) * (1 + noise(random)); });
    const Verdict verdict = paired_speedup(s.baseline, s.candidate).verdict;
    winners += verdict == Verdict::fast || verdict == Verdict::slow;
  }
  return winners;
}

TEST(PairedSpeedup, FindsFewFalseWinnersBetweenEquals) {
  // 6 pairs is the least that reaches 95 %; noise so large that no interval hides in the band of 2 %.
  for (const int rounds : {6, 20, 30}) EXPECT_LE(false_winners(rounds, 0.1, 0, 5), 2000 * 0.055) << rounds;
}

TEST(PairedSpeedup, SurvivesADriftOfTheClock) {
  // 3 % over 60 steps, 1 % noise, 30 steps each: separate blocks call equals different every time.
  EXPECT_LE(false_winners(30, 0.01, 0.03, 6), 2000 * 0.05);
}

TEST(PairedSpeedup, FindsADriftingTrueWinner) {
  std::mt19937 random(7);
  std::normal_distribution<double> noise(0, 0.01);
  int found = 0;
  for (int repeat = 0; repeat < 200; ++repeat) {
    const Series s =
        alternate(30, [&](int side, int place) { return (side == 1 ? 0.96 : 1.0) * (1 + 0.0005 * place) * (1 + noise(random)); });
    found += paired_speedup(s.baseline, s.candidate).verdict == Verdict::fast;
  }
  EXPECT_GE(found, 195);
}

TEST(Verdict, TextGoesBothWays) {
  for (const char* text : {"FAST", "SLOW", "SAME", "AMBIGUOUS", "UNKNOWN"}) EXPECT_STREQ(to_string(verdict_from(text)), text);
  EXPECT_THROW((void)verdict_from("fast"), Error);
}

}  // namespace
}  // namespace mptune

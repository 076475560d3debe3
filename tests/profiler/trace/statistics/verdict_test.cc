#include "profiler/trace/statistics/verdict.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <random>

#include "profiler/base/error.h"

namespace mptune::profiler {
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

TEST(PairedSpeedup, GivesEveryVerdict) {
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
  ASSERT_TRUE(fast.ci95);
  EXPECT_LT(fast.ci95->low, fast.estimate);
  EXPECT_GT(fast.ci95->high, fast.estimate);
  EXPECT_EQ(fast.error_rate, 0.05);
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

TEST(PairedSpeedup, HasAnIntervalFromSixPairsOn) {
  const Samples baseline = samples_of({2, 2, 2, 2, 2, 2});
  EXPECT_FALSE(paired_speedup(baseline, samples_of({1, 1, 1, 1, 1})).ci95);
  EXPECT_EQ(paired_speedup(baseline, samples_of({1, 1, 1, 1, 1, 1})).ci95, (Interval{2, 2}));
  EXPECT_EQ(paired_speedup(baseline, samples_of({1, 1, 1, 1, 1, 1})).verdict, Verdict::fast);
  EXPECT_EQ(paired_speedup({}, {}).verdict, Verdict::unknown);
  EXPECT_FALSE(paired_speedup({}, {}).range);
}

TEST(PairedSpeedup, OfFourPairsTellsWhatLiesApart) {
  const Samples slow = samples_of({2.1, 1.9, 2.0, 2.2});
  const Speedup fast = paired_speedup(slow, samples_of({1, 1.1, 0.9, 1}));
  EXPECT_EQ(fast.verdict, Verdict::fast);
  EXPECT_FALSE(fast.ci95);
  EXPECT_NEAR(fast.range->low, 1.9 / 1.1, 1e-12);
  EXPECT_NEAR(fast.range->high, 2.0 / 0.9, 1e-12);
  EXPECT_NEAR(fast.error_rate.value(), 2.0 / 70, 1e-12);
  EXPECT_EQ(fast.reason, "4 pairs of 1.727 to 2.222, no times of the two overlap; so it is with equal plans in 2.9 %");
  EXPECT_EQ(paired_speedup(samples_of({1, 1.1, 0.9, 1}), slow).verdict, Verdict::slow);
  EXPECT_EQ(paired_speedup(slow, samples_of({1, 1.1, 0.9, 1.95})).verdict, Verdict::unknown) << "faster in each round, but not apart";
  EXPECT_EQ(paired_speedup(slow, samples_of({1, 1.1, 0.9})).verdict, Verdict::unknown) << "three pairs";
  const Samples close = samples_of({1.001, 1.002, 1.003, 1.004});
  EXPECT_EQ(paired_speedup(samples_of({1.011, 1.012, 1.013, 1.014}), close).verdict, Verdict::unknown) << "apart by less than matters";
}

// Every order of the times of two equal plans, counted.
TEST(ChanceOfApart, IsTheShareOfOrders) {
  for (const int pairs : {1, 2, 3, 4, 5}) {
    std::vector<bool> of_a(static_cast<std::size_t>(2 * pairs), false);
    std::fill(of_a.begin() + pairs, of_a.end(), true);
    int orders = 0, apart = 0;
    do {
      ++orders;
      apart += std::is_sorted(of_a.begin(), of_a.end()) || std::is_sorted(of_a.rbegin(), of_a.rend());
    } while (std::next_permutation(of_a.begin(), of_a.end()));
    EXPECT_NEAR(chance_of_apart(pairs), static_cast<double>(apart) / orders, 1e-12) << pairs;
  }
  EXPECT_EQ(chance_of_apart(0), 1);
  EXPECT_GT(chance_of_apart(kLeastPairs - 1), 0.05);
  EXPECT_LE(chance_of_apart(kLeastPairs), 0.05);
}

TEST(PairedSpeedup, LeavesOutSamplesWithoutAPartner) {
  Samples baseline = samples_of({2, 2, 2, 2, 2, 100});
  Samples candidate = samples_of({1, 1, 1, 1, 1});
  candidate.values.push_back({.value = 100, .round = 77});
  const Speedup speedup = paired_speedup(baseline, candidate);
  EXPECT_EQ(speedup.pairs, 5);
  EXPECT_EQ(speedup.range, (Interval{2, 2}));
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
  // Noise so large that no interval hides in the band of 2 %.
  for (const int rounds : {6, 20, 30}) EXPECT_LE(false_winners(rounds, 0.1, 0, 5), 2000 * 0.055) << rounds;
}

TEST(PairedSpeedup, SurvivesADriftOfTheClock) {
  // 3 % drift over 60 steps, 1 % noise, 30 steps each: measured in separate blocks, equal plans would always look different.
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

TEST(UnpairedRatio, JoinsTheIntervalsOfBothSides) {
  const MedianEstimate a{.median = 10, .ci95 = Interval{9, 12}, .samples = 9}, b{.median = 20, .ci95 = Interval{19, 21}, .samples = 20};
  const TimeRatio ratio = unpaired_ratio(a, b);
  ASSERT_TRUE(ratio.ci95);
  EXPECT_DOUBLE_EQ(ratio.estimate, 2);
  EXPECT_NEAR(std::log(2 / ratio.ci95->low), std::hypot(std::log(20.0 / 19), std::log(1.2)), 1e-12);
  EXPECT_NEAR(std::log(ratio.ci95->high / 2), std::hypot(std::log(1.05), std::log(10.0 / 9)), 1e-12);
  EXPECT_EQ(ratio.verdict, Verdict::slow);
  EXPECT_NE(ratio.reason.find("of 9 and 20 samples lies above 1"), std::string::npos) << ratio.reason;
}

TEST(UnpairedRatio, OfAnExactTimeIsTheIntervalOfTheOther) {
  const Samples b = samples_of({7, 1, 6, 2, 5, 3, 4, 8, 9});
  const TimeRatio ratio = unpaired_ratio({.median = 2, .ci95 = Interval{2, 2}, .samples = 5}, estimate(b));
  ASSERT_TRUE(ratio.ci95);
  EXPECT_NEAR(ratio.ci95->low, interval95(b)->low / 2, 1e-12);
  EXPECT_NEAR(ratio.ci95->high, interval95(b)->high / 2, 1e-12);
}

TEST(UnpairedRatio, ItsVerdictIsOnB) {
  const auto verdict = [](const std::vector<double>& a, const std::vector<double>& b) {
    return unpaired_ratio(estimate(samples_of(a)), estimate(samples_of(b))).verdict;
  };
  const std::vector<double> ones(6, 1.0);
  EXPECT_EQ(verdict(ones, {1.3, 1.3, 1.3, 1.3, 1.3, 1.31}), Verdict::slow);
  EXPECT_EQ(verdict({1.3, 1.3, 1.3, 1.3, 1.3, 1.31}, ones), Verdict::fast);
  EXPECT_EQ(verdict(ones, {1.019, 1.01, 1, 1, 0.99, 0.981}), Verdict::same);
  EXPECT_EQ(verdict(ones, {1.03, 1.01, 1, 1, 0.99, 0.981}), Verdict::ambiguous);
  EXPECT_EQ(verdict(ones, {2, 2, 2, 2, 2}), Verdict::unknown);
  EXPECT_EQ(verdict({2, 2, 2, 2, 2}, ones), Verdict::unknown);
  const TimeRatio few = unpaired_ratio(estimate(samples_of(ones)), estimate(exactly(2)));
  EXPECT_FALSE(few.ci95) << "one sample has no interval";
  EXPECT_NE(few.reason.find("B has only 1 of the 6 samples"), std::string::npos) << few.reason;
  EXPECT_THROW((void)verdict(ones, std::vector<double>(6, 0.0)), std::invalid_argument);
}

TEST(UnpairedRatio, WithinItsBandBIsNotSlower) {
  const auto judged = [](double ratio, double half, double band) {
    const MedianEstimate b{.median = ratio, .ci95 = Interval{ratio - half, ratio + half}, .samples = 9};
    return unpaired_ratio({.median = 1, .ci95 = Interval{1, 1}, .samples = 9}, b, band);
  };
  EXPECT_EQ(judged(1.05, 0.01, 0.02).verdict, Verdict::slow);
  EXPECT_EQ(judged(1.05, 0.01, 0.1).verdict, Verdict::same);
  EXPECT_EQ(judged(1.05, 0.04, 0.06).verdict, Verdict::ambiguous) << "slower, perhaps by more than the band";
  EXPECT_NE(judged(1.05, 0.04, 0.06).reason.find("lies above 1, but"), std::string::npos);
  EXPECT_EQ(judged(1.07, 0.04, 0.06).verdict, Verdict::slow);
  EXPECT_EQ(judged(0.97, 0.02, 0.02).verdict, Verdict::fast);
  EXPECT_EQ(judged(1, 0, 0).verdict, Verdict::same);
  EXPECT_THROW((void)judged(1, 0, -0.1), std::invalid_argument);
}

TEST(RatioOfRecordings, IsStudentsForLogarithms) {
  // Worked by hand: logarithms 0, 0.02 and 0.1, 0.14; variance (0.0002 + 0.0008) / 2, t of two degrees of freedom.
  const TimeRatio ratio = ratio_of_recordings({1, std::exp(0.02)}, {std::exp(0.1), std::exp(0.14)});
  EXPECT_NEAR(ratio.estimate, std::exp(0.11), 1e-9);
  ASSERT_TRUE(ratio.ci95);
  EXPECT_NEAR(std::log(ratio.ci95->high), 0.11 + 4.303 * std::sqrt(0.0005), 1e-6);
  EXPECT_NEAR(std::log(ratio.ci95->low), 0.11 - 4.303 * std::sqrt(0.0005), 1e-6);
  EXPECT_NE(ratio.reason.find("of 2 and 2 recordings"), std::string::npos) << ratio.reason;
  EXPECT_THROW((void)ratio_of_recordings({1}, {1}), std::invalid_argument);
  EXPECT_THROW((void)ratio_of_recordings({1, 0}, {1}), std::invalid_argument);
}

TEST(PooledDifference, CoversTheTruth) {
  std::mt19937 random(14);
  std::normal_distribution<double> law(0, 1);
  for (const auto& [n, m] : std::vector<std::pair<std::size_t, std::size_t>>{{1, 2}, {2, 2}, {2, 5}, {4, 4}}) {
    int covered = 0;
    for (int round = 0; round < 4000; ++round) {
      std::vector<double> a(n), b(m);
      for (double& value : a) value = 3 + law(random);
      for (double& value : b) value = 5 + law(random);
      const Interval interval = pooled_difference95(a, b);
      covered += interval.low <= 2 && 2 <= interval.high;
    }
    EXPECT_NEAR(covered, 4000 * 0.95, 4000 * 0.013) << n << " and " << m << ": no wider than needed, either";
  }
  EXPECT_THROW((void)pooled_difference95({1}, {1}), std::invalid_argument);
  EXPECT_THROW((void)pooled_difference95({}, {1, 2, 3}), std::invalid_argument);
}

TEST(UnpairedRatio, CoversTheTruth) {
  std::mt19937 random(11);
  std::exponential_distribution<double> skewed(1);
  std::normal_distribution<double> noise(0, 0.05);
  const std::vector<std::pair<std::size_t, std::size_t>> sizes{{6, 6}, {6, 40}, {8, 8}, {12, 30}, {44, 44}};
  for (const auto& [n, m] : sizes) {
    int covered_noise = 0, covered_skewed = 0;
    constexpr int kRounds = 2000;
    for (int round = 0; round < kRounds; ++round) {
      std::vector<double> a(n), b(m), c(m);
      for (double& value : a) value = std::exp(noise(random));
      for (double& value : b) value = 1.5 * std::exp(noise(random));
      for (double& value : c) value = skewed(random);
      const Interval normal = unpaired_ratio(estimate(samples_of(a)), estimate(samples_of(b))).ci95.value();
      const Interval other = unpaired_ratio(estimate(samples_of(a)), estimate(samples_of(c))).ci95.value();
      covered_noise += normal.low <= 1.5 && 1.5 <= normal.high;
      covered_skewed += other.low <= std::log(2.0) && std::log(2.0) <= other.high;
    }
    EXPECT_GE(covered_noise, kRounds * 0.94) << n << " and " << m;
    EXPECT_GE(covered_skewed, kRounds * 0.94) << n << " and " << m;
    // Not wastefully wide where there are many.
    EXPECT_LE(covered_noise, kRounds * (m >= 30 ? 0.99 : 1)) << n << " and " << m;
  }
}

TEST(UnpairedRatio, FindsFewFalseWinnersBetweenEquals) {
  std::mt19937 random(12);
  std::normal_distribution<double> noise(0, 0.1);
  int winners = 0;
  for (int repeat = 0; repeat < 2000; ++repeat) {
    std::vector<double> a(20), b(20);
    for (double& value : a) value = std::exp(noise(random));
    for (double& value : b) value = std::exp(noise(random));
    const Verdict verdict = unpaired_ratio(estimate(samples_of(a)), estimate(samples_of(b))).verdict;
    winners += verdict == Verdict::fast || verdict == Verdict::slow;
  }
  EXPECT_LE(winners, 2000 * 0.05);
}

TEST(MeanDifference, IsWelchs) {
  // Worked by hand: means 3 and 6, variances of the means 0.5 and 2, so 5.88 degrees of freedom, t = 2.459.
  const Interval interval = mean_difference95({1, 2, 3, 4, 5}, {2, 4, 6, 8, 10});
  EXPECT_NEAR(interval.low, 3 - 2.459 * std::sqrt(2.5), 0.02);
  EXPECT_NEAR(interval.high, 3 + 2.459 * std::sqrt(2.5), 0.02);
  EXPECT_EQ(mean_difference95({1, 1}, {3, 3}), (Interval{2, 2}));
  EXPECT_THROW((void)mean_difference95({1}, {3, 3}), std::invalid_argument);
}

TEST(MeanDifference, CoversTheTruth) {
  std::mt19937 random(13);
  std::normal_distribution<double> law(0, 1);
  const std::vector<std::pair<std::size_t, std::size_t>> sizes{{2, 2}, {3, 4}, {6, 6}, {6, 40}};
  for (const auto& [n, m] : sizes) {
    int covered = 0;
    for (int round = 0; round < 4000; ++round) {
      std::vector<double> a(n), b(m);
      for (double& value : a) value = 3 + law(random);
      for (double& value : b) value = 5 + law(random);
      const Interval interval = mean_difference95(a, b);
      covered += interval.low <= 2 && 2 <= interval.high;
    }
    EXPECT_GE(covered, 4000 * 0.94) << n << " and " << m;
  }
}

TEST(Verdict, TextGoesBothWays) {
  for (const char* text : {"FAST", "SLOW", "SAME", "AMBIGUOUS", "UNKNOWN"}) EXPECT_STREQ(to_string(verdict_from(text)), text);
  EXPECT_THROW((void)verdict_from("fast"), Error);
}

}  // namespace
}  // namespace mptune::profiler

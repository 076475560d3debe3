// How often verdicts from few pairs are wrong, against the rate that they state: by drawing measurements of plans whose times are known.
#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "profiler/trace/statistics/verdict.h"

namespace mptune::profiler {
namespace {

constexpr int kDraws = 20'000;

/// A machine whose speed walks from round to round, the same for both plans of a round; each step has noise of its own besides. Both are
/// sigmas of logarithms.
struct DriftingMachine {
  double drift = 0;
  double noise = 0;
  std::mt19937 random{15};
  std::normal_distribution<double> normal = std::normal_distribution<double>(0, 1);

  /// One series of a baseline of 1 s and a candidate.
  Speedup compare(int pairs, double candidate_s) {
    Samples baseline, candidate;
    double walk = 0;
    for (int round = 0; round < pairs; ++round) {
      walk += drift * normal(random);
      baseline.values.push_back({.value = std::exp(walk + noise * normal(random)), .round = round});
      candidate.values.push_back({.value = candidate_s * std::exp(walk + noise * normal(random)), .round = round});
    }
    return paired_speedup(baseline, candidate);
  }
};

TEST(ErrorRate, EqualPlansAreToldApartNoMoreOftenThanStated) {
  for (const int pairs : {4, 5}) {
    for (const double drift : {0.0, 0.05, 0.5}) {
      DriftingMachine machine{.drift = drift, .noise = 0.1};
      int wrong = 0;
      double stated = chance_of_apart(pairs);
      for (int draw = 0; draw < kDraws; ++draw) {
        const Speedup speedup = machine.compare(pairs, 1);
        if (speedup.verdict != Verdict::fast && speedup.verdict != Verdict::slow) continue;
        ++wrong;
        stated = speedup.error_rate.value();
      }
      const double share = static_cast<double>(wrong) / kDraws, spread = std::sqrt(stated * (1 - stated) / kDraws);
      EXPECT_LE(share, stated + 4 * spread) << pairs << " pairs, drift " << drift;
      if (drift == 0) {
        EXPECT_GE(share, stated - 4 * spread) << pairs << " pairs: the rate is no larger than it has to be";
      }
    }
  }
}

TEST(ErrorRate, TwiceAsFastIsAlwaysSeen) {
  for (const int pairs : {4, 5}) {
    DriftingMachine machine{.drift = 0.02, .noise = 0.05};
    int fast = 0;
    for (int draw = 0; draw < kDraws; ++draw) fast += machine.compare(pairs, 0.5).verdict == Verdict::fast;
    EXPECT_EQ(fast, kDraws) << pairs << " pairs";
  }
}

}  // namespace
}  // namespace mptune::profiler

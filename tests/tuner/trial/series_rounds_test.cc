#include "tuner/trial/series_rounds.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "profiler/base/index.h"

namespace mptune::tuner {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

Series series_of(int entries, int least_rounds, double budget_s = 1000) {
  Series series;
  series.entries.resize(as_index(entries));
  for (int i = 0; i < entries; ++i) series.entries[as_index(i)].importance = entries - i;
  series.rounds = 20;
  series.least_rounds = least_rounds;
  series.budget_s = budget_s;
  return series;
}

/// Runs a series; `step(entry, round)` is a step's time. Returns the steps that each entry had.
std::vector<int> steps_of(const Series& series, const std::function<double(int, int)>& step, int disturbed = 0) {
  SeriesRounds rounds(series);
  std::vector<int> steps(series.entries.size(), 0);
  double now = 0;
  for (int round = 0; rounds.next_fits(now, disturbed); ++round) {
    const double began = now;
    for (int entry = 0; entry < static_cast<int>(steps.size()); ++entry) {
      if (!rounds.takes_part(entry)) continue;
      const double took = step(entry, round);
      rounds.add(entry, {took, round, entry, now});
      now += took;
      ++steps[as_index(entry)];
    }
    static_cast<void>(rounds.end_round(now, now - began, disturbed));
  }
  return steps;
}

TEST(SeriesRounds, WithoutLeastRoundsAllTakePartInAll) {
  EXPECT_THAT(steps_of(series_of(3, 0), [](int entry, int) { return 1.0 + entry; }), ElementsAre(20, 20, 20));
  EXPECT_THAT(steps_of(series_of(3, 0, 13), [](int entry, int) { return 1.0 + entry; }), ElementsAre(2, 2, 2)) << "the budget";
  EXPECT_THAT(steps_of(series_of(3, 0, 1), [](int entry, int) { return 1.0 + entry; }), ElementsAre(1, 1, 1)) << "the first always";
}

TEST(SeriesRounds, TimeGoesToThoseThatAreHardToTellApart) {
  // Entry 2 takes twice as long; 0 and 1 differ by less than noise.
  const auto step = [](int entry, int round) { return (entry == 2 ? 2.0 : 1.0) * (1 + 0.01 * ((round + entry) % 3)); };
  EXPECT_THAT(steps_of(series_of(3, 6), step), ElementsAre(20, 20, 6));
  EXPECT_THAT(steps_of(series_of(3, 4), step), ElementsAre(20, 20, 4));
  // What the slow plan leaves, the others have.
  EXPECT_THAT(steps_of(series_of(3, 4, 30), step), ElementsAre(10, 10, 4));
  EXPECT_THAT(steps_of(series_of(3, 0, 30), step), ElementsAre(7, 7, 7));
}

TEST(SeriesRounds, ItEndsWhereOneIsFastest) {
  EXPECT_THAT(steps_of(series_of(3, 6), [](int entry, int) { return 1.0 + entry; }), ElementsAre(6, 6, 6));
}

TEST(SeriesRounds, PlansThatOverlapOrAreNearStay) {
  // Slower in every round, by more than 5 %, but the machine's phases are longer than that.
  const auto overlapping = [](int entry, int round) { return (1 + 0.2 * entry) * (1 + 0.5 * (round % 2)); };
  EXPECT_THAT(steps_of(series_of(2, 4), overlapping), ElementsAre(20, 20));
  const auto near = [](int entry, int) { return 1 + 0.04 * entry; };
  EXPECT_THAT(steps_of(series_of(2, 4), near), ElementsAre(20, 20)) << "apart by less than is at stake";
}

TEST(SeriesRounds, DisturbedRoundsDoNotCount) {
  EXPECT_THAT(steps_of(
                  series_of(2, 4), [](int entry, int) { return 1.0 + entry; }, 2),
              ElementsAre(6, 6));
}

TEST(SeriesRounds, InShortTimeTheImportantOnesHaveTheRoundsOfAVerdict) {
  // A round of all takes 10 s: four do not fit into 30 s, but of entries 0 and 1 they do.
  const auto step = [](int entry, int) { return entry < 2 ? 2.0 + entry : 5.0; };
  EXPECT_THAT(steps_of(series_of(3, 4, 30), step), ElementsAre(4, 4, 1));
  EXPECT_THAT(steps_of(series_of(3, 4, 12), step), ElementsAre(1, 1, 1)) << "two always stay";
}

TEST(SeriesRounds, AFailedPlanTakesPartNoMore) {
  const Series series = series_of(3, 4);
  SeriesRounds rounds(series);
  rounds.leave(0);
  EXPECT_FALSE(rounds.takes_part(0));
  EXPECT_TRUE(rounds.takes_part(1));
  for (int round = 0; round < 4; ++round) {
    EXPECT_TRUE(rounds.next_fits(0));
    rounds.add(1, {1, round, 1, 0});
    rounds.add(2, {1, round, 2, 0});
    EXPECT_THAT(rounds.end_round(0, 2), IsEmpty());
  }
  rounds.leave(1);
  rounds.leave(2);
  EXPECT_FALSE(rounds.next_fits(0)) << "nobody is left";
  EXPECT_THAT(rounds.end_round(0, 2), IsEmpty());
}

}  // namespace
}  // namespace mptune::tuner

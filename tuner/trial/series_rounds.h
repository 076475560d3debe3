#pragma once

#include <vector>

#include "tuner/trial/trial.h"

namespace mptune::tuner {

/// A plan that may be faster than the fastest by more is worth another measurement.
inline constexpr double kAtStake = 0.05;

/// Which plans take part in the next round of a series, so that its time goes to those that are hard to tell apart.
///
/// From Series::least_rounds on, a plan leaves if all its times lie above all of the fastest plan's, and each by more than kAtStake above
/// that of the same round. Looking after every round costs no certainty: times that lie apart later lie apart from the beginning.
/// If time runs short, the least important plans leave, so that two have the rounds that a verdict needs (kLeastPairs).
/// Without least_rounds, plans leave only by failing.
class SeriesRounds {
 public:
  explicit SeriesRounds(const Series& series);

  [[nodiscard]] bool takes_part(int entry) const;
  /// A timed step of the running round.
  void add(int entry, const Sample& sample);
  /// The plan failed.
  void leave(int entry);
  /// Ends a round that took so long. Returns the plans that leave with it. `now_s`: since the start of the series; `disturbed`: rounds so
  /// far.
  [[nodiscard]] std::vector<int> end_round(double now_s, double round_s, int disturbed = 0);
  /// Whether another round may begin: see round_fits(). Not where only one plan is left of several and it has its rounds.
  [[nodiscard]] bool next_fits(double now_s, int disturbed = 0) const;

 private:
  [[nodiscard]] std::vector<int> entries() const;  // that take part
  [[nodiscard]] bool is_settled(int entry, int fastest) const;
  [[nodiscard]] double longest_round_s() const;  // of those so far, without the plans that left

  const Series& series_;
  std::vector<Samples> samples_;
  std::vector<bool> left_;
  std::vector<double> rounds_s_;
};

}  // namespace mptune::tuner

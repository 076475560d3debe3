#pragma once

#include <vector>

#include "tuner/trial/trial.h"

namespace mptune::tuner {

/// A plan that may be faster than the fastest one by more than this share is worth another measurement.
inline constexpr double kAtStake = 0.05;

/// Decides which plans take part in the next round of a series, so that the time goes to those that are hard to tell apart.
///
/// From Series::least_rounds on, a plan leaves if all its times are longer than all times of the fastest plan, and each is longer by more
/// than kAtStake than the fastest plan's time in the same round. Looking after every round costs no certainty: times that lie apart later
/// lie apart from the beginning.
/// If time runs short, the least important plans leave, so that two plans get the rounds that a verdict needs (kLeastPairs).
/// Without least_rounds, plans leave only by failing.
class SeriesRounds {
 public:
  explicit SeriesRounds(const Series& series);

  [[nodiscard]] bool takes_part(int entry) const;
  /// Adds a timed step of the running round.
  void add(int entry, const Sample& sample);
  /// Takes out a plan that has failed.
  void leave(int entry);
  /// Ends a round that took `round_s` and returns the plans that leave after it. `now_s`: time since the start of the series; `disturbed`:
  /// number of disturbed rounds so far.
  [[nodiscard]] std::vector<int> end_round(double now_s, double round_s, int disturbed = 0);
  /// Returns whether another round may begin (see round_fits()). It may not where only one of several plans is left and has its least
  /// rounds.
  [[nodiscard]] bool next_fits(double now_s, int disturbed = 0) const;

 private:
  [[nodiscard]] std::vector<int> entries() const;  // the entries that take part
  [[nodiscard]] bool is_settled(int entry, int fastest) const;
  [[nodiscard]] double longest_round_s() const;  // of the rounds so far, without the steps of plans that left

  const Series& series_;
  std::vector<Samples> samples_;
  std::vector<bool> left_;
  std::vector<double> rounds_s_;
};

}  // namespace mptune::tuner

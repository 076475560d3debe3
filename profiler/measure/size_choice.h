#pragma once

#include <algorithm>
#include <limits>
#include <vector>

namespace mptune::profiler {

/// Ascending sizes in the order in which they are worth their time: the smallest two, as costs follow a line through two; the largest, so
/// that costs of none are extrapolated; then each time the middle of the widest gap by ratio, of equal ones the upper: 1, 2, 32, 8, 16, 4.
[[nodiscard]] std::vector<int> by_worth(const std::vector<int>& sizes);

/// Passes that the warm-up of a size takes: with a split and a whole backward, and a forward without gradients.
inline constexpr double kPassesOfWarmUp = 7.0 / 3;

/// The first passes at a size.
struct WarmUp {
  double seconds = 0;  ///< of all, with what happens once, such as the choice of kernels
  double pass_s = 0;   ///< of one pass, as later ones take
};

/// Which micro-batch sizes there is time to measure; they are asked for in the order of by_worth. A size takes a warm-up and counted
/// passes, in proportion to its samples, but for what happens once: four, one of them beside busy devices, count as twice the passes of the
/// warm-up.
class SizeChoice {
 public:
  /// There is time for all.
  SizeChoice() = default;
  SizeChoice(double budget_s, double most_s) : budget_s_(budget_s), most_s_(most_s) {}

  /// Whether there is time for one more size, so long after the first began: for its warm-up and the counted passes of all sizes. The
  /// smallest one is measured in any case. The second one, as costs follow a line through two, is if its warm-up ends in half the most.
  [[nodiscard]] bool fits(int size, double used_s) const {
    if (count_ == 0 || warmed_up_s(size, used_s) + kCountedPerWarmUp * sample_s_ * (samples_ + size) <= budget_s_) return true;
    return count_ == 1 && warmed_up_s(size, used_s) <= most_s_ / 2;
  }
  /// Whether the warm-up of a size ends within the budget, as far as the last size tells.
  [[nodiscard]] bool has_time_to_warm_up(int size, double used_s) const { return count_ > 0 && warmed_up_s(size, used_s) <= budget_s_; }
  /// A size was warmed up.
  void add(int size, const WarmUp& warm_up) {
    sample_s_ = kPassesOfWarmUp * warm_up.pass_s / size;
    once_s_ = std::max(0.0, warm_up.seconds - kPassesOfWarmUp * warm_up.pass_s);
    samples_ += size;
    ++count_;
  }

 private:
  static constexpr double kCountedPerWarmUp = 2;

  [[nodiscard]] double warmed_up_s(int size, double used_s) const { return used_s + once_s_ + sample_s_ * size; }

  double budget_s_ = std::numeric_limits<double>::infinity();
  double most_s_ = std::numeric_limits<double>::infinity();
  int count_ = 0;
  double samples_ = 0;   // of all sizes
  double sample_s_ = 0;  // the last size's passes of a warm-up, per sample
  double once_s_ = 0;    // what of its warm-up does not grow with the samples
};

}  // namespace mptune::profiler

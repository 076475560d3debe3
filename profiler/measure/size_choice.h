#pragma once

#include <algorithm>
#include <limits>
#include <vector>

namespace mptune::profiler {

/// Returns ascending sizes in the order in which they are worth their time: the smallest two, as costs follow a line through two points;
/// the largest, so that no costs are extrapolated; then repeatedly the middle of the widest gap by ratio, the upper one of equal gaps: 1,
/// 2, 32, 8, 16, 4.
[[nodiscard]] std::vector<int> by_worth(const std::vector<int>& sizes);

/// Passes that the warm-up of a size takes: with a split and a whole backward, and a forward without gradients.
inline constexpr double kPassesOfWarmUp = 7.0 / 3;

/// The first passes at a size.
struct WarmUp {
  double seconds = 0;  ///< of all passes, with what happens once, such as the choice of kernels
  double pass_s = 0;   ///< of one pass, as later ones take
};

/// Decides which micro-batch sizes there is time to measure; they are asked for in the order of by_worth. A size takes a warm-up and
/// counted passes, in proportion to its samples, except for what happens once. The four counted passes, one of them beside busy devices,
/// take twice as long as the warm-up.
class SizeChoice {
 public:
  /// Has time for all sizes.
  SizeChoice() = default;
  SizeChoice(double budget_s, double most_s) : budget_s_(budget_s), most_s_(most_s) {}

  /// True if, `used_s` after the first size began, there is time for the warm-up of one more size and the counted passes of all sizes. The
  /// smallest one is measured in any case. The second one, needed for a line, also fits if its warm-up ends within half of `most_s`.
  [[nodiscard]] bool fits(int size, double used_s) const {
    if (count_ == 0 || warmed_up_s(size, used_s) + kCountedPerWarmUp * sample_s_ * (samples_ + size) <= budget_s_) return true;
    return count_ == 1 && warmed_up_s(size, used_s) <= most_s_ / 2;
  }
  /// True if the warm-up of a size ends within the budget, judging by the last size.
  [[nodiscard]] bool has_time_to_warm_up(int size, double used_s) const { return count_ > 0 && warmed_up_s(size, used_s) <= budget_s_; }
  /// Call it when a size was warmed up.
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
  double samples_ = 0;   // of all sizes so far
  double sample_s_ = 0;  // warm-up passes of the last size, per sample
  double once_s_ = 0;    // the part of its warm-up that does not grow with the samples
};

}  // namespace mptune::profiler

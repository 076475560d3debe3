#pragma once

#include <algorithm>
#include <functional>
#include <utility>

namespace mptune::profiler {

/// The time for one part of measuring [s].
struct PartTime {
  double budget_s = 0;  ///< what it should take
  double most_s = 0;    ///< what the least useful result may take
};

/// Divides the time for layer costs among parts. Each part may take a share of the time left: its weight over the weights of the parts to
/// come. So a part that took longer shortens the later ones, and all end together. Reports which fraction is done, by weight.
class LayerTime {
 public:
  /// The parts should end at `ends_s` and must end at `last_s` on the clock `now_s`. `weights`: sum over all parts.
  LayerTime(std::function<double()> now_s, double ends_s, double last_s, double weights, std::function<void(double)> report)
      : now_s_(std::move(now_s)), ends_s_(ends_s), last_s_(last_s), weights_(weights), report_(std::move(report)) {}

  /// Returns the time of a part with this weight that begins now.
  [[nodiscard]] PartTime part(double weight) const {
    const double now = now_s_();
    const double share = weight / std::max(weight, weights_ - done_);
    return {std::max(0.0, ends_s_ - now) * share, std::max(0.0, last_s_ - now) * share};
  }

  /// Calls `measure` with the part's time and a function to report the part's own fraction to.
  template <class Measure>
  void spend(double weight, const Measure& measure) {
    measure(part(weight), std::function<void(double)>([&](double fraction) { report_((done_ + fraction * weight) / weights_); }));
    done_ += weight;
  }

 private:
  std::function<double()> now_s_;
  double ends_s_;
  double last_s_;
  double weights_;
  double done_ = 0;
  std::function<void(double)> report_;
};

}  // namespace mptune::profiler

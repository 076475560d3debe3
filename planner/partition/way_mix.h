#pragma once

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "mptune/planner/partition/prices.h"
#include "mptune/planner/partition/step_times.h"
#include "mptune/planner/partition/way_bounds.h"

namespace mptune {

/// Weighted means of ways. A mean is no longer than the longest of its ways, so its least length over all cuts (a shortest path) bounds
/// every plan: by far better than single ways where many devices share a step. The weights climb by subgradients (Held, Wolfe & Crowder,
/// Mathematical Programming 6, 1974): ways that are long on the cuts of the least mean weigh more from then on.
class WayMix {
 public:
  /// `prices` must outlive this.
  WayMix(const Prices& prices, int stages) : prices_(prices), stages_(stages) {}

  /// Takes part from now on.
  void add(const Way& way);
  [[nodiscard]] int ways() const { return static_cast<int>(ways_.size()); }

  /// Cuts on which the mean of the present weights is shortest, and its length there.
  struct Least {
    double ns = 0;
    std::vector<int> cuts;
  };
  /// Nothing if the windows allow no plan.
  [[nodiscard]] std::optional<Least> least(const Windows& windows) const;
  /// Weighs anew after `least`; `target_ns` is what the mean's length may reach at most.
  void reweigh(const Least& least, double target_ns);
  /// The best mean so far, its weights as whole numbers (Way::of).
  [[nodiscard]] Way best() const;

 private:
  // What a stage, and the copies behind it, add to the mean.
  struct Part {
    double fixed_ns = 0;
    std::vector<std::pair<const RangeTable*, double>> ranges;
    std::vector<double> by_cut;
  };
  [[nodiscard]] std::vector<Part> parts() const;
  [[nodiscard]] std::vector<double> lengths(const std::vector<int>& cuts) const;

  const Prices& prices_;
  int stages_;
  std::vector<Way> ways_;
  std::vector<double> weights_;  // add up to 1
  std::vector<double> best_weights_;
  double best_ns_ = -1;
  double pace_ = 1;
  int since_best_ = 0;  // rounds
};

}  // namespace mptune

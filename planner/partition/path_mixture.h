#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "planner/partition/path_bounds.h"
#include "planner/partition/prices.h"
#include "planner/partition/range_sum.h"
#include "planner/partition/step_times.h"

namespace mptune::planner {

/// A weighted mean of paths. The mean is at most as long as its longest path, so its least length over all cuts (a shortest-path problem)
/// is a lower bound of every plan. With several stages per device this bound is far better than that of single paths. Weights improve by
/// subgradients (Held, Wolfe & Crowder, Mathematical Programming 6, 1974): paths that are long on the cuts where the mean is shortest gain
/// weight.
class PathMixture {
 public:
  /// `prices` must outlive this object.
  PathMixture(const Prices& prices, int stages) : prices_(prices), stages_(stages) {}

  /// Adds a path to the mixture.
  void add(const Path& path);
  [[nodiscard]] int paths() const { return static_cast<int>(paths_.size()); }

  /// The cuts that minimise the mean with the current weights, and the mean's length there.
  struct Least {
    double ns = 0;
    std::vector<int> cuts;
  };
  /// Returns nullopt if the windows allow no plan.
  [[nodiscard]] std::optional<Least> least(const Windows& windows) const;
  /// Updates the weights by the lengths of the paths on the cuts of `least`. `target_ns` is the length that the mean should reach.
  void reweigh(const Least& least, double target_ns);
  /// Returns the best mean so far, its weights as whole numbers (Path::of).
  [[nodiscard]] Path best() const;

 private:
  [[nodiscard]] std::vector<RangeSum<double>> parts() const;
  [[nodiscard]] std::vector<double> lengths(const std::vector<int>& cuts) const;

  const Prices& prices_;
  int stages_;
  std::vector<Path> paths_;
  std::vector<double> weights_;  // they add up to 1
  std::vector<double> best_weights_;
  double best_ns_ = -1;
  double pace_ = 1;     // factor of the subgradient's step
  int since_best_ = 0;  // rounds since the best mean changed
};

}  // namespace mptune::planner

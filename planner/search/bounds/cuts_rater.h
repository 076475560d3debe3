#pragma once

#include <cstddef>
#include <vector>

#include "planner/search/bounds/stages_bound.h"

namespace mptune::planner {

/// Says how good cuts are by the paths of stages_bound.h: all paths count, the long ones far more. Known orders come near the paths where
/// stages have similar work: a stage with more than 1 / `evenness` times its share of all work counts as a path that is too long.
class CutsRater {
 public:
  /// The layers of a stage: [first, last).
  struct Range {
    std::size_t first = 0;
    std::size_t last = 0;
  };

  /// `devices` has the device of each stage. Both `devices` and `work` must outlive this object.
  CutsRater(const std::vector<int>& devices, const FamilyWork& work, bool splits, double evenness);

  /// Returns the stages of each device, ascending; devices are in the order of their first stages.
  [[nodiscard]] const std::vector<std::vector<std::size_t>>& on() const { return on_; }
  /// From now on paths of `ns` nanoseconds count 1. Requires: above 0.
  void scale(double ns) { scale_ns_ = ns; }

  struct Rating {
    double longest_ns = 0;
    double sum = 0;  ///< sum of high powers of all lengths
  };
  /// Rates the paths of all devices. Requires: `cuts` ascending, where stages may begin, one before each stage but the first.
  [[nodiscard]] Rating rate(const std::vector<int>& cuts);
  /// Rates the paths of one device, an index into on(), whose stages have these layers, with the copies of the cuts that were rated last.
  [[nodiscard]] Rating of_device(std::size_t device, const std::vector<Range>& stages) const;
  /// Returns the first layer of a stage; for the index after the last stage, the number of layers.
  [[nodiscard]] std::size_t begin(const std::vector<int>& cuts, std::size_t stage) const;

 private:
  void set_copies(const std::vector<int>& cuts);
  [[nodiscard]] bool receives(std::size_t s) const { return s > 0 && s < devices_.size() && devices_[s] != devices_[s - 1]; }
  [[nodiscard]] double sending_ns(std::size_t s) const;

  const std::vector<int>& devices_;
  const FamilyWork& work_;
  bool splits_;
  double uneven_ = 0;  // a stage's work times this factor counts as a path
  double scale_ns_ = 1;
  std::vector<std::vector<std::size_t>> on_;
  std::vector<double> send_;     // copy to each stage
  std::vector<double> send_in_;  // copy of the gradient from each stage
  std::vector<double> out_;      // actions and copies before each stage, of one micro-batch's forward; the last: of all stages
  std::vector<double> in_;       // actions and copies after each stage, of the backward
  std::vector<double> in_out_;   // actions and copies before each stage, of the backward
  std::vector<Range> ranges_;
};

}  // namespace mptune::planner

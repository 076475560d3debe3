#pragma once

#include <cstdint>
#include <map>
#include <tuple>
#include <utility>
#include <vector>

#include "planner/cost/cost_model.h"
#include "planner/search/stages_bound.h"

namespace mptune::planner {

/// A lower bound of a family's step over all cuts, found in microseconds. It decides the order in which families are searched.
class FamilyBound {
 public:
  /// `cost` must outlive this object.
  explicit FamilyBound(const CostModel& cost) : cost_(cost) {}

  struct Bound {
    std::int64_t step_ns = 0;
    std::vector<int> cuts;  ///< cuts whose step without copies is near the bound; strictly ascending, where the profile allows a cut
  };
  /// Returns the bound. `stages` has the devices of each stage, indices into the profile's; several are replicas. `splits` says that weight
  /// gradients may wait for the end.
  ///
  /// One stage a device: stage s with layers [a, b) cannot begin before one micro-batch is through the layers before a and, unless backward
  /// is split, not end before its gradient is back through them. In between, it works off all micro-batches, its first replica the most;
  /// then its gradients are summed over its replicas and its parameters updated. For a given step time the most layers that each stage can
  /// take are found from left to right, as a larger `a` never moves the largest `b` to the left.
  /// Several stages a device: the bound covers all work over all devices; all work over all micro-batches, unless backward is split; and,
  /// where work can't reach every device at once, what that leaves idle in any order of the actions.
  /// One stage on several devices: the bound holds for every plan on any of them, if backward is split.
  /// All: fewer micro-batches than devices leave devices idle until the first is through forward. No gradient is ready before that, so all
  /// backward over all devices follows. The last update has an equal part of all parameters or more. With `helps`, idle devices compute
  /// weight gradients of any stage, so all work goes over all devices; each is idle until a micro-batch reaches its first stage, as no
  /// weight gradient is ready before. Copies that the sending device makes are a part of its work. The bound holds for all rows. Requires:
  /// no more stages than layers; sizes that differ by at most one.
  [[nodiscard]] Bound of(const std::vector<std::vector<int>>& stages, const std::vector<int>& sizes, bool splits, bool helps = false);
  /// Returns a better bound of families whose stages have one device each and whose idle devices do not help (stages_bound.h). Takes up to
  /// milliseconds.
  [[nodiscard]] std::int64_t of_any_order(const std::vector<std::vector<int>>& stages, const std::vector<int>& sizes, bool splits);
  /// Returns, for the same families, cuts whose step in the best order is short: the best that changes of `cuts` find (suited_cuts() of
  /// stages_bound.h). Takes milliseconds. Requires: `cuts` of a plan.
  [[nodiscard]] std::vector<int> suited_cuts(const std::vector<std::vector<int>>& stages, const std::vector<int>& sizes, bool splits,
                                             double evenness, const std::vector<int>& cuts);
  /// Returns a bound of all families of several stages on these devices, replicas or not, with one stage on a device or none, whose idle
  /// devices do not help. Takes milliseconds where there are dozens of devices.
  [[nodiscard]] std::int64_t of_one_stage_per_device(const std::vector<int>& devices, const std::vector<int>& sizes);

 private:
  // Sums over the layers before an index, on the fastest of some device classes.
  struct Sums {
    std::vector<double> all;       // all micro-batches, forward and backward
    std::vector<double> once;      // one micro-batch; if backward is split, without weight gradients, which others may overlap
    std::vector<double> once_out;  // one micro-batch's forward
    std::vector<double> once_in;   // the part of one micro-batch's backward that the stage before waits for
    std::vector<double> back;      // all micro-batches, backward
  };
  [[nodiscard]] static std::int64_t rounded(double least, double step_cost, double operations);
  [[nodiscard]] static std::vector<int> united(const std::vector<std::vector<int>>& stages);
  [[nodiscard]] const Sums& sums(const std::vector<int>& devices, const std::vector<int>& sizes, bool splits);
  [[nodiscard]] const std::vector<std::int64_t>& boundaries(const std::vector<int>& sizes, bool gradients);
  [[nodiscard]] const std::vector<double>& end_sums(const std::vector<int>& devices, int replicas);
  [[nodiscard]] double least_end_ns(const std::vector<int>& devices);
  [[nodiscard]] double least_copy_s(int from, int to, const std::vector<int>& sizes, bool gradients);
  [[nodiscard]] double least_copies_ns(const std::vector<std::vector<int>>& stages, const std::vector<int>& sizes, bool splits);
  [[nodiscard]] double least_sending_ns(const std::vector<std::vector<int>>& stages, std::size_t s, const std::vector<int>& sizes);
  [[nodiscard]] FamilyWork work_of(const std::vector<std::vector<int>>& stages, const std::vector<int>& sizes, bool splits);
  void add_copies(const std::vector<std::vector<int>>& stages, const std::vector<int>& sizes, FamilyWork& work) const;
  [[nodiscard]] std::vector<int> allowed(std::vector<int> cuts, int stages) const;

  const CostModel& cost_;
  std::map<std::tuple<int, int, bool>, std::vector<std::int64_t>> boundaries_;  // by largest and smallest size, and direction
  std::map<std::tuple<int, int, int, int, bool>, double> least_copies_;         // by link, largest and smallest size, and direction
  std::map<std::pair<std::vector<int>, int>, std::vector<double>> end_sums_;    // by devices and replicas
  std::map<std::pair<std::vector<int>, std::vector<int>>, Sums> sums_;          // by device classes, and sizes, number and splits
};

}  // namespace mptune::planner

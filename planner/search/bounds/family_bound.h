#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <tuple>
#include <utility>
#include <vector>

#include "planner/cost/cost_model.h"
#include "planner/search/bounds/stages_bound.h"

namespace mptune::planner {

/// Lower bounds of a family's step over all cuts. of() decides the order in which families are searched: it takes microseconds.
class FamilyBound {
 public:
  /// `cost` must outlive this object.
  explicit FamilyBound(const CostModel& cost) : cost_(cost) {}

  struct Bound {
    std::int64_t step_ns = 0;
    std::vector<int> cuts;  ///< cuts whose step without copies is near the bound; strictly ascending, where the profile allows a cut
  };
  /// Returns the bound, which holds for all rows. `stages` has the devices of each stage, indices into the profile's; several are replicas.
  /// One stage on several devices stands for every plan on any of them, if backward is split. `splits`: weight gradients may wait for the
  /// end; `helps`: idle devices compute weight gradients of any stage. Requires: no more stages than layers; sizes that differ by at most
  /// one.
  [[nodiscard]] Bound of(const std::vector<std::vector<int>>& stages, const std::vector<int>& sizes, bool splits, bool helps = false);
  /// Returns a better bound of families whose stages have one device each and whose idle devices do not help (stages_bound.h). Takes up to
  /// milliseconds.
  [[nodiscard]] std::int64_t of_any_order(const std::vector<std::vector<int>>& stages, const std::vector<int>& sizes, bool splits);
  /// Improves the cuts of a plan of such a family locally, so that its step in the best order gets shorter (suited_cuts() of
  /// stages_bound.h), and returns them. Takes milliseconds.
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
  // What the bounds of a family have in common. Times are in nanoseconds.
  struct Facts {
    const std::vector<std::vector<int>>& stages;
    const std::vector<int>& sizes;
    bool splits;
    bool helps;
    const Sums& fastest;          // on the fastest of all devices
    std::size_t seats = 0;        // stages, each as often as it has replicas
    bool shares_devices = false;  // some device has several stages
    double devices = 0;
    double m = 0;                   // micro-batches
    double between = 0;             // cuts
    double copies = 0;              // of one micro-batch over one cut, there and back
    double action = 0;              // fixed cost of an action
    double pass = 0;                // fixed costs of one micro-batch's forward and backward on a stage
    double step_cost = 0;           // the least of the devices: a plan bounded here may leave devices out
    double end = 0;                 // the last update has an equal part of all parameters or more
    double everything = 0;          // all work of all devices, and the copies that sending devices make
    std::vector<double> sending{};  // copies of one micro-batch that the devices of each stage make
  };
  [[nodiscard]] Facts facts_of(const std::vector<std::vector<int>>& stages, const std::vector<int>& sizes, bool splits, bool helps);
  [[nodiscard]] double of_any_rows(const Facts& facts);
  [[nodiscard]] static double everything_and_idle(const Facts& facts);
  [[nodiscard]] static double of_shared_devices(const Facts& facts);
  [[nodiscard]] static std::vector<int> equal_shares(const Facts& facts);
  [[nodiscard]] std::pair<double, std::vector<int>> of_separate_devices(const Facts& facts);  // bound and cuts
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

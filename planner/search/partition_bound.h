#pragma once

#include <cstdint>
#include <vector>

#include "mptune/planner/cost/cost_model.h"

namespace mptune {

/// Lower bounds of all plans that share devices, micro-batches and the first cuts: what a search may leave out unseen.
/// Any schedule, with or without recomputation.
class PartitionBound {
 public:
  /// `devices` are those of each stage, several of them replicas, as indices into the profile's; no device has two stages.
  /// Requires: sizes that differ by at most one, larger ones first.
  PartitionBound(const CostModel& cost, std::vector<std::vector<int>> devices, const std::vector<int>& microbatch_sizes);

  [[nodiscard]] int stages() const { return static_cast<int>(devices_.size()); }
  [[nodiscard]] int layers() const { return layers_; }

  /// Nanoseconds of a step below which no plan with these first cuts lies; with stages() - 1 cuts, the plan itself.
  [[nodiscard]] std::int64_t step_ns(const std::vector<int>& cuts) const;

  /// Bytes below which the peak of the first device of stage `stage` with layers [first, last) does not lie, even recomputed.
  [[nodiscard]] std::int64_t bytes(int stage, int first, int last) const;

  /// Mean time over a stage's devices of its forwards and backwards of all micro-batches.
  [[nodiscard]] double load_ns(int stage, int first, int last) const;

 private:
  // Sums over the layers before an index, each on the fastest device of one stage.
  struct Sums {
    std::vector<double> forward_least;  // one micro-batch of the smallest size
    std::vector<double> backward_least;
    std::vector<double> forward_all;  // all micro-batches
    std::vector<double> backward_all;
    std::vector<std::int64_t> kept;  // one micro-batch of the smallest size
    std::vector<std::int64_t> owned;
    std::vector<double> end;            // the first device's share of the reduction, then its optimizer
    std::vector<double> send_output;    // by cut, to the next stage; smallest size
    std::vector<double> send_gradient;  // by cut, back from the next stage
    double action = 0;
  };
  // One device of a stage of a partition, or all stages that are still open as one.
  struct Part {
    double forward_least = 0;
    double backward_least = 0;
    double forward_all = 0;
    double backward_all = 0;
    double send_output = 0;
    double send_gradient = 0;
  };
  void add_sums(const CostModel& cost, int stage, int least, int most, int count_most, int count);
  void add_rest();
  [[nodiscard]] Part work(int stage, int first, int last) const;  // without the fixed cost of actions
  [[nodiscard]] Part part(int stage, int first, int last) const;

  std::vector<std::vector<int>> devices_;
  int layers_ = 0;
  int microbatches_ = 0;
  double step_cost_ = 0;
  std::vector<Sums> sums_;               // per stage
  std::vector<std::vector<Part>> rest_;  // per stage and first layer: the least that the layers from there cost on the stages from there
  std::vector<std::vector<double>> largest_;  // likewise: the most expensive layer, shared by as many replicas as any of these stages has
  std::vector<int> devices_from_;             // devices of a stage and those behind it
};

}  // namespace mptune

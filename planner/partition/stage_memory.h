#pragma once

#include <cstdint>
#include <optional>
#include <unordered_map>
#include <utility>
#include <vector>

#include "planner/cost/cost_model.h"
#include "planner/partition/family.h"
#include "planner/partition/path_bounds.h"

namespace mptune::planner {

/// The memory that a stage needs of its devices; other stages do not change it.
struct StageFit {
  std::int64_t peak_bytes = 0;    ///< peak of the device that needs most
  std::int64_t excess_bytes = 0;  ///< most bytes over a cap; below 0: bytes left under it
  int excess_device = -1;         ///< index into the family's devices
  bool recomputed = false;        ///< as a whole, or in pieces where Family::pieces_may_fit() and the whole does not fit
};

/// The memory of single stages, for families whose rows are the same for all cuts and put one stage on a device.
class StageMemory {
 public:
  /// Both arguments must outlive this object. Requires: family.rows_are_fixed() and family.one_stage_per_device().
  StageMemory(const Family& family, const CostModel& cost);

  /// Returns the memory of the stage with layers [first, last), exact by the cost model unless ran_out(). It is found once for every range.
  [[nodiscard]] const StageFit& need(int stage, int first, int last);
  /// Returns the number of ranges whose recomputation in pieces was tried.
  [[nodiscard]] std::int64_t in_pieces() const { return in_pieces_; }
  /// True if one more range was asked for than Family::most_in_pieces() allows.
  [[nodiscard]] bool ran_out() const { return ran_out_; }
  /// Returns for each first layer the last layer at which the stage may end; beyond it, the stage surely exceeds the cap of its first
  /// device.
  [[nodiscard]] std::vector<int> furthest(int stage) const;
  /// Returns a lower bound of the bytes over the cap of the stage's first device; far below 0 without a cap.
  [[nodiscard]] std::int64_t least_excess(int stage, int first, int last) const;

 private:
  struct Sums {
    std::vector<std::int64_t> buffers;  // sum of buffers before each layer
    std::vector<std::int64_t> saved;    // sum before each layer of what one micro-batch of the smallest size saves
    std::vector<std::int64_t> dropped;  // part of `saved`: the output of the layer before, if that layer's backward does not need it
    std::vector<std::int64_t> layer;    // what the layer saves, less its output if that is dropped
    std::int64_t in_flight = 1;
    std::int64_t in_flight_later = 1;  // micro-batches in flight once there are gradients
  };
  [[nodiscard]] Sums sums(int stage) const;
  [[nodiscard]] std::int64_t least_bytes(int stage, int first, int last, bool recomputed) const;
  enum class Again { nothing, all, pieces };
  // Returns the caps per device of the plan. Devices of other stages have none.
  [[nodiscard]] std::vector<std::int64_t> caps_of(const Stage& stage) const;
  [[nodiscard]] StageFit measure(int stage, int first, int last, Again again);

  const Family& family_;
  const CostModel& cost_;
  Plan plan_;               // its layer ranges are set for every question
  std::vector<Sums> sums_;  // empty without caps
  std::unordered_map<std::uint64_t, StageFit> known_;
  std::int64_t in_pieces_ = 0;
  bool ran_out_ = false;
};

}  // namespace mptune::planner

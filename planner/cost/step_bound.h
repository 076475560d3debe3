#pragma once

#include <cstdint>
#include <string>

#include "profiler/trace/values/profile.h"

namespace mptune {

class CostModel;

/// A bound on what a step takes: no plan's step takes longer, and no device needs more bytes.
class StepBound {
 public:
  /// Requires: a cost model whose other members are complete.
  explicit StepBound(const CostModel& cost);

  /// Throws Error where a step of `samples` samples, whatever its plan, may take more nanoseconds or bytes than 64 bits count (10^9 s, 2^60
  /// bytes: no real step).
  void require_countable(std::int64_t samples) const;

 private:
  struct Load {
    double seconds = 0;
    double bytes = 0;
  };
  [[nodiscard]] static Load most_per_sample(const CostModel& cost, int device, int layer);
  void add_layers(const CostModel& cost);
  void add_classes(const Profile& profile);
  void add_updates(const CostModel& cost);
  void add_copies(const CostModel& cost);
  void add_inputs(const CostModel& cost);
  void add_reserve(const Profile& profile);

  std::string model_;
  Load per_sample_;
  Load fixed_;  ///< the part of a step that does not depend on the samples
};

}  // namespace mptune

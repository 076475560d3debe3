#pragma once

#include <cstdint>

#include "planner/search/joint/evaluator.h"

namespace mptune::planner {

/// A part of the work that an evaluator has left when the share is made.
class WorkShare {
 public:
  /// The share is 1 / `divisor` of the work that is left. `evaluator` must outlive this object.
  WorkShare(Evaluator& evaluator, std::int64_t divisor)
      : evaluator_(evaluator), least_left_(evaluator.work_left() - evaluator.work_left() / divisor) {}

  /// Returns the simulated actions that are left of the share; negative: more was used.
  [[nodiscard]] std::int64_t left() const { return evaluator_.work_left() - least_left_; }
  /// True when the evaluator's work is spent, or the search was asked to stop, or more than the share was used.
  [[nodiscard]] bool spent() const { return evaluator_.spent() || left() < 0; }

 private:
  Evaluator& evaluator_;
  std::int64_t least_left_;
};

}  // namespace mptune::planner

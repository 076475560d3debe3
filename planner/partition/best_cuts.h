#pragma once

#include <cstdint>
#include <vector>

#include "planner/partition/family.h"
#include "profiler/base/index.h"

namespace mptune::planner {

/// The best plans of a family so far, in order.
class BestCuts {
 public:
  /// Plans that take longer than `longest_ns` do not count.
  BestCuts(int keep, std::int64_t longest_ns) : keep_(keep < 1 ? 1 : as_index(keep)), longest_ns_(longest_ns) {}

  /// Returns the longest step with which a plan enters, whatever its other figures.
  [[nodiscard]] std::int64_t enters_ns() const { return full() ? kept_.back().step_ns - 1 : longest_ns_; }
  /// Returns true if the plan entered. A plan that is listed already does not enter.
  bool add(RatedCuts rated);

  [[nodiscard]] bool empty() const { return kept_.empty(); }
  [[nodiscard]] bool full() const { return kept_.size() >= keep_; }
  [[nodiscard]] const std::vector<RatedCuts>& kept() const { return kept_; }

 private:
  std::size_t keep_;
  std::int64_t longest_ns_;
  std::vector<RatedCuts> kept_;
};

}  // namespace mptune::planner

#pragma once

#include <cstdint>
#include <vector>

#include "planner/published/load_problem.h"

namespace mptune::planner {

/// Returns `count` loads of `load_ns`, or the largest number where the product is larger. Requires: neither is negative.
[[nodiscard]] std::int64_t saturated_product(int count, std::int64_t load_ns);

/// How much work devices and hosts can do where no load is above a limit, with free copies and divisible groups.
class LoadBounds {
 public:
  explicit LoadBounds(const LoadProblem& problem);

  /// Returns the device nanoseconds of the groups that `hosts` host processors can run, each within `load_ns`; rounded up.
  [[nodiscard]] std::int64_t hosted_ns(int hosts, std::int64_t load_ns) const;
  /// Returns a bound: no split has a smaller largest load.
  [[nodiscard]] std::int64_t lower_bound_ns() const { return lower_bound_ns_; }
  /// Returns a bound: no split has a larger largest load.
  [[nodiscard]] std::int64_t upper_bound_ns() const { return upper_bound_ns_; }

 private:
  struct Share {
    double spared = 0;  ///< device nanoseconds per host nanosecond
    std::int64_t host_ns = 0;
    std::int64_t device_ns = 0;
  };
  [[nodiscard]] bool enough(const LoadProblem& problem, std::int64_t load_ns) const;

  std::vector<Share> shares_;  ///< running sums over the groups, those that spare most first
  std::int64_t lower_bound_ns_ = 0;
  std::int64_t upper_bound_ns_ = 0;
};

}  // namespace mptune::planner

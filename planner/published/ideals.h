#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "planner/published/load_problem.h"
#include "profiler/base/index.h"

namespace mptune::planner {

/// Sums over the groups of an ideal.
struct IdealSums {
  std::int64_t device_ns = 0;
  std::int64_t host_ns = 0;
  std::int64_t bytes = 0;
  std::int64_t cut_ns = 0;  ///< of the nets that reach out of it
  int groups = 0;
  int host_only = 0;  ///< groups that no device can run
};

/// Ideals: sets of groups that contain all predecessors of their members; what can lie before a cut. Stored as bits, with sums.
class Ideals {
 public:
  /// The empty ideal. Keeps a reference to `problem`.
  explicit Ideals(const LoadProblem& problem);

  [[nodiscard]] int size() const { return static_cast<int>(sums_.size()); }
  [[nodiscard]] const IdealSums& sums(int ideal) const { return sums_[as_index(ideal)]; }
  [[nodiscard]] bool holds(int ideal, int group) const;
  [[nodiscard]] bool subset(int ideal, int of) const;
  [[nodiscard]] bool full(int ideal) const { return sums(ideal).groups == problem_.size(); }
  /// Groups that can be added, ascending, and groups that can be taken away.
  [[nodiscard]] std::vector<int> open(int ideal) const;
  [[nodiscard]] std::vector<int> last(int ideal) const;
  /// Nanoseconds of copies of the groups of `of` that are not in `ideal`. Requires: subset(ideal, of).
  [[nodiscard]] std::int64_t copy_ns(int ideal, int of) const;

  /// Appends `ideal` with `group` added or taken away, one of open(ideal) and last(ideal); returns its index.
  int flip(int ideal, int group);
  /// Appends all ideals. Requires: only the empty one is there. False where there are more than `most`, or `stop` ended it: then do not use
  /// them.
  [[nodiscard]] bool add_all(std::int64_t most, const std::function<bool()>& stop);
  /// Sorts by work on a device, subsets first, and removes duplicates.
  void sort();

 private:
  [[nodiscard]] const std::uint64_t* members(int ideal) const { return bits_.data() + as_index(ideal) * stride_; }

  const LoadProblem& problem_;
  std::size_t words_ = 0;            ///< of 64 groups
  std::size_t stride_ = 0;           ///< words of an ideal: its groups, then the nets that reach out of it
  std::vector<std::uint64_t> bits_;  ///< of all ideals
  std::vector<IdealSums> sums_;
  std::vector<std::uint64_t> nets_;  ///< groups of each net
};

}  // namespace mptune::planner

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
  std::int64_t cut_ns = 0;  ///< copies of the nets that reach out of the ideal
  int groups = 0;
  int host_only = 0;  ///< groups that no device can run
};

/// Ideals are sets of groups that contain all predecessors of their members: what can lie before a cut. They are stored as bits, with sums.
class Ideals {
 public:
  /// Starts with the empty ideal. Keeps a reference to `problem`.
  explicit Ideals(const LoadProblem& problem);

  [[nodiscard]] int size() const { return static_cast<int>(sums_.size()); }
  [[nodiscard]] const IdealSums& sums(int ideal) const { return sums_[as_index(ideal)]; }
  [[nodiscard]] bool holds(int ideal, int group) const;
  [[nodiscard]] bool subset(int ideal, int of) const;
  [[nodiscard]] bool full(int ideal) const { return sums(ideal).groups == problem_.size(); }
  /// These return the groups that can be added, and those that can be taken away, ascending.
  [[nodiscard]] std::vector<int> open(int ideal) const;
  [[nodiscard]] std::vector<int> last(int ideal) const;
  /// Returns the nanoseconds of copies of the groups of `of` that are not in `ideal`. Requires: subset(ideal, of).
  [[nodiscard]] std::int64_t copy_ns(int ideal, int of) const;

  /// Appends `ideal` with `group` added or taken away, where `group` is one of open(ideal) or last(ideal). Returns the new index.
  int flip(int ideal, int group);
  /// Appends all ideals. Requires: only the empty one is there. Returns false where there are more than `most`, or `stop` ended it; the
  /// ideals must then not be used.
  [[nodiscard]] bool add_all(std::int64_t most, const std::function<bool()>& stop);
  /// Sorts by work on a device, subsets first, and removes duplicates.
  void sort();

 private:
  [[nodiscard]] const std::uint64_t* members(int ideal) const { return bits_.data() + as_index(ideal) * stride_; }

  const LoadProblem& problem_;
  std::size_t words_ = 0;            ///< words of 64 groups each
  std::size_t stride_ = 0;           ///< words of an ideal: its groups, then the nets that reach out of it
  std::vector<std::uint64_t> bits_;  ///< bits of all ideals
  std::vector<IdealSums> sums_;
  std::vector<std::uint64_t> nets_;  ///< groups of each net
};

}  // namespace mptune::planner

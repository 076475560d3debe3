#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <vector>

namespace mptune::planner {

/// What a range of layers adds, as one stage of a pipeline, to the closed form sum of all `sum_ns` + repeats x the largest `largest_ns`.
struct TurnCost {
  std::int64_t sum_ns = 0;
  std::int64_t largest_ns = 0;
  std::int64_t copied_bytes = 0;  ///< decides between equals: fewer bytes are better
  bool operator==(const TurnCost&) const = default;
};

/// A closed form to be minimized over the cuts of a chain. Both functions are called with 0 <= stage < stages, 0 <= first < last <= layers.
struct ChainProblem {
  int layers = 0;
  int stages = 0;
  std::int64_t repeats = 0;  ///< one less than the micro-batches
  /// Returns fast lower bounds of the numbers of `exact`. Empty: the range can't be this stage.
  std::function<std::optional<TurnCost>(int stage, int first, int last)> bound;
  /// Returns the exact cost. May be slow; called at most a few times per range. Empty: the range can't be this stage within `longest_ns`.
  std::function<std::optional<TurnCost>(int stage, int first, int last, std::int64_t longest_ns)> exact;
  /// Only cuts that take less than this are of interest.
  std::int64_t below_ns = std::numeric_limits<std::int64_t>::max();
  std::function<bool()> stop;  ///< asked before every sweep; true ends the search with what it has proved
};

/// Throws Error where the table of all ranges as stages would take more than 500 MB.
void check_chain_memory(int layers, int stages);

struct ChainCuts {
  static constexpr std::int64_t kNoCuts = std::numeric_limits<std::int64_t>::max();

  bool found = false;
  std::vector<int> cuts;     ///< first layers of all stages but the first
  std::int64_t step_ns = 0;  ///< sum + repeats x largest
  std::int64_t lower_bound_ns =
      0;                  ///< no cuts take less (below_ns if none below it exist; kNoCuts: none exist at all); step_ns if `complete`
  bool complete = false;  ///< true: the search was not stopped
  int sweeps = 0;
};

/// Returns the best cuts, with a proof. For a given limit of the largest stage the least sum is a shortest path, O(stages x layers^2). The
/// limit descends from the largest that can pay off to the least possible one, each time below the largest stage of the last plan. So only
/// points of the Pareto front of (sum, largest) are visited: this is the sweep over distinct stage costs of Alpa's inter-operator planner
/// (Zheng et al., OSDI 2022), without its tolerance. Ties go to fewer bytes copied, then to the lexicographically smallest cuts of those
/// found first. Throws as check_chain_memory() does. Requires: 1 <= stages <= layers, non-negative costs whose sums fit into 62 bits.
[[nodiscard]] ChainCuts best_chain_cuts(const ChainProblem& problem);

}  // namespace mptune::planner

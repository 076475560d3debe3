#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "planner/published/aceso.h"
#include "profiler/base/index.h"

namespace mptune::planner {

/// A choice of operators to recompute, in one piece or in several that follow each other.
struct AcesoChoice {
  std::int64_t time_ns = 0;
  std::int64_t saved_bytes = 0;  ///< bytes saved per micro-batch in flight
  std::int64_t again_bytes = 0;  ///< the most that any one run holds again
  std::vector<int> recomputed;   ///< indices of operators
};

/// How many sets of recomputed operators may still be looked at.
struct AcesoEffort {
  std::int64_t sets_left = 0;
  bool limited = false;  ///< sets were left out: one of them may take less time than the sets that were found
  /// Returns false, and sets `limited`, where fewer than `sets` sets are left.
  bool spend(std::int64_t sets);
};

/// Stages of one table at the prices of rate_aceso. Each range takes constant time, except for recomputation.
class AcesoStages {
 public:
  /// All arguments must outlive this object.
  AcesoStages(const AcesoProblem& problem, const AcesoTable& table, AcesoEffort& effort);

  [[nodiscard]] int operators() const { return static_cast<int>(table_.operators.size()); }
  [[nodiscard]] std::int64_t turn_ns(int first, int last) const;  ///< without recomputation
  [[nodiscard]] std::int64_t copied_bytes(int first) const { return op(first).input_bytes; }
  /// These return the bytes held and reserved without recomputation, with `in_flight` micro-batches.
  [[nodiscard]] std::int64_t held_bytes(int in_flight, int first, int last) const;
  [[nodiscard]] std::int64_t reserved_bytes(int first, int last) const;
  /// Returns the bytes that have to go for the range to fit. The range fits where this is not above 0.
  [[nodiscard]] std::int64_t excess_bytes(int in_flight, int first, int last) const;

  /// Returns a bound: no recomputation that makes the range fit takes less time. Empty: none makes it fit.
  [[nodiscard]] std::optional<std::int64_t> least_recompute_ns(int in_flight, int first, int last) const;
  /// Returns the recomputation of least time that makes the range fit, if there is one of at most `longest_ns`. Where the effort is
  /// limited, it is the best of those that were looked at, or recomputes the first pieces whole.
  [[nodiscard]] std::optional<AcesoChoice> recompute(int in_flight, int first, int last, std::int64_t longest_ns);
  /// Returns what these operators, ascending, save and hold again in a stage that ends before `stage_last`.
  [[nodiscard]] AcesoChoice effect(const std::vector<int>& recomputed, int stage_last) const;

 private:
  [[nodiscard]] const AcesoOperator& op(int i) const { return table_.operators[as_index(i)]; }
  [[nodiscard]] std::int64_t copy_ns(std::int64_t bytes) const;
  [[nodiscard]] bool ends_piece(int i) const { return i + 1 == operators() || op(i + 1).begins_piece; }
  [[nodiscard]] std::vector<int> piece_key(int first, int last, bool ends_stage) const;
  [[nodiscard]] std::optional<AcesoChoice> first_pieces(int in_flight, int first, int last, std::int64_t longest_ns) const;
  [[nodiscard]] std::optional<AcesoChoice> least_of_pieces(int in_flight, int first, int last, std::int64_t longest_ns);
  void keep_best(std::vector<AcesoChoice>& choices);
  const std::vector<AcesoChoice>& piece(int first, int last, bool ends_stage);
  void find_best_rate();
  void find_reserves();

  const AcesoProblem& problem_;
  const AcesoTable& table_;
  AcesoEffort& effort_;
  std::vector<std::int64_t> compute_ns_ = {0};  // sums over the operators before each one
  std::vector<std::int64_t> weights_ = {0};
  std::vector<std::int64_t> kept_ = {0};
  std::vector<std::int64_t> saveable_ = {0};  // over the operators before each: what they keep whose successors can be recomputed with them
  std::vector<std::int64_t> reserves_;        // per range
  std::vector<int> same_as_;                  // for each operator, the first operator that is alike
  double best_rate_ = 0;                      // most bytes that any run saves per nanosecond
  std::map<std::vector<int>, std::vector<AcesoChoice>> pieces_;
};

}  // namespace mptune::planner

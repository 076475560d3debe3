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
  std::int64_t saved_bytes = 0;  ///< per micro-batch in flight
  std::int64_t again_bytes = 0;  ///< most of any one run
  std::vector<int> recomputed;   ///< operators
};

/// How many sets of recomputed operators may still be looked at.
struct AcesoEffort {
  std::int64_t sets_left = 0;
  bool limited = false;  ///< sets were left out: one of them may take less time than those that were found
  /// False, and `limited`, where so many are not left.
  bool spend(std::int64_t sets);
};

/// Stages of one table at the prices of rate_aceso, each range in constant time but for recomputation.
class AcesoStages {
 public:
  /// All must outlive this.
  AcesoStages(const AcesoProblem& problem, const AcesoTable& table, AcesoEffort& effort);

  [[nodiscard]] int operators() const { return static_cast<int>(table_.operators.size()); }
  [[nodiscard]] std::int64_t turn_ns(int first, int last) const;  ///< without recomputation
  [[nodiscard]] std::int64_t copied_bytes(int first) const { return op(first).input_bytes; }
  /// Held and reserved without recomputation, with `in_flight` micro-batches.
  [[nodiscard]] std::int64_t held_bytes(int in_flight, int first, int last) const;
  [[nodiscard]] std::int64_t reserved_bytes(int first, int last) const;
  /// What has to go for the range to fit; not above 0: it fits.
  [[nodiscard]] std::int64_t excess_bytes(int in_flight, int first, int last) const;

  /// No recomputation that makes the range fit takes less time; empty: none makes it fit.
  [[nodiscard]] std::optional<std::int64_t> least_recompute_ns(int in_flight, int first, int last) const;
  /// The recomputation of least time that makes the range fit, if there is one of at most `longest_ns`. Where the effort is limited, the
  /// best of those that were looked at, or the first pieces recomputed whole.
  [[nodiscard]] std::optional<AcesoChoice> recompute(int in_flight, int first, int last, std::int64_t longest_ns);
  /// What these operators, ascending, save and hold again in a stage that ends before `stage_last`.
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
  std::vector<std::int64_t> compute_ns_ = {0};  // of the operators before each
  std::vector<std::int64_t> weights_ = {0};
  std::vector<std::int64_t> kept_ = {0};
  std::vector<std::int64_t> saveable_ = {0};  // of the operators before each: what they keep whose successors can be recomputed with them
  std::vector<std::int64_t> reserves_;        // per range
  std::vector<int> same_as_;                  // the first operator that is alike
  double best_rate_ = 0;                      // most bytes that any run saves per nanosecond
  std::map<std::vector<int>, std::vector<AcesoChoice>> pieces_;
};

}  // namespace mptune::planner

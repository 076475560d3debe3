#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "planner/cost/cost_model.h"
#include "planner/plan/parallelism.h"
#include "planner/search/space/search_space.h"
#include "profiler/base/index.h"

namespace mptune::planner {

/// Returns the largest peak of a plan's devices.
[[nodiscard]] std::int64_t most_bytes(const Candidate& candidate);

/// The fastest plans seen so far, and the best of each kind, in the order of SearchResult::ranked. Among plans that differ only in the
/// names of their devices, the better one is kept.
class Ranking {
 public:
  /// `cost`, which must outlive this object, knows the bytes that plans copy.
  Ranking(int keep, const CostModel& cost) : keep_(keep < 1 ? 1 : as_index(keep)), cost_(cost) {}

  void add(Parallelism kind, Candidate candidate);
  /// Makes the candidate the best of its kind without a place among the fastest, where it may stand already.
  void set_best(Parallelism kind, Candidate candidate) { best_[as_index(kind)] = std::move(candidate); }
  /// Makes the candidate the fastest plan in half the memory of the un-pipelined model, without a place among the fastest.
  void set_best_in_half_memory(Candidate candidate) { best_in_half_memory_ = std::move(candidate); }

  /// Returns the seconds above which no plan of several stages can enter any more; infinite while there is room.
  [[nodiscard]] double threshold() const;
  /// Returns the seconds of the best plan of a kind, infinite without one.
  [[nodiscard]] double best_s(Parallelism kind) const;
  [[nodiscard]] const std::optional<Candidate>& best(Parallelism kind) const { return best_[as_index(kind)]; }

  [[nodiscard]] const Candidate* fastest() const { return kept_.empty() ? nullptr : &kept_.front(); }
  /// Returns the fastest plan of several stages, with replicas or without; null without one.
  [[nodiscard]] const Candidate* fastest_of_several_stages() const;

  /// Returns the kept plans and the best of each kind, fastest first, each once.
  [[nodiscard]] std::vector<Candidate> ranked() const;

 private:
  [[nodiscard]] bool better(const Candidate& a, const Candidate& b) const;
  [[nodiscard]] std::int64_t copied_bytes(const Plan& plan) const;

  std::size_t keep_;
  const CostModel& cost_;
  std::vector<Candidate> kept_;
  std::array<std::optional<Candidate>, kParallelisms.size()> best_;
  std::optional<Candidate> best_in_half_memory_;
};

}  // namespace mptune::planner

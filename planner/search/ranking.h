#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "mptune/planner/cost/cost_model.h"
#include "mptune/planner/search/search.h"

namespace mptune {

/// Kinds of plans of which a search always returns the best. A hybrid is a pipeline with replicas of a stage.
enum class RankedAs : std::uint8_t { one_device, all_cores, data_parallel, pipeline, hybrid, half_memory };
inline constexpr int kRankedKinds = 6;

/// Largest peak of a plan's devices.
[[nodiscard]] std::int64_t most_bytes(const Candidate& candidate);

/// The fastest plans seen so far, and the best of each kind, in the order of SearchResult::ranked. Of plans that differ in the names of
/// their devices alone, the better one.
class Ranking {
 public:
  /// `cost`, which must outlive this, knows the bytes that plans copy.
  Ranking(int keep, const CostModel& cost) : keep_(keep < 1 ? 1 : static_cast<std::size_t>(keep)), cost_(cost) {}

  void add(RankedAs kind, Candidate candidate);
  /// Makes it the best of its kind without a place among the fastest, where it may stand already.
  void set_best(RankedAs kind, Candidate candidate) { best_[static_cast<std::size_t>(kind)] = std::move(candidate); }

  /// Seconds above which no plan of several stages can enter any more; infinite while there is room.
  [[nodiscard]] double threshold() const;
  /// Seconds of the best plan of a kind, infinite without one.
  [[nodiscard]] double best_s(RankedAs kind) const;
  [[nodiscard]] const std::optional<Candidate>& best(RankedAs kind) const { return best_[static_cast<std::size_t>(kind)]; }

  [[nodiscard]] const Candidate* fastest() const { return kept_.empty() ? nullptr : &kept_.front(); }
  /// Fastest plan of several stages, with replicas or without; null without one.
  [[nodiscard]] const Candidate* fastest_of_several_stages() const;

  /// Kept plans and the best of each kind, fastest first, each once.
  [[nodiscard]] std::vector<Candidate> ranked() const;

 private:
  [[nodiscard]] bool better(const Candidate& a, const Candidate& b) const;
  [[nodiscard]] std::int64_t copied_bytes(const Plan& plan) const;

  std::size_t keep_;
  const CostModel& cost_;
  std::vector<Candidate> kept_;
  std::optional<Candidate> best_[kRankedKinds];
};

}  // namespace mptune

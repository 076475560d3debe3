#include "planner/published/chain_sweep.h"

#include <algorithm>
#include <string>
#include <tuple>

#include "planner/partition/table_memory.h"
#include "profiler/base/index.h"

namespace mptune::planner {
namespace {

constexpr std::int64_t kChainMemoryLimit = 500'000'000;  // bytes

constexpr std::int64_t kUnreachable = std::numeric_limits<std::int64_t>::max();

// What is known of one range as a stage.
struct KnownTurn {
  TurnCost cost;
  bool exact = false;
};

// The least sum from one cut to the end of the chain, and the next cut.
struct RestOfChain {
  std::int64_t sum_ns = kUnreachable;
  std::int64_t copied_bytes = 0;
  int next = -1;
  [[nodiscard]] bool better_than(const RestOfChain& other) const {
    return std::tie(sum_ns, copied_bytes) < std::tie(other.sum_ns, other.copied_bytes);
  }
};

struct LimitedCuts {
  std::vector<int> cuts;
  std::int64_t sum_ns = 0;
  std::int64_t largest_ns = 0;
  std::int64_t copied_bytes = 0;
};

// Returns the number of ranges [first, last) of `layers` layers.
std::size_t ranges_of(int layers) {
  return as_index(layers) * (as_index(layers) + 1) / 2;
}

class Sweeper {
 public:
  explicit Sweeper(const ChainProblem& problem) : problem_(problem) {
    known_.resize(as_index(problem.stages) * ranges_of(problem.layers));
    for (int k = 0; k < problem.stages; ++k) for_each_range(k, [&](int first, int last) { learn_bound(k, first, last); });
  }

  ChainCuts run() {
    const std::optional<LimitedCuts> cheapest = least_sum(kUnreachable, false);
    if (!cheapest) return finished(ChainCuts::kNoCuts);
    least_sum_ns_ = cheapest->sum_ns;
    least_largest_ns_ = least_largest(cheapest->largest_ns);
    result_.lower_bound_ns = below(least_largest_ns_);
    for (std::int64_t limit = first_limit(); limit >= least_largest_ns_;) {
      if (stopped()) return std::move(result_);
      const std::optional<LimitedCuts> cuts = least_sum(limit, true);
      if (!cuts || below_with(cuts->sum_ns, least_largest_ns_) >= best_ns()) {
        if (cuts) take(*cuts);
        break;
      }
      take(*cuts);
      limit = std::min(cuts->largest_ns - 1, highest_limit());
    }
    if (stopped_) return std::move(result_);
    return finished(result_.found ? result_.step_ns : nothing_found_);
  }

 private:
  [[nodiscard]] KnownTurn& known(int stage, int first, int last) {
    const std::size_t before = ranges_of(problem_.layers) - ranges_of(problem_.layers - first);  // number of ranges that begin earlier
    return known_[as_index(stage) * ranges_of(problem_.layers) + before + as_index(last - first) - 1];
  }

  // Visits the ranges where every stage keeps a layer, and so do the stages before and after it.
  template <class Visit>
  void for_each_range(int stage, const Visit& visit) {
    const int behind = problem_.stages - 1 - stage;
    const int first_end = stage == 0 ? 0 : problem_.layers - behind - 1;
    for (int first = stage; first <= first_end; ++first) {
      const int last_begin = behind == 0 ? problem_.layers : first + 1;
      for (int last = last_begin; last <= problem_.layers - behind; ++last) visit(first, last);
    }
  }

  void learn_bound(int stage, int first, int last) {
    const std::optional<TurnCost> cost = problem_.bound(stage, first, last);
    known(stage, first, last).cost = cost.value_or(TurnCost{kUnreachable, kUnreachable, 0});
  }

  // Returns the cost of a range, if it keeps to the limit.
  const TurnCost* within(int stage, int first, int last, std::int64_t limit, bool exact) {
    KnownTurn& entry = known(stage, first, last);
    if (entry.cost.largest_ns > limit || entry.cost.sum_ns == kUnreachable) return nullptr;
    if (exact && !entry.exact) {
      const std::optional<TurnCost> cost = problem_.exact(stage, first, last, limit);
      if (!cost) {
        entry.cost.largest_ns = limit == kUnreachable ? kUnreachable : limit + 1;
        if (limit == kUnreachable) entry.cost.sum_ns = kUnreachable;
        return nullptr;
      }
      entry = {*cost, true};
    }
    return &entry.cost;
  }

  // Finds cuts from which the end can be reached within the limit, judged by what is known so far. Only for these the exact cost is asked
  // for.
  void reach_forward(std::int64_t limit) {
    const auto n = as_index(problem_.layers) + 1;
    reached_.assign((as_index(problem_.stages) + 1) * n, false);
    reached_[0] = true;
    for (int k = 0; k < problem_.stages; ++k) {
      for_each_range(k, [&](int first, int last) {
        if (reached_[as_index(k) * n + as_index(first)] && within(k, first, last, limit, false) != nullptr)
          reached_[(as_index(k) + 1) * n + as_index(last)] = true;
      });
    }
  }

  // Returns cuts with the least sum whose stages keep to the limit.
  std::optional<LimitedCuts> least_sum(std::int64_t limit, bool exact) {
    reach_forward(limit);
    const auto n = as_index(problem_.layers) + 1;
    std::vector<RestOfChain> rests((as_index(problem_.stages) + 1) * n);
    rests.back().sum_ns = 0;
    for (int k = problem_.stages - 1; k >= 0; --k) {
      for_each_range(k, [&](int first, int last) {
        const std::size_t from = as_index(k) * n + as_index(first);
        const RestOfChain& rest = rests[(as_index(k) + 1) * n + as_index(last)];
        if (!reached_[from] || rest.sum_ns == kUnreachable) return;
        const TurnCost* cost = within(k, first, last, limit, exact);
        if (cost == nullptr) return;
        const RestOfChain found{rest.sum_ns + cost->sum_ns, rest.copied_bytes + cost->copied_bytes, last};
        if (found.better_than(rests[from])) rests[from] = found;
      });
    }
    result_.sweeps += exact ? 1 : 0;
    if (rests.front().sum_ns == kUnreachable) return std::nullopt;
    return follow(rests);
  }

  LimitedCuts follow(const std::vector<RestOfChain>& rests) {
    const auto n = as_index(problem_.layers) + 1;
    LimitedCuts found{{}, rests.front().sum_ns, 0, rests.front().copied_bytes};
    int first = 0;
    for (int k = 0; k < problem_.stages; ++k) {
      const int last = rests[as_index(k) * n + as_index(first)].next;
      found.largest_ns = std::max(found.largest_ns, known(k, first, last).cost.largest_ns);
      if (k > 0) found.cuts.push_back(first);
      first = last;
    }
    return found;
  }

  // Returns the least largest stage that the bounds allow: no cuts have a smaller one.
  std::int64_t least_largest(std::int64_t possible) {
    std::int64_t impossible = -1;
    while (possible - impossible > 1) {
      const std::int64_t middle = impossible + (possible - impossible) / 2;
      if (const std::optional<LimitedCuts> cuts = least_sum(middle, false))
        possible = cuts->largest_ns;
      else
        impossible = middle;
    }
    return possible;
  }

  [[nodiscard]] std::int64_t below_with(std::int64_t sum_ns, std::int64_t largest_ns) const {
    return sum_ns + problem_.repeats * largest_ns;
  }
  [[nodiscard]] std::int64_t below(std::int64_t largest_ns) const { return below_with(least_sum_ns_, largest_ns); }
  [[nodiscard]] std::int64_t best_ns() const { return result_.found ? std::min(result_.step_ns, problem_.below_ns) : problem_.below_ns; }

  // Returns a limit: no stage of better cuts takes more, since the others and the repetitions would cost too much.
  [[nodiscard]] std::int64_t highest_limit() const {
    if (problem_.repeats == 0 || best_ns() == kUnreachable) return kUnreachable;
    return best_ns() < least_sum_ns_ ? -1 : (best_ns() - least_sum_ns_) / problem_.repeats;
  }

  // Exact costs are asked for in growing windows above the least largest stage until some cuts are found; these bound the sweep.
  std::int64_t first_limit() {
    std::int64_t window = std::max<std::int64_t>(1, least_largest_ns_ / 256);
    while (problem_.repeats > 0) {
      const bool all = window > highest_limit() - least_largest_ns_;
      if (all || stopped()) break;
      const std::optional<LimitedCuts> cuts = least_sum(least_largest_ns_ + window, true);
      if (cuts) {
        take(*cuts);
        break;
      }
      if (window > kUnreachable / 4) break;
      window *= 2;
    }
    return highest_limit();
  }

  void take(const LimitedCuts& cuts) {
    const std::int64_t step_ns = below_with(cuts.sum_ns, cuts.largest_ns);
    if (step_ns >= problem_.below_ns) return;
    if (result_.found && std::tie(result_.step_ns, copied_bytes_) <= std::tie(step_ns, cuts.copied_bytes)) return;
    result_.found = true;
    result_.cuts = cuts.cuts;
    result_.step_ns = step_ns;
    copied_bytes_ = cuts.copied_bytes;
  }

  bool stopped() { return stopped_ = stopped_ || (problem_.stop && problem_.stop()); }

  ChainCuts finished(std::int64_t lower_bound_ns) {
    result_.lower_bound_ns = lower_bound_ns;
    result_.complete = true;
    return std::move(result_);
  }

  const ChainProblem& problem_;
  std::vector<KnownTurn> known_;
  std::vector<bool> reached_;
  ChainCuts result_;
  std::int64_t copied_bytes_ = 0;
  std::int64_t least_sum_ns_ = 0;
  std::int64_t least_largest_ns_ = 0;
  std::int64_t nothing_found_ = problem_.below_ns;
  bool stopped_ = false;
};

}  // namespace

void check_chain_memory(int layers, int stages) {
  check_table_memory(static_cast<double>(sizeof(KnownTurn)) * stages * static_cast<double>(ranges_of(layers)), kChainMemoryLimit,
                     std::to_string(stages) + " stages of " + std::to_string(layers) + " layers", "chain of layers",
                     "use fewer stages, or merge layers that follow each other");
}

ChainCuts best_chain_cuts(const ChainProblem& problem) {
  check_chain_memory(problem.layers, problem.stages);
  return Sweeper(problem).run();
}

}  // namespace mptune::planner

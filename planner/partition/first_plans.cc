#include "planner/partition/first_plans.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "profiler/base/index.h"

namespace mptune::planner {
namespace {

class Climber {
 public:
  Climber(CutRater& rater, const Windows& allowed, const std::function<bool()>& may_rate)
      : rater_(rater), allowed_(allowed), may_rate_(may_rate) {}

  void climb(const std::vector<int>& cuts) {
    if (static_cast<int>(cuts.size()) + 1 != allowed_.stages()) return;
    static_cast<void>(may_rate_());
    best_ns_ = PathBounds::kFar;
    best_ = cuts;
    best_ns_ = rate(cuts);
    for (std::int64_t before = best_ns_ + 1; best_ns_ < before && !ended_;) {
      before = best_ns_;
      step(std::vector<int>(best_));
    }
  }

 private:
  std::int64_t rate(const std::vector<int>& cuts) {
    const std::int64_t within_ns = rater_.best().enters_ns();
    return rater_.consider(cuts, within_ns, std::max(within_ns, best_ns_));
  }

  void attempt(const std::vector<int>& moved) {
    ended_ = ended_ || !may_rate_();
    if (ended_) return;
    const std::int64_t ns = rate(moved);
    if (ns >= best_ns_) return;
    best_ns_ = ns;
    best_ = moved;
  }

  // Moves one cut anywhere between its neighbours, or two cuts by a layer.
  void step(const std::vector<int>& cuts) {
    for (std::size_t c = 0; c < cuts.size() && !ended_; ++c) {
      std::vector<int> moved = cuts;
      for (const int layer : allowed_.begins[c + 1]) {
        moved[c] = layer;
        if (ascends(moved)) attempt(moved);
      }
      for (std::size_t d = c + 1; d < cuts.size() && !ended_; ++d) {
        for (const auto& [by, other] : {std::pair(-1, -1), std::pair(-1, 1), std::pair(1, -1), std::pair(1, 1)}) {
          moved = cuts;
          moved[c] += by;
          moved[d] += other;
          if (allows(moved)) attempt(moved);
        }
      }
    }
  }

  [[nodiscard]] bool ascends(const std::vector<int>& cuts) const {
    const bool apart = std::adjacent_find(cuts.begin(), cuts.end(), std::greater_equal<>()) == cuts.end();
    return apart && cuts.front() > 0 && cuts.back() < allowed_.begins.back().front();
  }

  [[nodiscard]] bool allows(const std::vector<int>& cuts) const {
    for (std::size_t c = 0; c < cuts.size(); ++c)
      if (!std::binary_search(allowed_.begins[c + 1].begin(), allowed_.begins[c + 1].end(), cuts[c])) return false;
    return ascends(cuts);
  }

  CutRater& rater_;
  const Windows& allowed_;
  const std::function<bool()>& may_rate_;
  bool ended_ = false;
  std::vector<int> best_;
  std::int64_t best_ns_ = 0;
};

// Returns an empty list if the windows have no balanced cuts.
std::vector<int> balanced(const BalanceBound& balance, const Windows& allowed) {
  std::vector<int> cuts;
  int first = 0;
  for (int s = 0; s + 1 < allowed.stages(); ++s) {
    first = balance.best_last(allowed, s, first);
    if (first < 0) return {};
    cuts.push_back(first);
  }
  return cuts;
}

}  // namespace

void consider_first_plans(CutRater& rater, const BalanceBound& balance, const Windows& allowed, int microbatches,
                          const std::function<bool()>& may_rate) {
  Climber climber(rater, allowed, may_rate);
  climber.climb(balanced(balance, allowed));
  std::vector<Path> rows = rater.rows();
  const Prices& prices = rater.prices();
  // 1F1B waits for a copy in each direction with every other micro-batch.
  for (int slot = 0; slot < prices.slots(); ++slot) {
    const auto stage = as_index(prices.stage(slot));
    if (prices.kind(slot) == EventKind::copy) rows[stage].count[as_index(slot)] = (microbatches + 1) / 2;
  }
  BalanceBound with_copies(prices, std::move(rows));
  with_copies.refresh(allowed);
  climber.climb(balanced(with_copies, allowed));
}

}  // namespace mptune::planner

#include "mptune/planner/partition/partition.h"

#include <algorithm>

#include "mptune/planner/partition/family.h"

namespace mptune {
namespace {

class Enumeration {
 public:
  Enumeration(const PartitionProblem& problem, const CostModel& cost) : problem_(problem), cost_(cost), family_(problem, cost) {}

  PartitionResult run() {
    result_.complete = true;
    std::vector<int> cuts;
    visit(cuts);
    finish();
    return std::move(result_);
  }

 private:
  void visit(std::vector<int>& cuts) {
    if (!result_.complete) return;
    ++result_.nodes;
    if (result_.nodes > problem_.most_nodes || (problem_.stop && problem_.stop())) {
      result_.complete = false;
      return;
    }
    const int open = family_.stages() - static_cast<int>(cuts.size()) - 1;
    if (open == 0) {
      add(family_.rate(cuts));
      return;
    }
    for (int cut = cuts.empty() ? 1 : cuts.back() + 1; cut <= cost_.layers() - open; ++cut) {
      if (!cost_.may_cut(cut)) continue;
      cuts.push_back(cut);
      visit(cuts);
      cuts.pop_back();
    }
  }

  void add(RatedCuts rated) {
    if (rated.excess_bytes > 0) {
      if (result_.smallest_excess_bytes > 0 && result_.smallest_excess_bytes <= rated.excess_bytes) return;
      result_.smallest_excess_bytes = rated.excess_bytes;
      result_.smallest_excess_device = rated.excess_device;
      return;
    }
    ++result_.simulated;
    if (rated.step_ns > problem_.longest_ns) return;
    best_.insert(std::upper_bound(best_.begin(), best_.end(), rated, ranks_before), rated);
    if (static_cast<int>(best_.size()) > problem_.keep) best_.pop_back();
  }

  void finish() {
    if (result_.complete)
      result_.lower_bound_ns = !best_.empty()          ? best_.front().step_ns
                               : result_.simulated > 0 ? problem_.longest_ns + 1
                                                       : PartitionResult::kNoPlan;
    if (result_.simulated > 0) {
      result_.smallest_excess_bytes = 0;
      result_.smallest_excess_device = -1;
    }
    for (const RatedCuts& rated : best_)
      result_.best.push_back({family_.plan(rated.cuts, rated.recomputed), rated.step_ns, rated.copied_bytes, rated.peak_bytes});
  }

  const PartitionProblem& problem_;
  const CostModel& cost_;
  Family family_;
  PartitionResult result_;
  std::vector<RatedCuts> best_;
};

}  // namespace

double PartitionResult::gap() const {
  if (best.empty()) return 1;
  const auto step = static_cast<double>(best.front().step_ns);
  return step <= 0 ? 0 : std::max(0.0, (step - static_cast<double>(lower_bound_ns)) / step);
}

PartitionResult partition(const PartitionProblem& problem, const CostModel& cost) {
  return Enumeration(problem, cost).run();
}

}  // namespace mptune

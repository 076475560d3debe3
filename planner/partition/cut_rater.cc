#include "planner/partition/cut_rater.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "planner/schedule/schedule_info.h"
#include "profiler/base/index.h"

namespace mptune::planner {

CutRater::CutRater(const PartitionProblem& problem, const CostModel& cost, const Family& family)
    : family_(family),
      prices_(problem, cost),
      times_(list_operations(family.any_plan(), cost), prices_),
      learns_(family.rows_are_fixed()),
      rows_(learns_ ? times_.row_paths() : times_.row_paths_of_any_order(schedule_info(problem.schedule).rows_from == RowsFrom::search)),
      exact_(learns_ && times_.exact() && family.one_stage_per_device()),
      layers_(cost.layers()),
      least_excess_known_(std::min(problem.least_excess_known, PathBounds::kFar)),
      paths_(prices_, family.stages()),
      best_(problem.keep, problem.longest_ns),
      known_(problem.known != nullptr ? *problem.known : rates_) {
  if (learns_ && family.one_stage_per_device()) memory_.emplace(family, cost);
  for (const Path& row : rows_) paths_.add(row);
  const bool replicated = std::ranges::any_of(problem.stages, [](const std::vector<int>& devices) { return devices.size() > 1; });
  if (schedule_info(problem.schedule).rows_from == RowsFrom::costs && family.one_stage_per_device() && !replicated)
    for (const Path& trip : times_.round_trips()) paths_.add(trip);
}

int CutRater::last_of(const std::vector<int>& cuts, int stage) const {
  return stage < static_cast<int>(cuts.size()) ? cuts[as_index(stage)] : layers_;
}

bool CutRater::settle(int stage, int first, int last) {
  const StageFit& need = memory_->need(stage, first, last);
  if (need.excess_bytes <= 0) prices_.settle(stage, first, last, need.recomputed);
  return need.excess_bytes <= 0;
}

bool CutRater::settle(const std::vector<int>& cuts) {
  if (!memory_ || !family_.has_caps()) return true;
  int first = 0;
  for (int s = 0; s < family_.stages(); first = last_of(cuts, s++))
    if (!settle(s, first, last_of(cuts, s))) return false;
  return true;
}

std::int64_t CutRater::consider(const std::vector<int>& cuts, std::int64_t within_ns, std::int64_t enough_ns) {
  if (!settle(cuts)) return PathBounds::kFar;
  const std::int64_t enough_of_path_ns = std::min(enough_ns, PathBounds::kFar) - times_.step_cost_ns();
  std::int64_t alone_ns = paths_.longest(cuts, enough_of_path_ns) + times_.step_cost_ns();
  if (alone_ns > within_ns) return alone_ns;
  if (learns_) {
    ++simulated_;
    alone_ns = times_.step_ns(cuts);
    paths_.add(times_.longest_path());
    if (alone_ns > within_ns) return alone_ns;
  }
  std::optional<RatedCuts> plan = rated(cuts, alone_ns);
  if (!plan) return PathBounds::kFar;
  any_fits_ = true;
  const std::int64_t step_ns = plan->step_ns;
  best_.add(std::move(*plan));
  return step_ns;
}

const RatedCuts& CutRater::simulated(const std::vector<int>& cuts) {
  const auto [known, is_new] = known_.try_emplace(cuts);
  if (!is_new) return known->second;
  if (!learns_) ++simulated_;
  return known->second = family_.rate(cuts);
}

std::optional<RatedCuts> CutRater::rated(const std::vector<int>& cuts, std::int64_t alone_ns) {
  if (!exact_) {
    const RatedCuts& plan = simulated(cuts);
    if (plan.excess_bytes == 0) return plan;
    if (least_seen_.bytes == 0 || plan.excess_bytes < least_seen_.bytes) least_seen_ = {plan.excess_bytes, plan.excess_device};
    return std::nullopt;
  }
  RatedCuts plan;
  plan.cuts = cuts;
  plan.step_ns = alone_ns;
  int first = 0;
  for (int s = 0; s < family_.stages(); first = last_of(cuts, s++)) {
    const StageFit& need = memory_->need(s, first, last_of(cuts, s));
    plan.peak_bytes = std::max(plan.peak_bytes, need.peak_bytes);
    if (need.recomputed) plan.recomputed.push_back(s);
    if (s > 0) plan.copied_bytes += family_.copied_bytes(s, first);
  }
  return plan;
}

CutRater::Excess CutRater::smallest_excess(const Windows& allowed) {
  if (!any_fits_ && memory_ && family_.has_caps()) least_seen_ = smallest_of_all(allowed);
  return any_fits_ ? Excess{} : least_seen_;
}

// The least excess over all cuts is a min-max shortest path. A longer stage exceeds its cap by more, and later stages exceed theirs by
// less. So the ends near where both are equal are measured first, and lower bounds say that most others need not be measured. How far a
// plan stays below its caps does not matter.
CutRater::Excess CutRater::smallest_of_all(const Windows& allowed) {
  std::vector<Found> rest(as_index(layers_) + 1, {least_excess_known_, -1});
  rest.back() = {0, -1};
  for (int s = family_.stages(); s-- > 0;) {
    std::vector<Found> now(rest.size(), {least_excess_known_, -1});
    for (const int first : allowed.begins[as_index(s)]) now[as_index(first)] = least_from(allowed.begins[as_index(s) + 1], s, first, rest);
    rest = std::move(now);
  }
  if (memory_->ran_out()) return least_seen_;
  any_fits_ = rest.front().first <= 0;
  const bool exceeds = rest.front().first > 0 && rest.front().first < PathBounds::kFar;
  return exceeds ? Excess{rest.front().first, rest.front().second} : Excess{};
}

CutRater::Found CutRater::least_from(const std::vector<int>& ends, int stage, int first, const std::vector<Found>& rest) {
  Found least{least_excess_known_, -1};
  const auto attempt = [&](int last) {
    const Found& behind = rest[as_index(last)];
    if (behind.first >= least.first || memory_->ran_out() || memory_->least_excess(stage, first, last) >= least.first) return;
    const StageFit& need = memory_->need(stage, first, last);
    least = std::min(least, std::max(behind, Found(std::max<std::int64_t>(0, need.excess_bytes), need.excess_device)));
  };
  const auto nearest = std::upper_bound(ends.begin(), ends.end(), first);
  const auto meet = std::partition_point(nearest, ends.end(),
                                         [&](int last) { return memory_->least_excess(stage, first, last) < rest[as_index(last)].first; });
  std::for_each(meet, ends.end(), attempt);
  std::for_each(std::make_reverse_iterator(meet), std::make_reverse_iterator(nearest), attempt);
  return least;
}

}  // namespace mptune::planner

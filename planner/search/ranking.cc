#include "mptune/planner/search/ranking.h"

#include <algorithm>
#include <limits>

#include "mptune/planner/plan_file.h"

namespace mptune {
namespace {

std::int64_t copies(const Plan& plan) {
  std::int64_t count = 0;
  for (int s = 1; s < plan.num_stages(); ++s) {
    for (int i = 0; i < plan.num_microbatches(); ++i) {
      const auto at = static_cast<std::size_t>(s);
      count += device_of(plan.stages[at - 1], i) != device_of(plan.stages[at], i) ? 2 : 0;
    }
  }
  return count;
}

bool better(const Candidate& a, const Candidate& b) {
  if (a.prediction.step_s != b.prediction.step_s) return a.prediction.step_s < b.prediction.step_s;
  const std::int64_t more_copies = copies(a.plan) - copies(b.plan);
  if (more_copies != 0) return more_copies < 0;
  const std::int64_t more_bytes = most_bytes(a) - most_bytes(b);
  if (more_bytes != 0) return more_bytes < 0;
  return a.plan != b.plan && plan_key(a.plan) < plan_key(b.plan);
}

// Plans name their devices in the order of the stages: placements differ in the names alone.
bool same_but_placed(const Plan& a, const Plan& b) {
  return a.stages == b.stages && a.microbatch_sizes == b.microbatch_sizes && a.schedule == b.schedule && a.actions == b.actions &&
         a.devices.size() == b.devices.size();
}

}  // namespace

std::int64_t most_bytes(const Candidate& candidate) {
  const std::vector<std::int64_t>& peaks = candidate.prediction.peak_bytes;
  return peaks.empty() ? 0 : *std::max_element(peaks.begin(), peaks.end());
}

void Ranking::add(RankedAs kind, Candidate candidate) {
  std::optional<Candidate>& best = best_[static_cast<std::size_t>(kind)];
  if (!best || better(candidate, *best)) best = candidate;
  if (kept_.size() >= keep_ && !better(candidate, kept_.back())) return;
  const auto known = std::ranges::find_if(kept_, [&](const Candidate& other) { return same_but_placed(candidate.plan, other.plan); });
  if (known != kept_.end()) {
    if (!better(candidate, *known)) return;
    kept_.erase(known);
  }
  kept_.insert(std::upper_bound(kept_.begin(), kept_.end(), candidate, better), std::move(candidate));
  if (kept_.size() > keep_) kept_.pop_back();
}

double Ranking::best_s(RankedAs kind) const {
  const std::optional<Candidate>& best = best_[static_cast<std::size_t>(kind)];
  return best ? best->prediction.step_s : std::numeric_limits<double>::infinity();
}

double Ranking::threshold(RankedAs kind) const {
  const std::optional<Candidate>& best = best_[static_cast<std::size_t>(kind)];
  if (kept_.size() < keep_ || !best) return std::numeric_limits<double>::infinity();
  return std::max(kept_.back().prediction.step_s, best->prediction.step_s);
}

std::vector<Candidate> Ranking::ranked() const {
  std::vector<Candidate> all = kept_;
  for (const std::optional<Candidate>& best : best_) {
    if (best && std::ranges::none_of(kept_, [&](const Candidate& kept) { return same_but_placed(kept.plan, best->plan); }))
      all.push_back(*best);
  }
  std::sort(all.begin(), all.end(), better);
  const auto same = [](const Candidate& a, const Candidate& b) { return a.plan == b.plan; };
  all.erase(std::unique(all.begin(), all.end(), same), all.end());
  return all;
}

}  // namespace mptune

#include "planner/search/joint/ranking.h"

#include <algorithm>
#include <limits>

#include "planner/plan/file/plan_file.h"
#include "profiler/base/index.h"

namespace mptune::planner {
namespace {

std::vector<int> begins(const Plan& plan) {
  std::vector<int> layers;
  for (const Stage& stage : plan.stages) layers.push_back(stage.first_layer);
  return layers;
}

// Plans name their devices in the order of the stages, so placements differ in the names alone.
bool same_but_placed(const Plan& a, const Plan& b) {
  return a.stages == b.stages && a.microbatch_sizes == b.microbatch_sizes && a.schedule == b.schedule && a.actions == b.actions &&
         a.options == b.options && a.devices.size() == b.devices.size();
}

}  // namespace

std::int64_t most_bytes(const Candidate& candidate) {
  const std::vector<std::int64_t>& peaks = candidate.prediction.peak_bytes;
  return peaks.empty() ? 0 : *std::max_element(peaks.begin(), peaks.end());
}

std::int64_t Ranking::copied_bytes(const Plan& plan) const {
  std::int64_t bytes = 0;
  for (std::size_t s = 1; s < plan.stages.size(); ++s) {
    for (int i = 0; i < plan.num_microbatches(); ++i) {
      if (device_of(plan.stages[s - 1], i) == device_of(plan.stages[s], i)) continue;
      const int samples = plan.microbatch_sizes[as_index(i)];
      const int cut = plan.stages[s].first_layer;
      bytes += cost_.boundary_bytes(cut, samples, false) + cost_.boundary_bytes(cut, samples, true);
    }
  }
  return bytes;
}

bool Ranking::better(const Candidate& a, const Candidate& b) const {
  if (a.prediction.step_s != b.prediction.step_s) return a.prediction.step_s < b.prediction.step_s;
  const std::int64_t more_copied = copied_bytes(a.plan) - copied_bytes(b.plan);
  if (more_copied != 0) return more_copied < 0;
  const std::int64_t more_bytes = most_bytes(a) - most_bytes(b);
  if (more_bytes != 0) return more_bytes < 0;
  const std::vector<int> begins_a = begins(a.plan);
  const std::vector<int> begins_b = begins(b.plan);
  if (begins_a != begins_b) return begins_a < begins_b;
  return a.plan != b.plan && plan_key(a.plan) < plan_key(b.plan);
}

void Ranking::add(Parallelism kind, Candidate candidate) {
  std::optional<Candidate>& best = best_[as_index(kind)];
  if (!best || better(candidate, *best)) best = candidate;
  if (kept_.size() >= keep_ && !better(candidate, kept_.back())) return;
  const auto known = std::ranges::find_if(kept_, [&](const Candidate& other) { return same_but_placed(candidate.plan, other.plan); });
  if (known != kept_.end()) {
    if (!better(candidate, *known)) return;
    kept_.erase(known);
  }
  const auto place = std::upper_bound(kept_.begin(), kept_.end(), candidate, [this](const auto& a, const auto& b) { return better(a, b); });
  kept_.insert(place, std::move(candidate));
  if (kept_.size() > keep_) kept_.pop_back();
}

double Ranking::best_s(Parallelism kind) const {
  const std::optional<Candidate>& best = best_[as_index(kind)];
  return best ? best->prediction.step_s : std::numeric_limits<double>::infinity();
}

const Candidate* Ranking::fastest_of_several_stages() const {
  const bool replicas = best_s(Parallelism::hybrid) < best_s(Parallelism::pipeline);
  const std::optional<Candidate>& fastest = best(replicas ? Parallelism::hybrid : Parallelism::pipeline);
  return fastest ? &*fastest : nullptr;
}

double Ranking::threshold() const {
  const Candidate* fastest = fastest_of_several_stages();
  if (kept_.size() < keep_ || fastest == nullptr) return std::numeric_limits<double>::infinity();
  return std::max(kept_.back().prediction.step_s, fastest->prediction.step_s);
}

std::vector<Candidate> Ranking::ranked() const {
  std::vector<Candidate> all = kept_;
  const auto add_best = [&](const std::optional<Candidate>& best) {
    if (best && std::ranges::none_of(kept_, [&](const Candidate& kept) { return same_but_placed(kept.plan, best->plan); }))
      all.push_back(*best);
  };
  std::ranges::for_each(best_, add_best);
  add_best(best_in_half_memory_);
  std::ranges::sort(all, [this](const auto& a, const auto& b) { return better(a, b); });
  const auto same = [](const Candidate& a, const Candidate& b) { return a.plan == b.plan; };
  all.erase(std::unique(all.begin(), all.end(), same), all.end());
  return all;
}

}  // namespace mptune::planner

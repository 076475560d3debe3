#include "mptune/planner/search/choices.h"

#include <algorithm>
#include <numeric>
#include <set>

#include "mptune/planner/schedule/schedule.h"

namespace mptune {
namespace {

std::vector<int> default_counts(int batch) {
  std::vector<int> counts;
  for (int power = 1; power <= batch; power *= 2) {
    counts.push_back(power);
    if (power >= 2 && power + power / 2 <= batch) counts.push_back(power + power / 2);
    if (power > batch / 2) break;
  }
  return counts;
}

bool contains(const std::vector<int>& list, int value) {
  return std::find(list.begin(), list.end(), value) != list.end();
}

}  // namespace

Choices::Choices(const SearchSpace& space, const CostModel& cost, std::vector<std::int64_t> caps)
    : space_(space), cost_(cost), caps_(std::move(caps)) {
  counts_ = space.microbatch_counts.empty() ? default_counts(space.batch) : space.microbatch_counts;
  std::sort(counts_.begin(), counts_.end());
  counts_.erase(std::unique(counts_.begin(), counts_.end()), counts_.end());
  std::erase_if(counts_, [&](int m) { return m < 1 || m > space.batch; });
  schedules_ = space.schedules.empty() ? std::vector<std::string>{"naive", "gpipe", "1f1b"} : space.schedules;
  if (space.recompute == "all") return;
  for (const int s : recomputed_stages(space.recompute, cost.layers())) least_stages_ = s + 1;
}

bool Choices::wanted_stages(int stages) const {
  if (stages < least_stages_) return false;
  if (!space_.replicas.empty() && static_cast<int>(space_.replicas.size()) != stages) return false;
  if (!space_.stage_counts.empty()) return contains(space_.stage_counts, stages);
  if (space_.cuts.empty()) return true;
  return std::any_of(space_.cuts.begin(), space_.cuts.end(), [&](const auto& cuts) { return static_cast<int>(cuts.size()) + 1 == stages; });
}

std::vector<std::string> Choices::schedules_for(int m) const {
  std::vector<std::string> names;
  for (const std::string& name : schedules_) {
    if ((name == "naive") == (m == 1)) names.push_back(name);
  }
  if (m == 1 && names.empty() && !schedules_.empty()) names.push_back(schedules_.front());
  return names;
}

void Choices::set_recompute(Plan& plan) const {
  for (const int s : recomputed_stages(space_.recompute, plan.num_stages()))
    plan.stages[static_cast<std::size_t>(s)].recompute.mode = Recompute::Mode::all;
}

std::pair<int, std::int64_t> Choices::signature(int device) const {
  const auto at = static_cast<std::size_t>(device);
  const auto index = static_cast<std::size_t>(cost_.device_index(space_.devices[at]));
  return {cost_.profile().devices[index].device_class, caps_[at]};
}

std::vector<int> Choices::distinct_devices() const {
  std::vector<int> distinct;
  std::set<std::pair<int, std::int64_t>> seen;
  for (int d = 0; d < static_cast<int>(space_.devices.size()); ++d) {
    if (seen.insert(signature(d)).second) distinct.push_back(d);
  }
  return distinct;
}

std::vector<Family> Choices::pipelines() const {
  std::vector<Family> families;
  for (int stages = 2; stages <= static_cast<int>(space_.devices.size()) && stages <= cost_.layers(); ++stages) {
    if (!wanted_stages(stages)) continue;
    std::vector<int> chosen;
    add_families(space_.replicas.empty() ? std::vector<int>(static_cast<std::size_t>(stages), 1) : space_.replicas, chosen, families);
  }
  return families;
}

// Placements that differ in the class or the memory of some device.
void Choices::add_families(const std::vector<int>& replicas, std::vector<int>& chosen, std::vector<Family>& families) const {
  if (static_cast<int>(chosen.size()) == std::accumulate(replicas.begin(), replicas.end(), 0)) {
    add_placement(replicas, chosen, families);
    return;
  }
  std::set<std::pair<int, std::int64_t>> seen;
  for (int d = 0; d < static_cast<int>(space_.devices.size()); ++d) {
    if (contains(chosen, d) || !seen.insert(signature(d)).second) continue;
    chosen.push_back(d);
    add_families(replicas, chosen, families);
    chosen.pop_back();
  }
}

void Choices::add_placement(const std::vector<int>& replicas, const std::vector<int>& chosen, std::vector<Family>& families) const {
  std::vector<std::vector<int>> devices;
  std::vector<std::vector<int>> indices;
  auto next = chosen.begin();
  for (const int count : replicas) {
    devices.emplace_back(next, next + count);
    indices.emplace_back();
    for (const int d : devices.back()) indices.back().push_back(cost_.device_index(space_.devices[static_cast<std::size_t>(d)]));
    next += count;
  }
  for (const int m : counts_) {
    // No replica goes without a micro-batch.
    if (schedules_for(m).empty() || m < *std::max_element(replicas.begin(), replicas.end())) continue;
    const std::vector<int> sizes = split_evenly(space_.batch, m);
    families.push_back({devices, sizes, PartitionBound(cost_, indices, sizes)});
  }
}

}  // namespace mptune

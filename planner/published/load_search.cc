#include "planner/published/load_search.h"

#include <algorithm>

#include "profiler/base/index.h"

namespace mptune::planner {

LoadSearch::LoadSearch(const LoadProblem& problem, const LoadBounds& bounds, const Ideals& ideals, LoadWork& work)
    : problem_(problem), bounds_(bounds), ideals_(ideals), work_(work), states_(state(problem.devices, problem.hosts) + 1) {}

std::optional<LoadSplit> LoadSearch::least_load(std::int64_t most_ns) {
  most_ns_ = most_ns;
  copies_ = false;
  return run();
}

std::optional<LoadSplit> LoadSearch::fewest_copies(std::int64_t most_ns) {
  most_ns_ = most_ns;
  copies_ = true;
  return run();
}

std::optional<LoadSplit> LoadSearch::run() {
  values_.assign(as_index(ideals_.size()) * states_, kNone);
  at_least_.assign(states_, 0);
  for (int devices = 0; devices <= problem_.devices; ++devices) {
    for (int hosts = 0; hosts <= problem_.hosts; ++hosts) {
      at_least_[state(devices, hosts)] = problem_.device_ns() - saturated_product(problem_.devices - devices, most_ns_) -
                                         bounds_.hosted_ns(problem_.hosts - hosts, most_ns_);
    }
  }
  value(0, 0) = 0;
  for (int ideal = 0; ideal + 1 < ideals_.size() && !work_.ended; ++ideal) {
    if (ideal % 64 == 0 && ((work_.stop && work_.stop()) || work_.pairs > work_.most_pairs)) work_.ended = true;
    extend(ideal);
  }
  const std::int64_t* full = &values_[values_.size() - states_];
  if (work_.ended || *std::min_element(full, full + states_) == kNone) return std::nullopt;
  return traced();
}

// Leaves out states that use more and are no better.
std::vector<LoadSearch::Transition> LoadSearch::transitions(int ideal) const {
  std::vector<Transition> transitions;
  for (int devices = 0; devices <= problem_.devices; ++devices) {
    for (int hosts = 0; hosts <= problem_.hosts; ++hosts) {
      const std::int64_t now = value(ideal, state(devices, hosts));
      bool better = false;
      for (int d = devices; d >= 0 && !better; --d)
        for (int h = hosts; h >= 0 && !better; --h) better = (d < devices || h < hosts) && value(ideal, state(d, h)) <= now;
      if (now == kNone || better) continue;
      if (devices < problem_.devices) transitions.push_back({now, state(devices + 1, hosts), false});
      if (hosts < problem_.hosts) transitions.push_back({now, state(devices, hosts + 1), true});
    }
  }
  return transitions;
}

// Prices the parts that may begin where `ideal` ends: neither too long for any device or host, nor too short for the others.
void LoadSearch::extend(int ideal) {
  const std::vector<Transition> onward = transitions(ideal);
  std::int64_t from = kNone;
  std::int64_t longest = 0;
  for (const Transition& transition : onward) {
    from = std::min(from, at_least_[transition.to]);
    longest = std::max(longest, transition.on_host ? bounds_.hosted_ns(1, most_ns_) : most_ns_);
  }
  if (onward.empty()) return;
  const std::int64_t before = ideals_.sums(ideal).device_ns;
  int first = ideal + 1;
  for (int step = ideals_.size() - first; step > 0;) {  // the first one with enough work before it
    const int half = step / 2;
    const bool low = ideals_.sums(first + half).device_ns < from;
    first = low ? first + half + 1 : first;
    step = low ? step - half - 1 : half;
  }
  int next = first;
  for (; next < ideals_.size() && ideals_.sums(next).device_ns - before <= longest; ++next) {
    if (!may_improve(onward, ideal, next) || !ideals_.subset(ideal, next)) continue;
    const Part priced = part(ideal, next);
    for (const Transition& transition : onward) {
      if (!(transition.on_host ? priced.on_host : priced.on_device) || ideals_.sums(next).device_ns < at_least_[transition.to]) continue;
      std::int64_t& best = value(next, transition.to);
      best = std::min(best, joined(transition.value, priced, transition.on_host));
    }
  }
  work_.pairs += next - first;
}

// Decides without looking at the groups: a part computes what the ideals differ in, and copies at least what the cuts differ in.
bool LoadSearch::may_improve(const std::vector<Transition>& transitions, int ideal, int next) const {
  const IdealSums& before = ideals_.sums(ideal);
  const IdealSums& after = ideals_.sums(next);
  Part least;
  least.host_ns = after.host_ns - before.host_ns;
  least.compute_ns = after.device_ns - before.device_ns;
  least.copy_ns = std::max(after.cut_ns - before.cut_ns, before.cut_ns - after.cut_ns);
  const bool fits = least.compute_ns + least.copy_ns <= most_ns_;
  return std::ranges::any_of(transitions, [&](const Transition& transition) {
    return (transition.on_host || fits) && joined(transition.value, least, transition.on_host) < value(next, transition.to);
  });
}

LoadSearch::Part LoadSearch::part(int ideal, int next) const {
  const IdealSums& before = ideals_.sums(ideal);
  const IdealSums& after = ideals_.sums(next);
  Part made;
  made.host_ns = after.host_ns - before.host_ns;
  made.on_host = problem_.hosts > 0 && made.host_ns <= most_ns_;
  made.compute_ns = after.device_ns - before.device_ns;
  const bool fits = problem_.memory_bytes == 0 || after.bytes - before.bytes <= problem_.memory_bytes;
  if (problem_.devices == 0 || !fits || after.host_only > before.host_only || made.compute_ns > most_ns_) return made;
  made.copy_ns = ideals_.copy_ns(ideal, next);
  made.on_device = made.compute_ns + made.copy_ns <= most_ns_;
  return made;
}

std::int64_t LoadSearch::joined(std::int64_t value, const Part& part, bool on_host) const {
  if (copies_) return value + (on_host ? 0 : part.copy_ns);
  return std::max(value, on_host ? part.host_ns : part.compute_ns + part.copy_ns);
}

// Goes back from the full ideal, each time to the first ideal from which its value comes about.
LoadSplit LoadSearch::traced() const {
  LoadSplit split;
  int ideal = ideals_.size() - 1;
  int devices = 0;
  int hosts = 0;
  for (int d = 0; d <= problem_.devices; ++d) {
    for (int h = 0; h <= problem_.hosts; ++h)
      if (value(ideal, state(d, h)) < value(ideal, state(devices, hosts))) devices = d, hosts = h;
  }
  split.ideals.push_back(ideal);
  while (ideal != 0) {
    const std::int64_t sought = value(ideal, state(devices, hosts));
    for (int previous = 0;; ++previous) {
      const std::int64_t on_device = devices > 0 ? value(previous, state(devices - 1, hosts)) : kNone;
      const std::int64_t on_host = hosts > 0 ? value(previous, state(devices, hosts - 1)) : kNone;
      if (std::min(on_device, on_host) > sought || !ideals_.subset(previous, ideal)) continue;
      const Part made = part(previous, ideal);
      const bool device = made.on_device && on_device <= sought && joined(on_device, made, false) <= sought;
      if (!device && !(made.on_host && on_host <= sought && joined(on_host, made, true) <= sought)) continue;
      split.on_hosts.push_back(!device);
      split.load_ns = std::max(split.load_ns, device ? made.compute_ns + made.copy_ns : made.host_ns);
      split.copy_ns += device ? made.copy_ns : 0;
      (device ? devices : hosts) -= 1;
      ideal = previous;
      break;
    }
    split.ideals.push_back(ideal);
  }
  std::ranges::reverse(split.ideals);
  std::reverse(split.on_hosts.begin(), split.on_hosts.end());
  return split;
}

}  // namespace mptune::planner

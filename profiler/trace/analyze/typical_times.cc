#include "profiler/trace/analyze/typical_times.h"

#include <algorithm>
#include <cstdint>
#include <set>

#include "profiler/trace/analyze/replay.h"

namespace mptune::profiler {
namespace {

Nanoseconds median(std::vector<Nanoseconds>& values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  if (values.size() % 2 == 1) return *middle;
  return (*middle + *std::max_element(values.begin(), middle)) / 2;
}

Nanoseconds mean(const std::vector<Nanoseconds>& values) {
  Nanoseconds sum{0};
  for (const Nanoseconds value : values) sum += value;
  return values.empty() ? sum : sum / static_cast<std::int64_t>(values.size());
}

bool has_stage(const Work& work) {
  return work.tag.stage >= 0;
}

// Returns the rank of each micro-batch among those of its replica. With R replicas, micro-batch i runs on replica i mod R as its number i /
// R; other programs number from 0 in each replica. The rank is the same for both.
std::map<std::tuple<int, int, int>, int> places_of(const std::vector<StepWork>& steps) {
  std::map<std::pair<int, int>, std::set<int>> microbatches;
  for (const StepWork& step : steps) {
    for (const Work& work : step.works)
      if (has_stage(work)) microbatches[{work.tag.stage, work.tag.replica}].insert(work.tag.microbatch);
  }
  std::map<std::tuple<int, int, int>, int> places;
  for (const auto& [owner, members] : microbatches) {
    int place = 0;
    for (const int microbatch : members) places[{owner.first, owner.second, microbatch}] = place++;
  }
  return places;
}

std::set<std::tuple<int, int, int>> weights_in_parts(const std::vector<StepWork>& steps) {
  std::set<std::tuple<int, int, int>> in_parts;
  for (const StepWork& step : steps) {
    std::set<std::tuple<int, int, int>> seen;
    for (const Work& work : step.works) {
      const std::tuple whose(work.tag.stage, work.tag.replica, work.tag.microbatch);
      if (work.kind == EventKind::backward_weight && !seen.insert(whose).second) in_parts.insert(whose);
    }
  }
  return in_parts;
}

Nanoseconds end_of(const StepWork& step, const std::vector<Nanoseconds>& durations) {
  const std::vector<Nanoseconds> start = replay_starts(step.edges, durations);
  Nanoseconds end{0};
  for (std::size_t i = 0; i < start.size(); ++i) end = std::max(end, start[i] + durations[i]);
  return end;
}

}  // namespace

TypicalTimes::TypicalTimes(const std::vector<StepWork>& steps) : places_(places_of(steps)), in_parts_(weights_in_parts(steps)) {
  std::map<Kind, std::vector<Nanoseconds>> samples;
  for (const StepWork& step : steps) {
    for (const Work& work : step.works) {
      if (!has_typical(work)) continue;
      Kind kind = kind_of(work);
      samples[kind].push_back(work.busy);
      kind.device = -1;
      samples[kind].push_back(work.busy);
    }
  }
  std::map<Kind, std::vector<Nanoseconds>> stages;
  for (auto& [kind, values] : samples) {
    typical_[kind] = median(values);
    if (kind.device >= 0) continue;
    Kind balanced = kind;
    balanced.stage = -1;
    stages[balanced].push_back(typical_[kind]);
  }
  for (const auto& [kind, values] : stages) typical_[kind] = mean(values);
}

bool TypicalTimes::has_typical(const Work& work) const {
  const bool in_parts =
      work.kind == EventKind::backward_weight && in_parts_.contains({work.tag.stage, work.tag.replica, work.tag.microbatch});
  return has_stage(work) && !in_parts;
}

TypicalTimes::Kind TypicalTimes::kind_of(const Work& work) const {
  const auto place = places_.find({work.tag.stage, work.tag.replica, work.tag.microbatch});
  return {work.kind, work.kind == EventKind::copy ? work.name : -1, place == places_.end() ? -1 : place->second, work.tag.stage,
          work.device};
}

Nanoseconds TypicalTimes::duration(const Work& work, Typical level) const {
  if (level == Typical::actual || !has_typical(work)) return work.busy;
  const bool copy = work.kind == EventKind::copy;
  if (copy && level == Typical::balanced) return Nanoseconds{0};
  Kind kind = kind_of(work);
  if (level != Typical::per_device) kind.device = -1;
  if (!copy && level < Typical::uneven) kind.stage = -1;
  return typical_.at(kind);
}

std::vector<Nanoseconds> TypicalTimes::durations(const StepWork& step, Typical level) const {
  std::vector<Nanoseconds> result;
  result.reserve(step.works.size());
  for (const Work& work : step.works) result.push_back(duration(work, level));
  return result;
}

Nanoseconds ideal_step(const std::vector<StepWork>& steps) {
  std::map<std::pair<EventKind, int>, std::vector<Nanoseconds>> kinds;
  // Names of compute differ between stages, so they are ignored. Names of communication tell its purposes apart.
  const auto kind_of = [](const Work& work) { return std::pair(work.kind, work.kind <= EventKind::optimizer ? -1 : work.name); };
  for (const StepWork& step : steps)
    for (const Work& work : step.works) kinds[kind_of(work)].push_back(work.busy);
  // Communication has extreme outliers, so the paper takes its median.
  std::map<std::pair<EventKind, int>, Nanoseconds> ideal;
  for (auto& [kind, values] : kinds) {
    const bool communicates = kind.first == EventKind::copy || kind.first == EventKind::collective;
    ideal[kind] = communicates ? median(values) : mean(values);
  }
  std::vector<Nanoseconds> ends;
  for (const StepWork& step : steps) {
    std::vector<Nanoseconds> durations;
    for (const Work& work : step.works) durations.push_back(ideal[kind_of(work)]);
    ends.push_back(end_of(step, durations));
  }
  return mean(ends);
}

}  // namespace mptune::profiler

#include "profiler/trace/analyze/idle_split.h"

#include <algorithm>
#include <array>
#include <cstdint>

#include "profiler/base/index.h"
#include "profiler/trace/analyze/replay.h"

namespace mptune::profiler {
namespace {

constexpr std::array kLevels{Typical::balanced, Typical::copied, Typical::uneven, Typical::per_device, Typical::actual};
constexpr std::array kSplit{&IdleCauses::structural, &IdleCauses::copy_wait, &IdleCauses::imbalance,
                            &IdleCauses::straggler,  &IdleCauses::jitter,    &IdleCauses::host};

using Parts = std::array<Nanoseconds, kSplit.size()>;

// Returns the increments of the idle time from level to level, less the directly known causes.
Parts increments(const std::array<Nanoseconds, kLevels.size()>& idle, Nanoseconds recorded, const IdleCauses& direct) {
  Parts parts{};
  parts[0] = idle[0];
  for (std::size_t i = 1; i < idle.size(); ++i) parts[i] = idle[i] - idle[i - 1];
  parts[1] -= direct.copy_wait;
  parts.back() = recorded - idle.back() - (direct.total() - direct.copy_wait);
  for (Nanoseconds& part : parts) part = std::max(part, Nanoseconds{0});
  return parts;
}

// Scales the parts to the sum `whole`, exact to the nanosecond; returns false if all parts are 0.
bool scale(Parts& parts, Nanoseconds whole) {
  Nanoseconds sum{0};
  for (const Nanoseconds part : parts) sum += part;
  if (sum.count() == 0) return false;
  Nanoseconds given{0};
  std::size_t last = 0;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    if (parts[i].count() > 0) last = i;
    const double share = static_cast<double>(parts[i].count()) / static_cast<double>(sum.count());
    parts[i] = std::min(whole - given, Nanoseconds{static_cast<std::int64_t>(static_cast<double>(whole.count()) * share)});
    given += parts[i];
  }
  parts[last] += whole - given;
  return true;
}

bool has_stages(const StepWork& step) {
  return std::any_of(step.works.begin(), step.works.end(), [](const Work& work) { return work.tag.stage >= 0; });
}

}  // namespace

std::vector<Nanoseconds> replayed_idle(const StepWork& step, const Trace& trace, const std::vector<Nanoseconds>& durations) {
  const std::vector<Nanoseconds> start = replay_starts(step.edges, durations);
  std::vector<std::vector<TimeInterval>> busy(trace.devices.size());
  Nanoseconds end{0};
  for (std::size_t i = 0; i < start.size(); ++i) {
    const Work& work = step.works[i];
    const TimeInterval interval{start[i], start[i] + durations[i]};
    end = std::max(end, interval.end);
    const Copy copy = work.copy < 0 ? Copy{} : trace.copies.at(as_index(work.copy));
    for (const int device : {work.device, copy.source, copy.destination})
      if (device >= 0 && as_index(device) < busy.size()) busy[as_index(device)].push_back(interval);
  }
  std::vector<Nanoseconds> idle;
  for (std::vector<TimeInterval>& intervals : busy) idle.push_back(end - total(merge(std::move(intervals))));
  return idle;
}

std::vector<IdleCauses> split_dependencies(const StepWork& step, const TypicalTimes& times, const std::vector<DirectCauses>& direct,
                                           const std::vector<Nanoseconds>& idle, const Trace& trace) {
  std::vector<IdleCauses> result;
  for (const DirectCauses& device : direct) result.push_back(device.causes);
  const bool waited = std::any_of(direct.begin(), direct.end(), [](const DirectCauses& d) { return d.dependency.count() > 0; });
  if (!waited) return result;
  std::vector<std::array<Nanoseconds, kLevels.size()>> replayed(direct.size());
  if (has_stages(step)) {
    for (std::size_t level = 0; level < kLevels.size(); ++level) {
      const std::vector<Nanoseconds> at_level = replayed_idle(step, trace, times.durations(step, kLevels[level]));
      for (std::size_t d = 0; d < direct.size(); ++d) replayed[d][level] = at_level[d];
    }
  }
  for (std::size_t d = 0; d < direct.size(); ++d) {
    const Nanoseconds whole = direct[d].dependency;
    Parts parts = increments(replayed[d], idle[d], direct[d].causes);
    if (!has_stages(step) || !scale(parts, whole)) {
      result[d].unexplained += whole;
      continue;
    }
    for (std::size_t i = 0; i < parts.size(); ++i) result[d].*kSplit[i] += parts[i];
  }
  return result;
}

}  // namespace mptune::profiler

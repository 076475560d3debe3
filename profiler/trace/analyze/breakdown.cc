#include "profiler/trace/analyze/breakdown.h"

#include <algorithm>
#include <array>

#include "profiler/base/index.h"
#include "profiler/trace/analyze/busy.h"
#include "profiler/trace/analyze/idle.h"
#include "profiler/trace/analyze/idle_split.h"
#include "profiler/trace/analyze/step_work.h"
#include "profiler/trace/analyze/typical_times.h"
#include "profiler/trace/values/intervals.h"

namespace mptune::profiler {
namespace {

Nanoseconds time_within(const std::vector<TimeInterval>& intervals, TimeInterval window) {
  auto i = std::partition_point(intervals.begin(), intervals.end(), [&](const TimeInterval& t) { return t.end <= window.start; });
  Nanoseconds sum{0};
  for (; i != intervals.end() && i->start < window.end; ++i) {
    const TimeInterval part = clip(*i, window);
    sum += part.end - part.start;
  }
  return sum;
}

DeviceBreakdown within(const Busy& busy, TimeInterval window) {
  DeviceBreakdown result;
  result.window = window.end - window.start;
  result.overlap = time_within(busy.overlap, window);
  result.compute = time_within(busy.compute, window) - result.overlap;
  result.copy = time_within(busy.copy, window) - result.overlap;
  result.idle = result.window - result.compute - result.copy - result.overlap;
  return result;
}

}  // namespace

Nanoseconds IdleCauses::total() const {
  Nanoseconds sum{0};
  for (const NamedCause& cause : kIdleCauses) sum += this->*cause.time;
  return sum;
}

Breakdown break_down(const Trace& trace) {
  const std::vector<Busy> busy = busy_times(trace);
  const std::vector<StepWindow> windows = windows_of(trace);
  const std::vector<std::vector<DirectCauses>> direct = direct_causes(trace, busy, windows);
  const std::vector<StepWork> works = step_works(trace);
  const TypicalTimes times(works);
  Breakdown result;
  for (std::size_t w = 0; w < windows.size(); ++w) {
    StepBreakdown& step = result.steps.emplace_back(StepBreakdown{.step = windows[w].step, .devices = {}});
    std::vector<Nanoseconds> idle;
    for (const Busy& device : busy) {
      step.devices.push_back(within(device, {windows[w].start, windows[w].end}));
      idle.push_back(step.devices.back().idle);
    }
    const std::vector<IdleCauses> causes = split_dependencies(works[w], times, direct[w], idle, trace);
    for (std::size_t d = 0; d < causes.size(); ++d) step.devices[d].causes = causes[d];
  }
  return result;
}

DeviceBreakdown mean_over_steps(const Breakdown& breakdown, int device) {
  DeviceBreakdown mean;
  if (breakdown.steps.empty()) return mean;
  const auto add_to = [](DeviceBreakdown& sum, const DeviceBreakdown& part) {
    sum.window += part.window;
    sum.compute += part.compute;
    sum.copy += part.copy;
    sum.overlap += part.overlap;
    for (const NamedCause& cause : kIdleCauses) sum.causes.*cause.time += part.causes.*cause.time;
  };
  for (const StepBreakdown& step : breakdown.steps) add_to(mean, step.devices.at(as_index(device)));
  const auto steps = static_cast<std::int64_t>(breakdown.steps.size());
  mean.window /= steps;
  mean.compute /= steps;
  mean.copy /= steps;
  mean.overlap /= steps;
  for (const NamedCause& cause : kIdleCauses) mean.causes.*cause.time /= steps;
  mean.idle = mean.window - mean.compute - mean.copy - mean.overlap;
  // Every mean was rounded down, so the remainder is not negative.
  mean.causes.unexplained += mean.idle - mean.causes.total();
  return mean;
}

double bubble(const Breakdown& breakdown) {
  // Sums over long windows of thousands of devices can exceed 64 bits.
  double idle = 0;
  double window = 0;
  for (const StepBreakdown& step : breakdown.steps) {
    for (const DeviceBreakdown& device : step.devices) {
      idle += static_cast<double>(device.idle.count());
      window += static_cast<double>(device.window.count());
    }
  }
  return window == 0 ? 0 : idle / window;
}

}  // namespace mptune::profiler

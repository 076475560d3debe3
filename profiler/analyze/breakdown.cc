#include "mptune/profiler/analyze/breakdown.h"

#include <algorithm>
#include <array>

#include "mptune/profiler/trace/intervals.h"

namespace mptune {
namespace {

constexpr std::array kCauses{&IdleCauses::host,       &IdleCauses::copy_wait, &IdleCauses::sync,
                             &IdleCauses::structural, &IdleCauses::imbalance, &IdleCauses::straggler,
                             &IdleCauses::jitter,     &IdleCauses::profiler,  &IdleCauses::unexplained};

// What one device does over the whole trace, as disjoint ordered intervals.
struct Busy {
  std::vector<TimeInterval> compute;
  std::vector<TimeInterval> copy;
  std::vector<TimeInterval> overlap;
};

void add_copy(std::vector<Busy>& busy, int device, const Event& event) {
  if (device >= 0 && static_cast<std::size_t>(device) < busy.size())
    busy[static_cast<std::size_t>(device)].copy.push_back({event.start, event.end()});
}

void add(std::vector<Busy>& busy, const Trace& trace, const Event& event) {
  if (event.what != What::copy) {
    if (is_compute(event.what)) busy.at(static_cast<std::size_t>(event.device)).compute.push_back({event.start, event.end()});
    return;
  }
  const Copy copy = event.detail < 0 ? Copy{} : trace.copies.at(static_cast<std::size_t>(event.detail));
  add_copy(busy, event.device, event);
  if (copy.source != event.device) add_copy(busy, copy.source, event);
  if (copy.destination != event.device) add_copy(busy, copy.destination, event);
}

std::vector<Busy> busy_times(const Trace& trace) {
  std::vector<Busy> busy(trace.devices.size());
  for (const Event& event : trace.events) add(busy, trace, event);
  for (Busy& device : busy) {
    device.compute = merge(std::move(device.compute));
    device.copy = merge(std::move(device.copy));
    device.overlap = intersect(device.compute, device.copy);
  }
  return busy;
}

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
  result.causes.unexplained = result.idle;
  return result;
}

std::vector<StepWindow> windows_of(const Trace& trace) {
  if (!trace.steps.empty() || trace.events.empty()) return trace.steps;
  StepWindow all{.step = 0, .start = trace.events.front().start, .end = trace.events.front().end()};
  for (const Event& event : trace.events) {
    all.start = std::min(all.start, event.start);
    all.end = std::max(all.end, event.end());
  }
  return {all};
}

}  // namespace

Nanoseconds IdleCauses::total() const {
  Nanoseconds sum{0};
  for (const auto cause : kCauses) sum += this->*cause;
  return sum;
}

Breakdown break_down(const Trace& trace) {
  const std::vector<Busy> busy = busy_times(trace);
  Breakdown result;
  for (const StepWindow& window : windows_of(trace)) {
    StepBreakdown step{.step = window.step, .devices = {}};
    for (const Busy& device : busy) step.devices.push_back(within(device, {window.start, window.end}));
    result.steps.push_back(std::move(step));
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
    for (const auto cause : kCauses) sum.causes.*cause += part.causes.*cause;
  };
  for (const StepBreakdown& step : breakdown.steps) add_to(mean, step.devices.at(static_cast<std::size_t>(device)));
  const auto steps = static_cast<std::int64_t>(breakdown.steps.size());
  mean.window /= steps;
  mean.compute /= steps;
  mean.copy /= steps;
  mean.overlap /= steps;
  for (const auto cause : kCauses) mean.causes.*cause /= steps;
  mean.idle = mean.window - mean.compute - mean.copy - mean.overlap;
  // Every mean was rounded down, so what is missing is not negative.
  mean.causes.unexplained += mean.idle - mean.causes.total();
  return mean;
}

double bubble(const Breakdown& breakdown) {
  Nanoseconds idle{0};
  Nanoseconds window{0};
  for (const StepBreakdown& step : breakdown.steps) {
    for (const DeviceBreakdown& device : step.devices) {
      idle += device.idle;
      window += device.window;
    }
  }
  return window.count() == 0 ? 0 : static_cast<double>(idle.count()) / static_cast<double>(window.count());
}

}  // namespace mptune

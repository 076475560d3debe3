#pragma once

#include <algorithm>
#include <chrono>
#include <cmath>
#include <string>
#include <vector>

#include "reports/values/comparison.h"

namespace mptune::reports {

/// Times of a device in a step [ms].
struct StepTimes {
  double compute;
  double copy;
  double straggler;
  double jitter;
};

inline profiler::DeviceBreakdown broken_down(const StepTimes& times) {
  const auto milliseconds = [](double value) { return Nanoseconds(std::llround(1e6 * value)); };
  profiler::DeviceBreakdown device;
  device.compute = milliseconds(times.compute);
  device.copy = milliseconds(times.copy);
  device.causes.straggler = milliseconds(times.straggler);
  device.causes.jitter = milliseconds(times.jitter);
  device.idle = device.causes.total();
  device.window = device.compute + device.copy + device.idle;
  return device;
}

/// A report as build_trace_report makes it: steps[step][device].
inline TraceReport recorded(const std::vector<std::string>& names, const std::vector<std::vector<StepTimes>>& steps) {
  TraceReport report;
  std::vector<double> lengths;
  for (const auto& devices : steps) {
    profiler::StepBreakdown step{.step = static_cast<int>(lengths.size()), .devices = {}};
    for (const StepTimes& times : devices) step.devices.push_back(broken_down(times));
    lengths.push_back(std::chrono::duration<double>(step.devices.front().window).count());
    report.breakdown.steps.push_back(step);
  }
  for (const std::string& name : names) {
    DeviceRow row;
    row.device = name;
    report.devices.push_back(row);
  }
  report.steps_s = samples_of(lengths);
  report.step_s = median(lengths);
  return report;
}

inline TraceReport steady(const std::vector<std::string>& names, const std::vector<StepTimes>& devices, std::size_t steps = 8) {
  return recorded(names, std::vector<std::vector<StepTimes>>(steps, devices));
}

/// Recordings of which nothing but their reports is known.
inline std::vector<ComparedTrace> side(const std::vector<TraceReport>& reports) {
  std::vector<ComparedTrace> traces;
  for (const TraceReport& report : reports) traces.push_back({.name = "trace", .report = report, .work = {}, .plan = {}});
  return traces;
}

inline const PartChange& part_of(const std::vector<PartChange>& parts, const std::string& name) {
  return *std::ranges::find(parts, name, &PartChange::part);
}

}  // namespace mptune::reports

#include "reports/values/device_changes.h"

#include <algorithm>
#include <cmath>
#include <functional>

#include "profiler/base/index.h"
#include "profiler/trace/statistics/verdict.h"

namespace mptune::reports {
namespace {

constexpr const char* kAllDevices = "all devices, summed";
constexpr std::size_t kLeastSteps = 6;
constexpr std::size_t kMostChanges = 5;
constexpr double kLeastChange = 0.0005;
/// Parts that explain at least this share of what the largest part explains are as good an explanation.
constexpr double kAsGood = 0.9;

struct DevicePart {
  std::string name;
  std::function<Nanoseconds(const profiler::DeviceBreakdown&)> time;
};
std::vector<DevicePart> busy_and_idle() {
  return {{"window", &profiler::DeviceBreakdown::window},
          {"compute", &profiler::DeviceBreakdown::compute},
          {"copy", &profiler::DeviceBreakdown::copy},
          {"overlap", &profiler::DeviceBreakdown::overlap},
          {"idle", &profiler::DeviceBreakdown::idle}};
}
std::vector<DevicePart> causes_of_idle() {
  std::vector<DevicePart> parts;
  for (const profiler::NamedCause& cause : profiler::kIdleCauses)
    parts.push_back({cause.name, [&cause](const profiler::DeviceBreakdown& device) { return device.causes.*cause.time; }});
  return parts;
}

double in_seconds(Nanoseconds time) {
  return std::chrono::duration<double>(time).count();
}

double mean(const std::vector<double>& values) {
  double sum = 0;
  for (const double value : values) sum += value;
  return values.empty() ? 0 : sum / static_cast<double>(values.size());
}

/// Devices of one side's recordings whose times are added; empty where the side has no such device.
struct SideDevices {
  std::span<const TraceReport> recordings;
  std::vector<int> devices;

  [[nodiscard]] std::vector<double> per_step(const TraceReport& recording, const DevicePart& part) const {
    std::vector<double> values;
    for (const profiler::StepBreakdown& step : recording.breakdown.steps) {
      Nanoseconds sum{0};
      for (const int device : devices) sum += part.time(step.devices.at(as_index(device)));
      values.push_back(in_seconds(sum));
    }
    return values;
  }
  /// Returns the values that differ by chance: steps of one recording, means of several.
  [[nodiscard]] std::vector<double> samples(const DevicePart& part, bool of_recordings) const {
    if (!of_recordings) return per_step(recordings.front(), part);
    std::vector<double> means;
    for (const TraceReport& recording : recordings) means.push_back(mean(per_step(recording, part)));
    return means;
  }
};

PartChange part_change(const DevicePart& part, const SideDevices& a, const SideDevices& b) {
  const bool of_recordings = a.recordings.size() + b.recordings.size() > 2;
  const std::vector<double> in_a = a.samples(part, of_recordings), in_b = b.samples(part, of_recordings);
  PartChange change{.part = part.name, .a_s = mean(in_a), .b_s = mean(in_b), .ci95_s = {}};
  if (a.devices.empty() || b.devices.empty()) return change;
  if (of_recordings)
    change.ci95_s = pooled_difference95(in_a, in_b);
  else if (std::min(in_a.size(), in_b.size()) >= kLeastSteps)
    change.ci95_s = mean_difference95(in_a, in_b);
  return change;
}

DeviceChange change_of(const std::string& name_a, const std::string& name_b, const SideDevices& a, const SideDevices& b) {
  DeviceChange change{.a = name_a, .b = name_b, .parts = {}, .idle = {}};
  for (const DevicePart& part : busy_and_idle()) change.parts.push_back(part_change(part, a, b));
  for (const DevicePart& part : causes_of_idle()) change.idle.push_back(part_change(part, a, b));
  return change;
}

/// Returns for each device of `a` the index of its partner in `b`, -1 for none. Matches names first; the rest by order if the counts are
/// equal.
std::vector<int> partners(const std::vector<DeviceRow>& a, const std::vector<DeviceRow>& b) {
  std::vector<int> partner(a.size(), -1);
  std::vector<bool> taken(b.size(), false);
  for (std::size_t i = 0; i < a.size(); ++i) {
    for (std::size_t j = 0; j < b.size() && partner[i] < 0; ++j) {
      if (!taken[j] && a[i].device == b[j].device) {
        partner[i] = static_cast<int>(j);
        taken[j] = true;
      }
    }
  }
  for (std::size_t i = 0; i < a.size() && a.size() == b.size(); ++i) {
    if (partner[i] < 0) {
      const auto free = std::ranges::find(taken, false);
      partner[i] = static_cast<int>(free - taken.begin());
      *free = true;
    }
  }
  return partner;
}

bool is_total(const PartChange& part) {
  return part.part == "window" || part.part == "idle";
}

/// Calls `visit` with the parts and causes of devices that both sides have and that changed beyond noise.
void each_clear_change(const std::vector<DeviceChange>& devices, const std::function<void(const DeviceChange&, const PartChange&)>& visit) {
  for (const DeviceChange& device : devices) {
    if (!device.in_both()) continue;
    for (const auto* parts : {&device.parts, &device.idle})
      for (const PartChange& part : *parts)
        if (!is_total(part) && part.is_clear() && std::abs(device.share(part)) >= kLeastChange) visit(device, part);
  }
}

bool is_work(const MainCause& cause) {
  return cause.part.part == "compute" || cause.part.part == "copy" || cause.part.part == "overlap";
}

}  // namespace

std::string DeviceChange::name() const {
  if (a.empty() || b.empty()) return a + b;
  return a == b ? a : a + " -> " + b;
}

double DeviceChange::share(const PartChange& part) const {
  const double window = parts.front().a_s;
  return window > 0 ? part.difference_s() / window : 0;
}

std::vector<DeviceChange> device_changes(std::span<const TraceReport> a, std::span<const TraceReport> b) {
  const std::vector<DeviceRow>&in_a = a.front().devices, &in_b = b.front().devices;
  const std::vector<int> partner = partners(in_a, in_b);
  std::vector<DeviceChange> changes;
  for (std::size_t i = 0; i < in_a.size(); ++i) {
    const int j = partner[i];
    const SideDevices none_or_one{b, j < 0 ? std::vector<int>{} : std::vector<int>{j}};
    changes.push_back(change_of(in_a[i].device, j < 0 ? "" : in_b[as_index(j)].device, {a, {static_cast<int>(i)}}, none_or_one));
  }
  for (int j = 0; j < static_cast<int>(in_b.size()); ++j)
    if (std::ranges::find(partner, j) == partner.end()) changes.push_back(change_of("", in_b[as_index(j)].device, {a, {}}, {b, {j}}));
  return changes;
}

std::optional<DeviceChange> summed_change(std::span<const TraceReport> a, std::span<const TraceReport> b) {
  const std::vector<int> partner = partners(a.front().devices, b.front().devices);
  SideDevices in_a{a, {}}, in_b{b, {}};
  for (std::size_t i = 0; i < partner.size(); ++i) {
    if (partner[i] < 0) continue;
    in_a.devices.push_back(static_cast<int>(i));
    in_b.devices.push_back(partner[i]);
  }
  if (in_a.devices.size() < 2) return std::nullopt;
  return change_of(kAllDevices, kAllDevices, in_a, in_b);
}

std::vector<LargestChange> largest_changes(const std::vector<DeviceChange>& devices) {
  std::vector<LargestChange> changes;
  each_clear_change(devices, [&](const DeviceChange& device, const PartChange& part) {
    changes.push_back({device.name(), part, device.share(part)});
  });
  std::ranges::stable_sort(changes, std::ranges::greater{}, [](const LargestChange& c) { return std::abs(c.part.difference_s()); });
  changes.resize(std::min(changes.size(), kMostChanges));
  return changes;
}

std::optional<MainCause> main_cause(const std::vector<DeviceChange>& devices) {
  std::vector<MainCause> causes;
  each_clear_change(devices, [&](const DeviceChange& device, const PartChange& part) {
    const double whole = device.parts.front().difference_s();
    if (whole != 0 && part.difference_s() / whole > 0) causes.push_back({device.name(), part, part.difference_s() / whole});
  });
  std::ranges::stable_sort(causes, std::ranges::greater{}, &MainCause::share);
  if (causes.empty()) return std::nullopt;
  const auto work =
      std::ranges::find_if(causes, [&](const MainCause& cause) { return is_work(cause) && cause.share >= kAsGood * causes.front().share; });
  return work == causes.end() ? causes.front() : *work;
}

}  // namespace mptune::reports

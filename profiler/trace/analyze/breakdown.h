#pragma once

#include <array>
#include <vector>

#include "profiler/trace/values/trace.h"

namespace mptune::profiler {

/// Idle time of a device by cause (docs/idle_causes.md). The parts sum to the device's idle time exactly.
struct IdleCauses {
  Nanoseconds host{0};
  Nanoseconds copy_wait{0};
  Nanoseconds sync{0};
  Nanoseconds structural{0};
  Nanoseconds imbalance{0};
  Nanoseconds straggler{0};
  Nanoseconds jitter{0};
  Nanoseconds profiler{0};
  Nanoseconds unexplained{0};

  [[nodiscard]] Nanoseconds total() const;
  bool operator==(const IdleCauses&) const = default;
};

struct NamedCause {
  const char* name;
  Nanoseconds IdleCauses::*time;
};
/// All causes with the names that files and reports use.
inline constexpr std::array<NamedCause, 9> kIdleCauses = {{{"host", &IdleCauses::host},
                                                           {"copy_wait", &IdleCauses::copy_wait},
                                                           {"sync", &IdleCauses::sync},
                                                           {"structural", &IdleCauses::structural},
                                                           {"imbalance", &IdleCauses::imbalance},
                                                           {"straggler", &IdleCauses::straggler},
                                                           {"jitter", &IdleCauses::jitter},
                                                           {"profiler", &IdleCauses::profiler},
                                                           {"unexplained", &IdleCauses::unexplained}}};

/// One device in one step: compute + copy + overlap + idle == window, in integer nanoseconds.
/// `compute` and `copy` are the parts outside the overlap. A peer copy counts on both of its devices.
struct DeviceBreakdown {
  Nanoseconds window{0};
  Nanoseconds compute{0};
  Nanoseconds copy{0};
  Nanoseconds overlap{0};
  Nanoseconds idle{0};
  IdleCauses causes;
  bool operator==(const DeviceBreakdown&) const = default;
};

struct StepBreakdown {
  int step = -1;
  std::vector<DeviceBreakdown> devices;  ///< as Trace::devices
  bool operator==(const StepBreakdown&) const = default;
};

struct Breakdown {
  std::vector<StepBreakdown> steps;
  bool operator==(const Breakdown&) const = default;
};

/// Breaks down every step of every device. A trace without steps counts as one step (windows_of).
/// Requires: events ordered by start, steps ordered and disjoint; device and detail of every event in range (throws std::out_of_range),
/// edges without a cycle (throws std::invalid_argument). O(n log n) in the events.
/// Causes come from idle.h (what each idle interval waited for) and idle_split.h (replays split waits for other devices).
[[nodiscard]] Breakdown break_down(const Trace& trace);

/// Returns the mean of one device over the steps, in whole nanoseconds. The parts still add up: the remainder counts as idle.
[[nodiscard]] DeviceBreakdown mean_over_steps(const Breakdown& breakdown, int device);

/// Returns the idle share of the steps' windows, over all devices: 0 to 1; 0 for an empty breakdown.
[[nodiscard]] double bubble(const Breakdown& breakdown);

}  // namespace mptune::profiler

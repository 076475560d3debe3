#pragma once

#include <compare>
#include <cstdint>
#include <set>
#include <vector>

#include "profiler/trace/values/trace.h"

namespace mptune::profiler {

/// Device, context and stream of an event in the Nsight layout.
struct Place {
  int device = 0;
  std::int64_t context = 0;
  std::int64_t stream = 0;
  auto operator<=>(const Place&) const = default;
};

/// Contexts and streams of a trace's events. Events with a recorded Kernel keep theirs. All others get one context per device and one
/// stream per lane, with numbers that no Kernel uses. Requires: a consistent trace that outlives it.
class Placement {
 public:
  explicit Placement(const Trace& trace);

  /// Returns the context of a device's work without a recorded one; 0 for device -1.
  [[nodiscard]] std::int64_t context(int device) const;
  [[nodiscard]] Place operator()(const Event& event) const;
  /// Returns the places of all events and of every device's compute lane.
  [[nodiscard]] std::set<Place> all() const;

 private:
  [[nodiscard]] Place unrecorded(int device, int lane) const;

  const Trace& trace_;
  std::vector<std::int64_t> contexts_;  // of the devices
  std::int64_t first_stream_ = 0;
};

/// Returns the recorded Kernel of an event, nullptr if it has none.
[[nodiscard]] const Kernel* kernel_of(const Trace& trace, const Event& event);

/// True for events with a row in CUPTI_ACTIVITY_KIND_KERNEL.
[[nodiscard]] bool has_kernel_row(EventKind kind);

}  // namespace mptune::profiler

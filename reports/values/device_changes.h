#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "reports/values/report.h"

namespace mptune::reports {

/// One part of a device's step in A and in B, in seconds, as means over the steps; for several recordings, as means of their means.
struct PartChange {
  std::string part;  ///< "window", "compute", "copy", "overlap", "idle", or a cause of idle: "copy_wait"
  double a_s = 0;
  double b_s = 0;
  /// The interval of b_s - a_s. For one recording a side it is over the steps, if both have at least 6; for several, over the recordings.
  std::optional<Interval> ci95_s;
  [[nodiscard]] double difference_s() const { return b_s - a_s; }
  /// Returns false where the interval of the difference holds 0.
  [[nodiscard]] bool is_clear() const { return !ci95_s || ci95_s->low > 0 || ci95_s->high < 0; }
};

/// A device of A and the device of B with the same name, or else at the same place.
struct DeviceChange {
  std::string a;                  ///< its name in A, "" where only B has it
  std::string b;                  ///< its name in B, "" where only A has it
  std::vector<PartChange> parts;  ///< window, compute, copy, overlap, idle
  std::vector<PartChange> idle;   ///< causes of idle
  [[nodiscard]] bool in_both() const { return !a.empty() && !b.empty(); }
  /// Returns "cpu:0", or "cpu:0 -> cuda:0" where the names differ.
  [[nodiscard]] std::string name() const;
  /// Returns the difference as a share of A's window; 0 where A has none.
  [[nodiscard]] double share(const PartChange& part) const;
};

/// A part of a device's step that changed.
struct LargestChange {
  std::string device;
  PartChange part;   ///< compute, copy, overlap or a cause of idle
  double share = 0;  ///< of A's step
};

/// The part of a device's step that explains most of the difference of the steps.
struct MainCause {
  std::string device;
  PartChange part;   ///< compute, copy, overlap or a cause of idle
  double share = 0;  ///< of the difference of the steps: above 1 where other parts went the other way
};

/// Returns the changes in A's order, then those of devices that only B has. Requires: each side is not empty, and its recordings have the
/// same devices in the same order.
[[nodiscard]] std::vector<DeviceChange> device_changes(std::span<const TraceReport> a, std::span<const TraceReport> b);

/// Returns the parts summed over the devices that both have, as a device named "all devices, summed"; nullopt where these are fewer than
/// two.
[[nodiscard]] std::optional<DeviceChange> summed_change(std::span<const TraceReport> a, std::span<const TraceReport> b);

/// Returns at most 5 changes, largest first, without those that are less than 0.05 % of A's step or are not clear.
[[nodiscard]] std::vector<LargestChange> largest_changes(const std::vector<DeviceChange>& devices);

/// Returns the clear change that has the largest share of the difference of the steps, in its direction. Of changes within 10 % of the
/// largest, work is preferred to idle time, which follows from it. Returns nullopt where there is none.
[[nodiscard]] std::optional<MainCause> main_cause(const std::vector<DeviceChange>& devices);

}  // namespace mptune::reports

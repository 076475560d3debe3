#pragma once

#include <optional>
#include <string>
#include <vector>

#include "planner/plan_file.h"
#include "profiler/statistics/verdict.h"
#include "reports/report.h"

namespace mptune::reports {

/// One part of a device's step in A and in B, seconds, means over the steps.
struct PartChange {
  std::string part;  ///< "window", "compute", "copy", "overlap", "idle", or a cause of idle: "copy_wait"
  double a_s = 0;
  double b_s = 0;
  std::optional<Interval> ci95_s;  ///< of b_s - a_s, where both have at least 6 steps
  [[nodiscard]] double difference_s() const { return b_s - a_s; }
};

/// A device of A beside the device of B of the same name, or else of the same place.
struct DeviceChange {
  std::string a;                  ///< its name in A, "" where only B has it
  std::string b;                  ///< its name in B, "" where only A has it
  std::vector<PartChange> parts;  ///< window, compute, copy, overlap, idle
  std::vector<PartChange> idle;   ///< causes of idle
  [[nodiscard]] bool in_both() const { return !a.empty() && !b.empty(); }
  /// "cpu:0", or "cpu:0 -> cuda:0" where the names differ.
  [[nodiscard]] std::string name() const;
  /// The difference as a share of A's window; 0 where A has none.
  [[nodiscard]] double share(const PartChange& part) const;
};

/// A part of a device's step that changed.
struct LargestChange {
  std::string device;
  PartChange part;   ///< compute, copy, overlap or a cause of idle
  double share = 0;  ///< of A's step
};

struct ComparedSide {
  std::string name;  ///< path as given
  std::optional<MedianEstimate> step_s;
  bool predicted = false;  ///< `step_s` was never measured
};

/// What changed from A to B.
struct Comparison {
  std::string kind;  ///< "traces", "plans", "studies"
  ComparedSide a, b;
  std::optional<double> ratio;         ///< time of B over time of A; absent where a time is
  std::optional<Interval> ratio_ci95;  ///< absent where a side has fewer than 2 samples
  Verdict verdict = Verdict::unknown;  ///< on B
  std::string reason;                  ///< one clause
  std::vector<DeviceChange> devices;   ///< in A's order, then what only B has; empty without traces
  /// Largest first, at most 5; without what is less than 0.05 % of A's step or whose interval holds 0.
  std::vector<LargestChange> largest;
  std::optional<std::vector<std::string>> plan_changes;  ///< in words, see plan_changes.h; absent where the plans are not known
};

/// Traces: their steps are the samples. The verdict is unknown where a trace lost too much. A trace and its copy are the same.
[[nodiscard]] Comparison compare_traces(const TraceReport& a, const TraceReport& b);
/// Plan files: by what was measured of them; where one was not, by predictions, and the verdict is unknown. Equal files are the same.
[[nodiscard]] Comparison compare_plan_files(const PlanFile& a, const PlanFile& b);
/// Studies: by the samples of the recommended plans; devices by their traces, where both have one that can be trusted.
[[nodiscard]] Comparison compare_studies(const StudyReport& a, const StudyReport& b);

/// Adds what differs between the plans of A and B. Steps over batches of different size are different work: the verdict becomes unknown.
void add_plan_changes(Comparison& comparison, const Plan& a, const Plan& b);

}  // namespace mptune::reports

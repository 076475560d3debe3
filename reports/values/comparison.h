#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "planner/plan/file/plan_file.h"
#include "profiler/trace/statistics/verdict.h"
#include "reports/values/device_changes.h"
#include "reports/values/report.h"
#include "reports/values/unlike.h"
#include "tuner/study/recommend/unmeasured.h"

namespace mptune::reports {

struct ComparedSide {
  std::vector<std::string> names;  ///< paths as given; several only for recordings
  /// The step; for several recordings the geometric mean of their medians, without an interval, and the sum of their samples.
  std::optional<MedianEstimate> step_s;
  std::vector<MedianEstimate> recordings;  ///< in the order of `names`; empty unless traces are compared
  bool predicted = false;                  ///< `step_s` was never measured
  int batch = 0;                           ///< samples of a step, 0: not known
  tuner::Unmeasured unmeasured;            ///< for a study: what its recommendation was not compared with
};

/// What changed from A to B.
struct Comparison {
  std::string kind;  ///< "traces", "plans", "studies"
  ComparedSide a, b;
  std::optional<double> ratio;              ///< time of B over time of A; absent where a time is absent
  std::optional<Interval> ratio_ci95;       ///< absent where a side has fewer than kLeastForInterval samples; 1 to 1 for the same data
  bool drift_covered = false;               ///< the interval contains what changes between recordings, or both sides are the same data
  Verdict verdict = Verdict::unknown;       ///< on B
  std::string reason;                       ///< one clause
  std::vector<Unlike> unlike;               ///< things besides the plan in which A and B differ
  std::vector<DeviceChange> devices;        ///< in A's order, then those that only B has; empty without traces
  std::optional<DeviceChange> all_devices;  ///< summed over the devices that both have, where these are several
  std::vector<LargestChange> largest;
  std::optional<MainCause> cause;                        ///< where B is slower or faster
  std::optional<std::vector<std::string>> plan_changes;  ///< in words, see plan_changes.h; absent where the plans are not known
};

/// A recording of a side.
struct ComparedTrace {
  std::string name;  ///< path as given
  TraceReport report;
  ComparedWork work;
  std::optional<Plan> plan;
};

/// Compares traces. With one trace a side, their steps are the samples; with more, the recordings are. B is slower only where it is slower
/// by more than `band`, a share of A's time. The verdict is unknown where a trace lost too much, or where models, inputs or batches differ.
/// A trace and its copy count as the same. Throws Error where recordings of one side are of other devices, models or plans than its first.
/// Requires: no side is empty.
[[nodiscard]] Comparison compare_traces(const std::vector<ComparedTrace>& a, const std::vector<ComparedTrace>& b, double band = kSameBand);
/// Compares plan files by what was measured of them; where one was not measured, by predictions, and the verdict is unknown. Equal files
/// count as the same.
[[nodiscard]] Comparison compare_plan_files(const PlanFile& a, const PlanFile& b, double band = kSameBand);
/// Compares studies by the samples of the recommended plans, and devices by their traces, where both have a trace that can be trusted.
[[nodiscard]] Comparison compare_studies(const StudyReport& a, const StudyReport& b, double band = kSameBand);

/// Returns the samples per second of a side; nullopt where step or batch is not known.
[[nodiscard]] std::optional<double> samples_per_second(const ComparedSide& side);

}  // namespace mptune::reports

#pragma once

#include <optional>
#include <string>
#include <vector>

#include "mptune/planner/search/search.h"
#include "mptune/planner/simulate/simulate.h"
#include "mptune/profiler/analyze/breakdown.h"
#include "mptune/profiler/store/store.h"
#include "mptune/tuner/recommend.h"
#include "mptune/tuner/trial/trial.h"

namespace mptune {

/// One device of a breakdown, seconds, means over the recorded steps.
struct DeviceRow {
  std::string device;
  double window_s = 0, compute_s = 0, copy_s = 0, overlap_s = 0, idle_s = 0;
  IdleCauses idle;
  std::int64_t peak_bytes = 0;
};

/// A box of a timeline: one action on one device.
struct TimelineBox {
  int device = 0;
  What what = What::forward;
  int stage = 0;
  int microbatch = -1;
  double start_s = 0;  ///< from the start of the step
  double end_s = 0;
};

/// A point of the split-size curve.
struct CurvePoint {
  int split_size = 0;
  double predicted_s = 0;             ///< 0: not predicted
  std::optional<double> measured_s;
  Interval measured_ci95_s;
};

/// Everything a report of a trace shows; plain values, computed by the rooms to the left.
struct TraceReport {
  std::string title;
  std::vector<DeviceRow> devices;
  double step_s = 0;
  double bubble = 0;
  std::vector<TimelineBox> timeline;
  double timeline_s = 0;  ///< length of the drawn step
  TraceQuality quality;
};

/// Everything a report of a study shows.
struct StudyReport {
  std::string model;
  std::string study;
  std::string plan_file;
  Recommendation recommendation;
  std::vector<Trial> trials;
  std::vector<CurvePoint> curve;  ///< of the kind of pipeline that was recommended as best pipeline
  double one_thread_step_s = 0;   ///< single_device: half of it is the limit of two devices
  double co_running_slowdown = 1;
  double lower_bound_s = 0;
  double gap = 0;
  double elapsed_s = 0;
  std::optional<TraceReport> trace;  ///< of the recommended plan
};

[[nodiscard]] TraceReport build_trace_report(const Trace& trace, const std::vector<std::int64_t>& peak_bytes, const std::string& title);
/// Step time over split size: of every split size the best measured trial, and the best prediction, among plans with more than one stage.
[[nodiscard]] std::vector<CurvePoint> split_size_curve(const std::vector<Trial>& trials, const std::vector<Candidate>& ranked);

}  // namespace mptune

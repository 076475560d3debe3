#pragma once

#include <optional>
#include <string>
#include <vector>

#include "planner/advise/advise.h"
#include "planner/cost/peak_bytes.h"
#include "planner/search/search_result.h"
#include "planner/simulate/simulate.h"
#include "profiler/base/machine.h"
#include "profiler/trace/analyze/breakdown.h"
#include "profiler/trace/analyze/class_sizes.h"
#include "profiler/trace/analyze/quality_objection.h"
#include "profiler/trace/store/store.h"
#include "tuner/study/explore/refit.h"
#include "tuner/study/recommend/recommend.h"
#include "tuner/trial/trial.h"

namespace mptune::reports {

/// One device of a breakdown, in seconds, as means over the recorded steps.
struct DeviceRow {
  std::string device;
  std::string description{};  ///< as in TraceDevice
  double window_s = 0, compute_s = 0, copy_s = 0, overlap_s = 0, idle_s = 0;
  profiler::IdleCauses idle;
  std::int64_t peak_bytes = 0;
};

/// A box of a timeline: one action on one device.
struct TimelineBox {
  int device = 0;
  EventKind kind = EventKind::forward;
  int stage = 0;
  int microbatch = -1;
  double start_s = 0;  ///< from the start of the step
  double end_s = 0;
};

/// A part of a device's idle time in the drawn step.
struct IdleSpan {
  int device = 0;
  double start_s = 0;  ///< from the start of the step
  double end_s = 0;
  std::string cause;  ///< one of profiler::kIdleCauses; "" while it waits for work of other devices, which the breakdown splits further
};

/// A layer in the bar of a partition.
struct PlannedLayer {
  std::string name;
  int stage = 0;
  double step_s = 0;  ///< forward and backward of all micro-batches on the stage's first device
};

/// A point of the split-size curve.
struct CurvePoint {
  int split_size = 0;
  double predicted_s = 0;  ///< 0: not predicted
  std::optional<double> measured_s;
  std::optional<Interval> measured_ci95_s;
};

/// The part of the critical path that one stage, one link or waiting takes; mean over the steps.
struct PathRow {
  std::string what;  ///< "stage 3", "copies cpu:0 to cpu:1", "gaps"
  double time_s = 0;
  double share = 0;  ///< of the step
};

/// What one direction of a link did in the whole recording.
struct LinkRow {
  std::string source;
  std::string destination;
  std::int64_t copies = 0;
  std::int64_t bytes = 0;
  double time_s = 0;
  double exposed_s = 0;  ///< part of it during which the destination computed nothing
};

/// A forward or backward that took far longer, or started far later, than others like it (profiler/trace/analyze/stalls.h).
struct StallRow {
  std::string device;
  int step = 0;
  int stage = 0;
  int microbatch = 0;
  EventKind kind = EventKind::forward;
  bool late = false;   ///< it started late; false: it took long
  double time_s = 0;   ///< how late, or how long
  double usual_s = 0;  ///< how late or how long others like it usually are
  double price_s = 0;  ///< by how much its step, replayed, is shorter without it
  double price_percent = 0;
  bool hidden = false;  ///< waits of others hide it: its price is about 0
};

/// Memory in use on a device over the drawn step, and what its peak is made of.
struct MemoryRow {
  struct Sample {
    double time_s = 0;  ///< from the start of the step
    std::int64_t bytes = 0;
  };
  std::string device;
  std::vector<Sample> samples;                    ///< as recorded, ordered by time
  std::int64_t peak_bytes = 0;                    ///< the most that was in use, 0: not known
  std::int64_t cap_bytes = 0;                     ///< what the device has or may use, 0: not known
  std::optional<planner::PeakContents> contents;  ///< by plan and profile, where the trace has them
};

/// Everything a report of a trace shows; plain values.
struct TraceReport {
  std::string title;
  std::vector<DeviceRow> devices;
  profiler::Breakdown breakdown;
  Samples steps_s;  ///< one per step
  double step_s = 0;
  double bubble = 0;                    ///< idle share of the steps' windows, over all devices
  std::optional<double> bubble_theory;  ///< bubble of the plan's schedule in theory, where the plan is known
  double ideal_step_s = 0;              ///< step with each computation the mean of its kind, communication the median; 0: simulated
  bool has_stages = false;              ///< events are tagged with their stage
  std::vector<planner::Advice> advice;  ///< largest first; what they save is this share of step_s
  std::vector<StallRow> stalls;         ///< dearest first; none for a simulation
  std::vector<PathRow> critical_path;   ///< largest first
  std::vector<LinkRow> links;
  std::vector<MemoryRow> memory;                        ///< a row per device, empty where nothing is known about its memory
  double clock_error_s = 0;                             ///< largest time by which work seems to begin before what it waited for has ended
  std::optional<profiler::QualityObjection> objection;  ///< why nothing can be concluded
  std::vector<TimelineBox> timeline;
  std::vector<IdleSpan> idle_spans;  ///< of the drawn step, by device and start
  double timeline_s = 0;             ///< length of the drawn step
  double recompute_s = 0;            ///< mean per device and step, part of compute
  double reduce_s = 0;               ///< sums over replicas: mean per device and step, part of compute
  TraceQuality quality;
  std::int64_t lone_collectives = 0;         ///< collectives in the file of one rank: how much of their time is waiting is not known
  double lone_collectives_share = 0;         ///< share of the step of the device that runs them
  std::int64_t whole_graphs = 0;             ///< CUDA graphs recorded as a whole: what is inside is not known
  double whole_graphs_share = 0;             ///< share of the computing time of all devices
  std::vector<ImplausibleTime> implausible;  ///< records left out or cut because their times can't be right, the first few
};

/// How near a step is to perfect scaling, which is the un-pipelined one-device step divided by the number of devices.
struct LimitShare {
  struct Part {
    std::string what;
    double seconds = 0;  ///< of the step; negative where less was spent than the limit assumes
  };
  /// Whether the step on one device is a fair measure of the others. Above 110 % it is not, because one device is slower than it should be.
  enum class Yardstick {
    fair,
    larger_devices,  ///< the other devices have more cores than this one
    slow_alone,      ///< its caches, memory or threads hold it back
  };
  double limit_s = 0;
  double step_s = 0;
  Yardstick yardstick = Yardstick::fair;
  std::vector<Part> rest;  ///< where step - limit goes, adding up to it; empty without a trace
};

/// Everything a report of a study shows.
struct StudyReport {
  std::string model;
  std::string study;
  std::string plan_file;
  tuner::Recommendation recommendation;
  std::vector<tuner::Trial> trials;
  std::vector<CurvePoint> curve;             ///< of the best pipeline's stages and schedule
  std::optional<LimitShare> limit;           ///< of the recommended plan
  std::optional<LimitShare> pipeline_limit;  ///< of the best pipeline, where that is another plan
  double co_running_slowdown = 1;
  std::string stop_reason;
  std::optional<tuner::Refit> refit;  ///< what the trials taught the simulator
  double lower_bound_s = 0;
  double gap = 0;
  StagesPerDevice stages_per_device;
  double elapsed_s = 0;
  std::optional<TraceReport> trace;                  ///< of the recommended plan
  std::optional<TraceReport> pipeline_trace;         ///< of the best pipeline, where that is another plan
  std::optional<TraceReport> naive_trace;            ///< of naive model parallelism, where that is another plan
  std::vector<std::vector<std::string>> modules;     ///< module paths per stage of the recommended plan; may be empty
  std::vector<PlannedLayer> partition;               ///< layers of the recommended plan; empty where the profile does not price it
  std::vector<ProfileLayer> layers;                  ///< of the model
  std::vector<ProfileDevice> devices;                ///< of the profile
  std::vector<profiler::ClassSizes> measured_sizes;  ///< of the profile
  Fingerprint fingerprint;
  int batch = 0;
  std::vector<std::string> trace_files;
  TrainingSpec training;       ///< what was asked for; without a model in studies of earlier versions
  std::string report_file;     ///< the study's HTML page; "" where there is none
  std::string run_command;     ///< trains with the plan, or records it where its devices sleep; "": the model is not known
  std::string resume_command;  ///< goes on measuring
  Machine machine;
};

/// Builds the report of a trace. `peak_bytes`: per device, or empty for those of the trace's devices. Advice is worth a share of the
/// report's step.
[[nodiscard]] TraceReport build_trace_report(const Trace& trace, const std::vector<std::int64_t>& peak_bytes, const std::string& title);
/// Adds what each device holds at its peak, by plan and profile.
void add_contents(TraceReport& report, const Plan& plan, const CostModel& cost);
/// Adds what the trace's plan tells: the theoretical bubble, and with the profile it was planned with, what the plan could be changed to.
void add_plan(TraceReport& report, const Plan& plan, const Profile* profile);
/// Returns the step time over split size: for every split size the best measured trial and the best prediction, among plans with more than
/// one stage.
[[nodiscard]] std::vector<CurvePoint> split_size_curve(const std::vector<tuner::Trial>& trials, const std::vector<Candidate>& ranked);
/// Returns predictions of `plan`'s stages and schedule over the split sizes that divide its batch (at most 12 of them), for the curve's
/// line.
[[nodiscard]] std::vector<Candidate> sweep_split_sizes(const Plan& plan, const CostModel& cost);

/// Splits the distance to the limit by the trace of the plan. Requires: positive times, devices >= 1.
[[nodiscard]] LimitShare limit_share(double step_s, double single_device_step_s, int devices, double co_running_slowdown,
                                     const std::optional<TraceReport>& trace);

/// Builds everything of a study's report except file names, traces and times of the run itself.
[[nodiscard]] StudyReport build_study_report(const tuner::Recommendation& recommendation, const std::vector<tuner::Trial>& trials,
                                             const Profile& profile);

}  // namespace mptune::reports

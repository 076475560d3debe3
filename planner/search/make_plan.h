#pragma once

#include <string>
#include <vector>

#include "planner/plan/executable.h"
#include "planner/plan/plan.h"

namespace mptune {

/// What users state about one plan. Without `cuts`, stages have equal layer counts. stage_devices() of the schedule places the stages; with
/// `actions`, a stage is on the device whose row has it. There is no profile, so schedules that depend on costs use the default StageCosts.
/// make_plan() throws Error for more stages than layers, cuts out of range or not ascending, or a batch smaller than m.
struct PlanOptions {
  std::vector<std::string> devices;
  int batch = 0;
  int layers = 0;
  int stages = 0;               ///< 0: as replicas, cuts or actions say, else virtual_stages on each device
  int virtual_stages = 0;       ///< per device; 0: 1 with replicas or actions, else the schedule's ScheduleInfo::least_virtual_stages
  std::vector<int> cuts;        ///< empty: equal layer counts
  std::vector<int> cut_places;  ///< ascending layers before which stages may begin; empty: all
  int microbatches =
      0;  ///< 0: as many as `actions` have; else 1 for naive, min(4 x stages, batch) for others, with replicas at least one each
  int split_size = 0;                       ///< 0: not given; not together with microbatches
  SampleRange samples;                      ///< samples in a micro-batch that the model takes, where neither number nor size is given
  std::string schedule = kDefaultSchedule;  ///< a name; empty: the name of `actions`, or the default without actions
  std::vector<std::vector<Action>> actions;
  std::string recompute = "none";  ///< "none", "all", or stage numbers "0,2"
  std::string offload = "none";    ///< "none", "all", or stage numbers "0,2"; only stages that do not recompute
  std::vector<int> replicas;       ///< devices per stage; empty: 1 each
  Precision precision = Precision::float32;
};
[[nodiscard]] Plan make_plan(const PlanOptions& options);

/// Returns "" if plans of this schedule are executable, else why not: "the runtime has no split backward (zero bubble)". For
/// `virtual_stages` see PlanOptions. Throws Error for an unknown name and for stages per device that the schedule does not have.
[[nodiscard]] std::string why_schedule_not_executable(const std::string& schedule, int virtual_stages, const Capabilities& capabilities);

/// Returns the stages that a PlanOptions::recompute names, ascending. Throws Error if it names a stage that is not below `stages`, or no
/// stage.
[[nodiscard]] std::vector<int> recomputed_stages(const std::string& recompute, int stages);
/// Returns the stages that a PlanOptions::offload names, ascending. Throws Error in the same cases.
[[nodiscard]] std::vector<int> offloaded_stages(const std::string& offload, int stages);
/// Throws Error unless the counts are positive and add up to `devices`.
void check_replicas(const std::vector<int>& replicas, int devices);

}  // namespace mptune

#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "planner/cost/cost_model.h"
#include "planner/executable.h"
#include "planner/plan.h"
#include "planner/simulate/simulate.h"

namespace mptune {

struct Candidate {
  Plan plan;
  Prediction prediction;
};

/// What a search may choose from.
struct SearchSpace {
  std::vector<std::string> devices;        ///< distinct; a stage or a replica each, or several stages
  std::vector<std::string> whole_machine;  ///< a device of all cores ("cpu:0-1") for the un-pipelined plan, or empty
  std::vector<std::int64_t> memory_bytes;  ///< cap per device as `devices`; 0 or an empty list: no cap
  std::int64_t whole_machine_memory_bytes = 0;
  int batch = 0;
  std::vector<int> microbatch_counts;  ///< empty: 1, 2, 3, 4, 6, 8, 12, 16, 24, 32 .. up to the batch
  std::vector<std::string> schedules;  ///< empty: all
  std::vector<int> stage_counts;       ///< empty: all that the devices allow
  std::vector<int> virtual_counts;     ///< stages per device; empty: 1 and 2
  std::vector<std::vector<int>> cuts;  ///< empty: all; else only these
  std::string recompute;  ///< empty: the layers that memory asks for, as few seconds of them as fit; else as PlanOptions says it
  std::vector<int>
      replicas;  ///< empty: one each, or all devices shared out to the stages in any way; else devices per stage, of those alone
  Capabilities capabilities;                       ///< plans beyond them are not proposed
  bool look_beyond = true;                         ///< they are listed, where they would be faster
  int keep = 32;                                   ///< plans to return
  std::int64_t most_actions = 16'000'000;          ///< simulated before a search ends early and says in `rejected` what it did not reach
  std::function<bool()> stop;                      ///< asked between steps of some milliseconds; true ends the search with what it has
  std::function<void(const Candidate&)> improved;  ///< told of every executable plan that is faster than all before it
};

/// Why plans are not among the best.
enum class RejectedAs {
  too_large,    ///< need more memory than a device has
  too_slow,     ///< slower than the listed plans, by their lower bounds or simulated
  unproved,     ///< looked at; no bound covers rows that depend on memory caps, or copies that queue
  not_reached,  ///< within the limit of the search: a faster one may be among them
  rows_decide,  ///< outside the proof: whether a list schedule splits its backward, and so runs, is known only from its rows
};

/// A number of plans that share the reason why they are not among the best.
struct Rejection {
  RejectedAs reason = RejectedAs::too_slow;
  std::int64_t count = 0;
};

/// A choice in which pipelines agree.
struct PipelineChoice {
  enum class Kind { stages_per_device, stages, microbatches, schedule, replicas };
  Kind kind = Kind::stages;
  int number = 0;        ///< of stages_per_device, stages (each on a device of its own) and microbatches
  std::string schedule;  ///< of schedule
  bool operator==(const PipelineChoice&) const = default;
};

/// Pipelines that agree in one choice in which the best plan differs.
struct RejectedClass {
  enum class Why {
    not_executable,   ///< what is `missing`; `time_ratio` of the fastest one seen, 0: none
    rows_decide,      ///< as RejectedAs has it
    too_large,        ///< no plan fits
    slower_by_bound,  ///< at least `time_ratio` times the best step
    seen,             ///< `time_ratio` of the fastest one seen
    seen_and_proved,  ///< likewise, and none is faster
    none_faster,
    not_reached,
  };
  PipelineChoice choice;
  Why why = Why::not_reached;
  std::optional<MissingCapability> missing;
  double time_ratio = 0;   ///< over the best plan's step
  std::int64_t count = 0;  ///< sets of cuts, over all families of the class
};

/// A plan that the runtime cannot execute.
struct NotExecutable {
  Candidate candidate;
  MissingCapability missing{};
};

struct SearchResult {
  std::vector<Candidate>
      ranked;  ///< fastest first, ties by fewer bytes copied, then less memory, then cuts and keys in order; at most `keep`
  std::vector<Rejection> rejected;
  std::vector<RejectedClass> classes;
  std::vector<NotExecutable> not_executable;  ///< of each schedule the fastest one seen, where it is faster than ranked[0]; fastest first
  double lower_bound_s = 0;                   ///< of the executable plans of the space, but for RejectedAs::rows_decide: none is
                                              ///< faster by this model
  bool complete = false;                      ///< ranked[0] is proved the best, and its step equal to the lower bound
  std::int64_t simulated = 0;
  /// Where nothing fits: the smallest bytes over a cap among all plans, and on which device.
  std::int64_t smallest_excess_bytes = 0;
  std::string smallest_excess_device;
  /// Fastest pipelined plan (more than one stage) whose peak is at most half of the un-pipelined one's, index into ranked, -1: none.
  int best_half_memory = -1;
  int best_pipeline = -1;  ///< fastest plan of more than one stage, index into ranked, -1: none
};

/// Families of plans (devices of each stage, micro-batches, schedule) in the order of their lower bounds, the cuts of each by `partition`,
/// with the simulator as objective. Deterministic for given limits. First a plan, then better ones, then the proof; then alternatives.
/// `ranked` always holds the best plan of each kind (one device, all cores, data parallel, pipeline, hybrid, pipeline or hybrid in half the
/// memory), even behind the `keep` fastest; of plans that differ in their placement alone it holds the fastest.
/// Throws Error for choices out of range, and where no plan at all answers to them.
[[nodiscard]] SearchResult search_plans(const SearchSpace& space, const CostModel& cost);

/// Step time against memory: the fastest plan of the space; the fastest of those whose largest peak is at most `share` of that one's and
/// smaller; and so on until nothing fits. With share 1 the whole Pareto front. Each is proved or the best found; memory falls, time rises.
/// The limits of the space hold for all searches together.
[[nodiscard]] std::vector<Candidate> memory_front(const SearchSpace& space, const CostModel& cost, double share);

/// A plan with equal layer counts per stage, or the given cuts: what users name by options. A stage sits where `stage_devices` puts it, or
/// on the device whose row of `actions` has it. Without a profile there are no costs: a schedule that looks at them is the textbook's.
/// Throws Error for more stages than layers, cuts out of range or not ascending, batch smaller than m.
struct PlanOptions {
  std::vector<std::string> devices;
  int batch = 0;
  int layers = 0;
  int stages = 0;          ///< 0: as many as replicas allow
  int virtual_stages = 0;  ///< per device; 0: as many as the schedule has where nobody says it, ScheduleInfo::least_virtual_stages
  std::vector<int> cuts;   ///< empty: equal layer counts
  int microbatches = 0;    ///< 0: min(4 x stages, batch), with replicas at least one each; 1 for naive
  int split_size = 0;      ///< 0: not given; not together with microbatches
  std::string schedule = kDefaultSchedule;  ///< a name; empty: that of `actions`, or the default without any
  std::vector<std::vector<Action>> actions;
  std::string recompute = "none";  ///< "none", "all", or stage numbers "0,2"
  std::vector<int> replicas;       ///< empty: 1 each
};
[[nodiscard]] Plan make_plan(const PlanOptions& options);

/// "" if plans of this schedule are executable, else why not: "the runtime has no split backward (zero bubble) yet". `virtual_stages` as
/// PlanOptions says it. Throws Error for an unknown name and for stages per device that the schedule does not have.
[[nodiscard]] std::string why_schedule_not_executable(const std::string& schedule, int virtual_stages, const Capabilities& capabilities);

/// The stages that `recompute` names, as PlanOptions says it, ascending. Throws Error for words that name none of `stages` stages.
[[nodiscard]] std::vector<int> recomputed_stages(const std::string& recompute, int stages);
/// Throws Error unless the counts are positive and add up to `devices`.
void check_replicas(const std::vector<int>& replicas, int devices);

/// Names of baselines, as studies and JSON have them. `current` is the user's own plan.
inline constexpr const char* kSingleDeviceBaseline = "single_device";
inline constexpr const char* kAllCoresBaseline = "all_cores";
inline constexpr const char* kNaiveBaseline = "naive_model_parallel";
inline constexpr const char* kPipelineBaseline = "default_pipeline";
inline constexpr const char* kDataParallelBaseline = "data_parallel";
inline constexpr const char* kCurrentBaseline = "current";

struct NamedPlan {
  std::string name;
  Plan plan;
};
/// The plans that every tuning run measures: all of these names but `current`; all_cores where the space has such a device. Those that
/// can't exist (more stages than layers, batch smaller than replicas) are left out.
[[nodiscard]] std::vector<NamedPlan> baseline_plans(const SearchSpace& space, int layers);

/// What kind of plan this is, in words of the report: "one device", "data parallel over 2 devices", "pipeline of 2 stages, 1f1b, 8
/// micro-batches of 4".
[[nodiscard]] std::string describe(const Plan& plan);

}  // namespace mptune

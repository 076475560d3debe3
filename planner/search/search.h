#pragma once

#include <cstdint>
#include <functional>
#include <limits>
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

/// One of the device lists to choose from where a pool may be divided in several ways.
struct Division {
  std::vector<std::string> devices;
  std::vector<std::int64_t> memory_bytes;  ///< cap of each device; 0 or an empty list: no cap
  bool operator==(const Division&) const = default;
};

/// What a search may choose from.
struct SearchSpace {
  std::vector<std::string> devices;        ///< distinct; each runs one stage, one replica of a stage, or several stages
  std::vector<std::string> whole_machine;  ///< devices of all cores ("cpu:0-1"), for plans of one stage; may be empty
  std::vector<std::int64_t> memory_bytes;  ///< cap of each of `devices`; 0 or an empty list: no cap
  std::int64_t whole_machine_memory_bytes = 0;
  std::vector<Division> divisions;  ///< device lists: plans over any of them are searched, in place of those over `devices`; may be empty
  int batch = 0;
  std::vector<int> microbatch_counts;  ///< empty: 1, 2, 3, 4, 6, 8, 12, 16, 24, 32 .. up to the batch
  SampleRange samples;                 ///< samples that the model takes in a micro-batch; other counts are left out
  std::vector<std::string> schedules;  ///< empty: all
  std::vector<int> stage_counts;       ///< empty: all that the devices allow
  std::vector<int> virtual_counts;     ///< stages per device; empty: 1, 2, 3 .. as StagesPerDevice says
  std::vector<std::vector<int>> cuts;  ///< empty: all; else only these
  std::vector<int> cut_places;         ///< ascending layers before which stages may begin (with_cut_places()); empty: all
  std::string recompute;               ///< empty: as little as the caps require; else see PlanOptions::recompute
  std::vector<int> replicas;  ///< devices per stage; empty: one each, and every way to share all devices out to the stages; else only these
  std::vector<ExecutionVariant> variants;  ///< empty: the default; variants that the profile has no costs for are left out
  bool exact = false;                      ///< only plans for which is_exact()
  bool keep_numerics = false;              ///< only plans without changed_numerics(): read by suited_space()
  bool no_replicas = false;                ///< every stage has one device
  Capabilities capabilities;               ///< what the runtime can execute; plans that need more are not ranked
  bool idle_devices_help = false;  ///< also plans whose idle devices help, if all `devices` can (planner/helping.h) and the runtime does
  bool look_beyond = true;         ///< also list plans that need more than `capabilities`, if they would be faster
  int keep = 32;                   ///< number of plans to return
  int most_families = 20'000;      ///< families of plans that are listed; others are counted and bounded
  double longest_s = std::numeric_limits<double>::infinity();  ///< finite: among plans of several stages, only faster ones are searched for
  std::int64_t most_actions = 16'000'000;  ///< limit of the work, in simulated actions; `rejected` counts what the search did not reach
  /// Asked every few milliseconds whether the part of the time that the search may use so far, above 0 to 1, is spent. The part is less
  /// than 1 while more `variants` are to be searched. True ends the search of this variant with the plans found so far.
  std::function<bool(double)> stop;
  std::function<void(const Candidate&)> improved;  ///< called with every executable plan that is faster than all earlier ones
};

/// Why plans are not among the best.
enum class RejectedAs {
  too_large,    ///< need more memory than a device's cap
  too_slow,     ///< slower than the listed plans, by lower bound or by simulation
  unproved,     ///< searched without a proof: no bound covers rows that depend on memory caps, copies that queue, or branches
  not_reached,  ///< not searched within the limit of the work: a faster plan may be among them
  rows_decide,  ///< outside the proof: only a `list` plan's rows tell whether it splits its backward, and so whether it is executable
};

/// Number of plans that are not among the best for the same reason.
struct Rejection {
  RejectedAs reason = RejectedAs::too_slow;
  std::int64_t count = 0;
};

/// A choice in which pipelines agree.
struct PipelineChoice {
  enum class Kind { stages_per_device, stages, microbatches, schedule, replicas };
  Kind kind = Kind::stages;
  int number = 0;        ///< number of stages_per_device, stages (each on a device of its own) or microbatches
  std::string schedule;  ///< name of the schedule
  bool operator==(const PipelineChoice&) const = default;
};

/// Pipelines that agree in one choice in which the best plan differs.
struct RejectedClass {
  enum class Why {
    not_executable,   ///< the runtime lacks `missing`; `time_ratio` is that of the fastest plan seen, 0: none seen
    rows_decide,      ///< see RejectedAs::rows_decide
    too_large,        ///< no plan fits
    slower_by_bound,  ///< by lower bound, at least `time_ratio` times the best step
    seen,             ///< simulated; `time_ratio` is that of the fastest plan seen, and a faster one may exist
    seen_and_proved,  ///< simulated, and proved: no plan of the class is faster than the best plan
    none_faster,      ///< no plan was seen, but it is proved that none is faster
    only_as_chain,    ///< for a graph of layers that was searched as a chain: no plan was faster there; nothing is proved of the graph
    not_reached,      ///< no plan was seen, and nothing is proved
  };
  PipelineChoice choice;
  Why why = Why::not_reached;
  std::optional<MissingCapability> missing;
  double time_ratio = 0;   ///< step over the best plan's step
  std::int64_t count = 0;  ///< number of sets of cuts, over all families of the class
};

/// A plan that the runtime cannot execute.
struct NotExecutable {
  Candidate candidate;
  MissingCapability missing{};
};

/// How many stages per device a search tried where the space leaves that open: 1 and 2, then one more each time.
struct StagesPerDevice {
  enum class End {
    all,             ///< as many as layers and schedules allow
    slower,          ///< all plans with more stages per device are slower by lower bound
    nothing_faster,  ///< two numbers in a row had no plan faster than the best before them, so more were not tried
    not_reached,     ///< the work was spent, or only `list` schedules are left, whose rows take too long to make
  };
  int searched = 0;  ///< the largest number of which plans were searched; 0: the space names the number, or there is one device
  int possible = 0;  ///< the largest number that has executable plans
  End end = End::all;
  bool operator==(const StagesPerDevice&) const = default;
};

struct SearchResult {
  std::vector<Candidate>
      ranked;  ///< fastest first, ties by fewer bytes copied, then less memory, then cuts and keys in order; at most `keep`
  std::vector<Rejection> rejected;
  std::vector<RejectedClass> classes;         ///< beside the best plan without fused weight gradients or offloading; empty without a plan
  std::vector<NotExecutable> not_executable;  ///< per schedule the fastest plan seen, if faster than ranked[0]; fastest first
  double lower_bound_s = 0;                   ///< no executable plan of the space is predicted to be faster; RejectedAs::rows_decide
                                              ///< plans, and plans that fuse weight gradients or offload, are not covered; 0: nor is
                                              ///< ranked[0]
  bool complete = false;                      ///< ranked[0] is proved the best, and its step equal to the lower bound
  StagesPerDevice stages_per_device;          ///< for the best plan's memory format
  std::int64_t simulated = 0;
  std::int64_t worked = 0;  ///< work done, in simulated actions (SearchSpace::most_actions)
  /// If no plan fits: the excess over a cap of the plan that comes closest, with the recomputation that was tried, and the device of this
  /// cap.
  std::int64_t smallest_excess_bytes = 0;
  std::string smallest_excess_device;
  /// Index into ranked of the fastest plan of several stages whose peak is at most half of that on one device; -1: none.
  int best_half_memory = -1;
  int best_pipeline = -1;  ///< index into ranked of the fastest plan of several stages; -1: none
};

/// Finds the fastest plans of the space. It takes families of plans in the order of their lower bounds and searches the cuts of each with
/// partition(); the objective is the simulated step. It first finds a plan, then better ones, then the proof, then alternatives. The result
/// is deterministic for given limits.
/// `ranked` always holds the best plan of each kind (one device, all cores, data parallel, pipeline, hybrid, pipeline or hybrid in half the
/// memory), even if it is not among the `keep` fastest. Unless `exact`, it also holds plans with fused weight gradients: the fastest plans
/// that split their backward, changed where that is predicted to save at least 1 % (planner/search/fuse_weights.h). Where memory caps are
/// given and the profile has copies between a device and the host's memory, it also holds plans that offload saved activations
/// (planner/search/offload_stages.h), where that is predicted to save at least 2 % of the step, or no other plan fits; no bound covers
/// them. Among plans that differ only in their placement it holds the fastest. Throws Error if a choice is out of range, or if no plan
/// meets all choices. Plans get the cost model's execution variant; `space.variants` and `space.divisions` are not read. With a finite
/// `longest_s` the best plans of each kind and in half the memory may be missing.
[[nodiscard]] SearchResult search_plans(const SearchSpace& space, const CostModel& cost);

/// Searches all of `space.variants`, each by itself with an equal part of the work. `classes` compare plans in the best plan's memory
/// format. Throws Error as above, and where the profile has costs for none of the options. With `space.divisions`, each division is looked
/// at first with a part of the work; then those whose lower bound is below the best step are searched, the best so far first. All share the
/// best step found, so the answer is the best of all within the limit of the work.
[[nodiscard]] SearchResult search_plans(const SearchSpace& space, const Profile& profile);

/// Returns step time against memory: first the fastest plan of the space, then repeatedly the fastest whose largest peak is below the
/// previous plan's and at most `share` of it, until no plan fits. With share 1 this is the whole Pareto front. Each plan is proved optimal
/// or the best found. Memory falls and time rises from plan to plan. The limits of the space hold for all searches together. `known` are
/// plans that a search of this space ranked. The fastest of them is the first, and among those that fit further caps none is slower.
[[nodiscard]] std::vector<Candidate> memory_front(const SearchSpace& space, const CostModel& cost, double share,
                                                  const std::vector<Candidate>& known = {});
/// Returns the front over all of `space.variants` and `space.divisions`.
[[nodiscard]] std::vector<Candidate> memory_front(const SearchSpace& space, const Profile& profile, double share,
                                                  const std::vector<Candidate>& known = {});

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

/// Names of baselines, as studies and JSON have them. `current` is the user's own plan, `asked_for` the fastest that a restricted search
/// allows.
inline constexpr const char* kSingleDeviceBaseline = "single_device";
inline constexpr const char* kAllCoresBaseline = "all_cores";
inline constexpr const char* kAllCoresChannelsLastBaseline = "all_cores_channels_last";
inline constexpr const char* kNaiveBaseline = "naive_model_parallel";
inline constexpr const char* kPipelineBaseline = "default_pipeline";
inline constexpr const char* kDataParallelBaseline = "data_parallel";
inline constexpr const char* kCurrentBaseline = "current";
inline constexpr const char* kAskedBaseline = "asked_for";

struct NamedPlan {
  std::string name;
  Plan plan;
};
/// Returns the plans that every tuning run measures: all of these names but `current` and `asked_for`; all_cores where the space has a
/// device of all cores, all_cores_channels_last where the space also has that memory format. Where the model takes no micro-batch of the
/// whole batch, the plans have as few micro-batches as it takes. Plans that can't exist (more stages than layers, batch smaller than
/// replicas, naive with several micro-batches) are left out.
[[nodiscard]] std::vector<NamedPlan> baseline_plans(const SearchSpace& space, int layers, Precision precision = Precision::float32);

/// Returns the plan in words, for reports: "one device", "data parallel over 2 devices", "pipeline of 2 stages, 1f1b, 8 micro-batches of
/// 4".
[[nodiscard]] std::string describe(const Plan& plan);

}  // namespace mptune

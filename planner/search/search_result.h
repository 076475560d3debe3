#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "planner/plan/executable.h"
#include "planner/search/space/search_space.h"

namespace mptune {

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

}  // namespace mptune
